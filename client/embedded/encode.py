"""Completes datasets in the cache: redundancy over the nodes, then the file map that says so."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import msgspec
from mpi4py import MPI

from .cache import FileMap, NodeCache
from .redundancy import Member, encode
from .settings import Levers
from .topology import Topology, redundancy_sets

_LEAST_MEMBERS = 2


@dataclass(frozen=True)
class _Set:
    """The ranks that protect each other, this one among them."""

    members: tuple[int, ...]
    comm: MPI.Intracomm


@dataclass(frozen=True)
class Encoder:
    """Every method is collective over `comm`; none raises OSError."""

    comm: MPI.Intracomm
    topology: Topology
    cache: NodeCache
    tell: Callable[[str], None]
    _sets: dict[tuple[str, int], _Set | None] = field(default_factory=dict)

    def complete(self, mine: FileMap, levers: Levers) -> FileMap | None:
        """Encode a dataset and note it in the cache; None when a rank could not note it.

        `mine` lists this rank's files. Where redundancy data cannot be written the dataset stays, as SINGLE.
        """
        place = self._set_for(levers)
        filemap = mine if place is None else self._encode(mine, place, levers)
        try:
            self.cache.write(filemap)
            problem = ""
        except OSError as error:
            problem = str(error)
        problem = self._first(problem)
        if problem:
            self.tell(f"dataset {mine.dataset} ({mine.name}) is lost, the cache cannot note it: {problem}")
        return None if problem else filemap

    def free(self) -> None:
        """Free the communicators of the sets."""
        for place in self._sets.values():
            if place is not None:
                place.comm.Free()
        self._sets.clear()

    def _encode(self, mine: FileMap, place: _Set, levers: Levers) -> FileMap:
        filemap = msgspec.structs.replace(
            mine,
            scheme=levers.scheme,
            members=place.members,
            files=tuple(place.comm.allgather(mine.files[0])),
        )
        own = [(self.cache.file(mine.dataset, file.name), file.size) for file in mine.files[0]]
        redundancy = self.cache.redundancy(mine.dataset, mine.rank)
        member = Member(place.comm, own, redundancy, filemap.sizes, levers.mpi_buffer_bytes)
        error = encode(levers.scheme, member)
        problem = self._first(str(error) if error else "")
        if not problem:
            return filemap
        self.tell(f"dataset {mine.dataset} ({mine.name}) stays without redundancy: {problem}")
        with suppress(OSError):
            redundancy.unlink()
        return mine

    def _set_for(self, levers: Levers) -> _Set | None:
        """This rank's set; None for SINGLE, and where SCR, too, falls back to it: on a single node."""
        if levers.scheme == "SINGLE" or self.topology.nodes == 1:
            return None
        size = max(_LEAST_MEMBERS, levers.set_size) if levers.scheme == "XOR" else None
        key = (levers.scheme, size or 0)
        if key not in self._sets:
            self._sets[key] = self._make_set(levers.scheme, size)
        return self._sets[key]

    def _make_set(self, scheme: str, size: int | None) -> _Set | None:
        sets = redundancy_sets(self.topology.node_of, size)
        if min(map(len, sets)) < _LEAST_MEMBERS:
            self.tell(f"{scheme} needs equally many ranks on at least two nodes: SINGLE instead")
            return None
        rank = self.topology.rank
        members = next(members for members in sets if rank in members)
        comm = self.comm.Split(members[0], members.index(rank))
        return _Set(members, cast("MPI.Intracomm", comm))

    def _first(self, problem: str) -> str:
        """The first problem that any rank has, or an empty text."""
        return next(filter(None, self.comm.allgather(problem)), "")
