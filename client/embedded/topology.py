"""The ranks of a job: the node each is on, the sets that protect each other, and what they do together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from mpi4py import MPI

from ..engine import say


def nodes_by_host(hosts: Sequence[str]) -> tuple[int, ...]:
    """Return the node of each rank, given the host name of each rank: SCR distinguishes nodes by these."""
    numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
    return tuple(numbers[host] for host in hosts)


def nodes_by_count(ranks: int, nodes: int) -> tuple[int, ...]:
    """Return the node of each rank in `nodes` contiguous blocks. Raises ValueError for too many or none."""
    if not 1 <= nodes <= ranks:
        raise ValueError(f"{nodes} nodes for {ranks} ranks: it must be at least 1 and at most the ranks")
    return tuple(rank * nodes // ranks for rank in range(ranks))


def redundancy_sets(node_of: Sequence[int], set_size: int | None) -> list[tuple[int, ...]]:
    """Return the sets of ranks that protect each other: the ranks with equal numbers on their nodes.

    `set_size` is the least number of members (SCR_SET_SIZE), if there are so many; None: all nodes.
    """
    by_node: dict[int, list[int]] = {}
    for rank, node in enumerate(node_of):
        by_node.setdefault(node, []).append(rank)
    sets: list[tuple[int, ...]] = []
    for ranks in zip_longest(*(by_node[node] for node in sorted(by_node))):
        column = [rank for rank in ranks if rank is not None]
        count = 1 if set_size is None else max(1, len(column) // set_size)
        bounds = [number * len(column) // count for number in range(count + 1)]
        sets += [tuple(column[low:high]) for low, high in pairwise(bounds)]
    return sets


@dataclass(frozen=True)
class RankGroup:
    """The ranks of `comm`, and `node_of` each: nodes are numbered in the order of their first rank."""

    comm: MPI.Intracomm
    node_of: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(set(self.node_of))

    @property
    def node(self) -> int:
        """The node of this rank."""
        return self.node_of[self.comm.rank]

    @property
    def is_leader(self) -> bool:
        """Return whether this is the first rank of its node."""
        return self.node_of.index(self.node) == self.comm.rank

    def attempt(self, action: Callable[[], object], failure: str, *, on: int | None = None) -> bool:
        """Run `action` on every rank, or on the rank `on` alone; return whether that raised no OSError.

        Rank 0 reports one of them, as the reason for `failure`. Collective.
        """
        error = _error_of(action) if on in (None, self.comm.rank) else ""
        problem = next(filter(None, self.comm.allgather(error)), "")
        if problem:
            self.warn(f"{failure}: {problem}")
        return not problem

    def warn(self, text: str) -> None:
        """Write `text` to standard error if this is rank 0. Not collective."""
        if self.comm.rank == 0:
            say(text)


def _error_of(action: Callable[[], object]) -> str:
    try:
        action()
    except OSError as error:
        return str(error) or type(error).__name__
    return ""
