"""Whether the processes of a node do the same, so that tracing one of them shows what all do."""

from ...intents.trace.digest import MAX_THREADS, MOVES_DATA, AccessSum, Group

_SAME = 0.25
_LEAST_CALLS = 4


class AlikeProcesses:
    """What each process of a node read and wrote since all of them were traced.

    While one stands for several, `standing_for` is their number; else it is 1.
    """

    def __init__(self, standing_for: int = 1) -> None:
        self.standing_for = standing_for
        self._moved: dict[int, tuple[int, int]] = {}
        self._new: set[int] = set()

    def add(self, found: AccessSum) -> None:
        """Take in what a process did."""
        pid = found.thread[0]
        if pid is None or found.op not in MOVES_DATA:
            return
        if pid not in self._moved and len(self._moved) >= MAX_THREADS:
            return
        calls, size = self._moved.get(pid, (0, 0))
        self._moved[pid] = (calls + found.calls, size + found.bytes)
        self._new.add(pid)

    def take(self) -> int:
        """Return for how many processes each one stands in what was added since the last call."""
        new, self._new = self._new, set()
        return self.standing_for if len(new) == 1 else 1

    @property
    def has_another(self) -> bool:
        """Whether a process was seen that was not compared with those that one stands for."""
        return len(self._moved) > self.standing_for > 1

    def count(self) -> int:
        """Return how many processes there are, all with as many calls and bytes within a quarter; else 1."""
        if not self._moved:
            return 1
        calls, sizes = zip(*self._moved.values(), strict=True)
        are_alike = all(min(each) >= (1 - _SAME) * max(each) for each in (calls, sizes))
        return len(self._moved) if are_alike and min(calls) >= _LEAST_CALLS else 1


class CountedGroup(Group):
    """Accesses that are summed up together, and by process as well."""

    __slots__ = ("_alike",)

    def __init__(self, alike: AlikeProcesses) -> None:
        super().__init__()
        self._alike = alike

    def add(self, found: AccessSum) -> None:
        """Add accesses."""
        super().add(found)
        self._alike.add(found)
