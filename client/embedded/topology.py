"""Which rank is on which node, and which ranks protect each other. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Topology:
    """`node_of[r]` is the node of rank r; nodes are numbered from 0 in the order of their first rank."""

    rank: int
    node_of: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """How many ranks."""
        return len(self.node_of)

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return len(set(self.node_of))

    @property
    def node(self) -> int:
        """The node of this rank."""
        return self.node_of[self.rank]

    @property
    def is_leader(self) -> bool:
        """Whether this is the first rank of its node."""
        return self.node_of.index(self.node) == self.rank


def nodes_by_host(hosts: Sequence[str]) -> tuple[int, ...]:
    """Node of each rank, from the host name of each rank; as SCR tells nodes apart."""
    numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
    return tuple(numbers[host] for host in hosts)


def nodes_by_count(ranks: int, nodes: int) -> tuple[int, ...]:
    """Node of each rank, when `ranks` are split into `nodes` contiguous blocks.

    Raises ValueError unless 1 <= nodes <= ranks.
    """
    if not 1 <= nodes <= ranks:
        raise ValueError(f"{nodes} nodes for {ranks} ranks: it must be at least 1 and at most the ranks")
    return tuple(rank * nodes // ranks for rank in range(ranks))


def redundancy_sets(node_of: Sequence[int], set_size: int | None) -> list[tuple[int, ...]]:
    """Sets of ranks that protect each other: one rank per node, those with the same number on their node.

    `set_size` is the least number of members of a set, as SCR_SET_SIZE; None puts all nodes in one.
    A set may come out smaller when there are fewer nodes, or nodes with fewer ranks.
    """
    columns: dict[int, list[int]] = {}
    seen: dict[int, int] = {}
    for rank, node in enumerate(node_of):
        local = seen.get(node, 0)
        seen[node] = local + 1
        columns.setdefault(local, []).append(rank)
    sets: list[tuple[int, ...]] = []
    for column in columns.values():
        column.sort(key=lambda rank: node_of[rank])
        count = 1 if set_size is None else max(1, len(column) // set_size)
        bounds = [number * len(column) // count for number in range(count + 1)]
        sets += [tuple(column[low:high]) for low, high in pairwise(bounds)]
    return sets
