"""Whether the processes of a node do the same, so that tracing one of them shows what all do."""

from collections.abc import Mapping

Moved = tuple[int, int]
"""Calls that read or wrote, and their bytes."""

_SAME = 0.25
_LEAST_CALLS = 4


class AlikeProcesses:
    """What each process of a node read and wrote since all of them were traced."""

    def __init__(self) -> None:
        self._moved: dict[int, Moved] = {}

    def add(self, moved: Mapping[int, Moved]) -> None:
        """Take in what was traced, by process id."""
        for pid, (calls, size) in moved.items():
            before = self._moved.get(pid, (0, 0))
            self._moved[pid] = (before[0] + calls, before[1] + size)

    @property
    def count(self) -> int:
        """The number of processes, if all made as many calls of as many bytes, within a quarter; else 1."""
        calls, sizes = zip(*self._moved.values(), strict=True) if self._moved else ((0,), (0,))
        are_alike = min(calls) >= _LEAST_CALLS and all(
            min(each) >= (1 - _SAME) * max(each) for each in (calls, sizes)
        )
        return len(self._moved) if are_alike else 1
