"""Where the numbers of steps go back within a run: there the job begins again, and nobody has to say so."""

from typing import NamedTuple

import numpy as np

from ..ledger.claims import NEVER, Longs
from ..ledger.pending_events import NO_STEP, WHOLE, Key, Stream

_COUNTED_ON = 4
"""So many steps must follow each other, each time, before a number without a name is believed to go back."""


class _Before(NamedTuple):
    """What the settled steps of a stream end with: when the last ones began, and their numbers.

    The first of these stands for all before it, with the highest number since its attempt began. `attempt` is
    the index of the one with which the last attempt began, `backs` are the times at which numbers went back.
    """

    times: Longs = np.full(1, -NEVER, np.int64)
    numbers: Longs = np.full(1, -NEVER, np.int64)
    attempt: int = 1
    backs: tuple[int, ...] = ()


class StepRollback:
    """The times at which attempts of the job begin because steps went back.

    A named writer goes back with a number that is not above its last one in the same run. Of numbers that
    several may tell without a name, one must lie at least two below the highest of its attempt, which must be
    the last one, and the steps before it and behind it must each count on. The first time that any writer
    goes back within a run is the begin of the job's second attempt in that run, the second time that of the
    third, and so on.
    """

    def __init__(self) -> None:
        self.attempts: set[int] = set()
        """Never changed, but replaced: what is kept of it stays as it was."""
        self._before: dict[Key, _Before] = {}
        self._backs: dict[int, dict[Key, list[int]]] = {}
        """By run and stream."""
        self._of_run: dict[int, set[int]] = {}
        self._found: dict[Key, list[int]] = {}

    def read(self, stream: Stream, begin: int, tokens: tuple[Longs, Longs], starts: Longs) -> None:
        """Look at the `tokens` from `begin` on: at 0, or at the last `settled` that was read to."""
        time, number = tokens
        settled = stream.settled - begin
        if stream.kind == WHOLE:
            is_step = number != NO_STEP
            settled = int(is_step[:settled].sum())
            time, number = time[is_step], number[is_step]
        if not begin and _goes_up(number):  # the usual case, of a million steps: the last ones say it all
            cut = max(0, settled - 2 * _COUNTED_ON)
            time, number, settled = time[cut:], number[cut:], settled - cut
        before = self._before.get(stream.key, _Before()) if begin else _Before()
        first = len(before.times)
        time, number = np.append(before.times, time), np.append(before.numbers, number)
        if stream.writer:
            back = _named(time, number, first, starts)
        else:
            back = _nameless(time, number, (first, before.attempt), starts)
        backs = [*before.backs, *time[back].tolist()]
        if backs != self._found.get(stream.key, []):
            self._enter(stream.key, backs, starts)
        if settled > 0:
            self._before[stream.key] = _kept((time, number), back, before, first + settled, starts)

    def _enter(self, key: Key, backs: list[int], starts: Longs) -> None:
        before, self._found[key] = set(self._found.get(key, [])), backs
        runs = np.searchsorted(starts, backs, side="right").tolist()
        changed = before.symmetric_difference(backs)
        for run in set(np.searchsorted(starts, list(changed), side="right").tolist()):
            of_run = self._backs.setdefault(run, {})
            of_run[key] = [time for time, its_run in zip(backs, runs, strict=True) if its_run == run]
            most = max(map(len, of_run.values()))
            firsts = {min(each[at] for each in of_run.values() if len(each) > at) for at in range(most)}
            self.attempts = (self.attempts - self._of_run.get(run, set())) | firsts
            self._of_run[run] = firsts


def nameless_rollbacks(time: Longs, number: Longs, starts: Longs) -> Longs:
    """Indexes of the steps with which a nameless writer goes back; all in order, each once."""
    before = _Before()
    times, numbers = np.append(before.times, time), np.append(before.numbers, number)
    return _nameless(times, numbers, (1, before.attempt), starts) - 1


def _kept(tokens: tuple[Longs, Longs], back: Longs, before: _Before, settled: int, starts: Longs) -> _Before:
    """What the first `settled` tokens end with, of which those in `back` went back."""
    time, number = tokens
    gone = back[back < settled]
    attempt = max(int(gone[-1]) if len(gone) else before.attempt, _run_begins(time, settled - 1, starts))
    low = max(0, settled - _COUNTED_ON - 1)
    highest = int(number[min(attempt, low) : low + 1].max()) if attempt <= low else -NEVER
    return _Before(
        np.append(time[low], time[low:settled]),
        np.append(highest, number[low:settled]),
        max(0, attempt - low + 1) if attempt > low else 0,
        (*before.backs, *time[gone].tolist()),
    )


def _named(time: Longs, number: Longs, first: int, starts: Longs) -> Longs:
    """Indexes, from `first` on, of the tokens with which a writer goes back."""
    found = np.flatnonzero(number[first:] <= number[first - 1 : -1]) + first
    here, there = (np.searchsorted(starts, time[at], side="right") for at in (found, found - 1))
    made: Longs = found[here == there]
    return made


def _nameless(time: Longs, number: Longs, begin: tuple[int, int], starts: Longs) -> Longs:
    """Indexes of the tokens with which the only writer without a name goes back.

    `begin` says from which token on, and with which one the attempt before that began.
    """
    first, low = begin
    down = np.flatnonzero(number[first:] < number[first - 1 : -1]) + first
    down = down[down + 2 < len(number)]
    if not len(down):
        return down
    stride = np.diff(number)
    down = down[(stride[down] > 0) & (stride[down] == stride[down + 1])]
    found: list[int] = []
    upto, highest = low, -NEVER
    for at in down.tolist():
        begins = _run_begins(time, at, starts)
        if begins > low:
            low, upto, highest = begins, begins, -NEVER
        highest = max(highest, int(number[upto:at].max(initial=-NEVER)))
        upto = at
        count = min(highest - int(number[at]), _COUNTED_ON)
        last, early = at + count, max(low, at - 1 - count)
        if count < 2 or number[at - 1] != highest or last >= len(number):  # noqa: PLR2004 - by two at least
            continue
        counts_on = _counts_on(stride[early : at - 1]) and _counts_on(stride[at:last])
        if counts_on and _run_begins(time, last, starts) == begins:
            found.append(at)
            low, highest = at, -NEVER
    return np.array(found, np.int64)


def _goes_up(number: Longs) -> bool:
    return bool((number[1:] > number[:-1]).all())


def _counts_on(stride: Longs) -> bool:
    return bool((stride > 0).all() and (stride == stride[:1]).all())


def _run_begins(time: Longs, at: int, starts: Longs) -> int:
    """The first token in the run of the token `at`."""
    run = int(np.searchsorted(starts, time[at], side="right"))
    return int(np.searchsorted(time, starts[run - 1])) if run else 0
