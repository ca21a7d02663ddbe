"""Group the job starts that the ranks of one launch recorded."""

from collections.abc import Callable, Iterable

import numpy as np

from ..ledger.claims import NEVER, Longs

Start = tuple[int, str]
"""When, and who says so."""


class Launches:
    """The starts that were told, and the runs that they begin: those, in order, at `begins`.

    A start joins the run before it if its writer is named and has not started in that run, and if since that
    run began no step began and no end was told. Any other one begins a run.
    """

    def __init__(self) -> None:
        self.begins: list[int] = []
        self._known: set[Start] = set()
        self._writers: list[set[str]] = [set()]
        self._last: list[int] = [-NEVER]
        self._have_joined = False

    def unknown(self, starts: Iterable[Start]) -> set[Start]:
        """Those of `starts` that were not told before."""
        return set(starts) - self._known

    def add(self, starts: set[Start], interrupted: Callable[[int], int]) -> set[int]:
        """Take in unknown `starts`, which lie behind all others; returns when runs begin.

        `interrupted` says when at or after a time a step began, or an end was told behind it.
        """
        self._known |= starts
        made: set[int] = set()
        until = None
        for time, writer in sorted(starts):
            if self.begins and writer and writer not in self._writers[-1]:
                until = interrupted(self.begins[-1]) if until is None else until
                if until >= time:
                    self._writers[-1].add(writer)
                    self._last[-1] = time
                    self._have_joined = True
                    continue
            self.begins.append(time)
            self._writers.append({writer} - {""})
            self._last.append(time)
            made.add(time)
            until = None
        return made

    def anew(self, interrupted: Callable[[int], int]) -> None:
        """Find the runs of all starts that were told."""
        self.begins, self._writers, self._last = [], [set()], [-NEVER]
        self.add(self._known, interrupted)

    def know(self, starts: Iterable[Start]) -> None:
        """These were told, too: which runs they begin is found :meth:`anew`."""
        self._known |= set(starts)

    def writers(self, run: int) -> set[str]:
        """The named writers that started in a run, which are counted from 1."""
        return self._writers[run]

    def last_start(self) -> int:
        """When the last writer of the last run started."""
        return self._last[-1]

    def is_within(self, times: Longs) -> bool:
        """Whether any of `times` lies between the starts of writers that joined each other."""
        if not self._have_joined:
            return False
        runs = np.searchsorted(np.array(self.begins, np.int64), times, side="right")
        return bool((np.array(self._last, np.int64)[runs] > times).any())
