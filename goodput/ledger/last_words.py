"""When the writers of a job were last heard of in each of its runs."""

from functools import cached_property

import numpy as np

from .. import buckets
from .claims import Longs, reduced_by_key
from .facts import NOBODY, Facts, StreamNames
from .runs import Runs
from .times import NEVER


class LastWords:
    """The last words of writers in `runs`, by `facts`, and by what is `known` of the run `at_run`.

    A writer in a run is one number: its key.
    """

    def __init__(
        self, facts: Facts, runs: Runs, names: StreamNames, known: tuple[Longs, Longs], at_run: int
    ) -> None:
        self._facts, self._runs, self._names = facts, runs, names
        self._known, self._at_run = known, at_run
        self._width = len(runs.starts) + 1

    def of_runs(self) -> tuple[Longs, Longs]:
        """Return runs, and the last word of anybody in each."""
        keys, times = self._all
        return reduced_by_key(np.maximum, keys % self._width, times, are_in_order=False)

    def of_writers(self, run: int, until: int) -> tuple[Longs, Longs]:
        """Return writers, and the last word of each in a run before a moment."""
        keys, times = self._before(until)
        here = keys % self._width == run
        return keys[here] // self._width - 1, times[here]

    def last(self, writer: Longs, run: Longs) -> Longs:
        """Return when writers were last heard of in runs, or said that these ended, or else anybody did."""
        key = self._key(writer, run)
        anybody, keys, times = self._ends
        ended = _looked_up(keys, times, key)
        ended = np.where(ended > -NEVER, ended, anybody[run])
        return np.maximum(_looked_up(*self._all, key), ended)

    @cached_property
    def _all(self) -> tuple[Longs, Longs]:
        return self._before(NEVER)

    def _before(self, until: int) -> tuple[Longs, Longs]:
        """Return the last word before a moment of each writer in each run, by key."""
        facts, codes = self._facts, self._names.codes
        closed, borders, moments = facts.closed, facts.borders, facts.moments
        stream_writer, stream_kind = self._names.columns()
        between = [codes[name] for name in sorted(buckets.NOT_THE_RUNS_OWN)]
        own = ~np.isin(closed.kind, between)
        is_word = ~np.isin(stream_kind[borders.stream], between)
        at_once = [time for each in (moments.starts, moments.ends, moments.halts) for time, *_ in each]
        points = np.append(facts.points, np.array(at_once, np.int64))
        words = [
            (facts.steps.stream, facts.steps.time),
            (stream_writer[borders.stream[is_word]], borders.time[is_word]),
            (closed.writer[own], closed.start[own]),
            (closed.writer[own], closed.end[own]),
            (np.full(len(points), NOBODY), points),
        ]
        known, latest = self._known
        keys, times = [self._key(known, np.full(len(known), self._at_run))], [latest]
        for writer, time in words:
            early = slice(None) if until == NEVER else time < until
            key, last = reduced_by_key(np.maximum, self._key(writer, self._runs.of(time))[early], time[early])
            keys.append(key)
            times.append(last)
        return reduced_by_key(np.maximum, np.concatenate(keys), np.concatenate(times), are_in_order=False)

    def _key(self, writer: Longs, run: Longs) -> Longs:
        return (writer + 1) * self._width + run

    @cached_property
    def _ends(self) -> tuple[Longs, Longs, Longs]:
        """When somebody last said that each run ended; and when each writer did, by key."""
        anybody = np.full(self._width, -NEVER)
        own: dict[int, int] = {}
        for run, (time, _, writer) in self._runs.ends():
            anybody[run] = time
            own[(self._names.writer(writer) + 1) * self._width + run] = time
        keys = np.array(sorted(own), np.int64)
        return anybody, keys, np.array([own[key] for key in keys.tolist()], np.int64)


def _looked_up(keys: Longs, values: Longs, wanted: Longs) -> Longs:
    """Return the values of the wanted keys, of those in order, or long ago."""
    if not len(keys):
        return np.full(len(wanted), -NEVER)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], -NEVER)
