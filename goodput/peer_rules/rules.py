"""The rules of ml-goodput-measurement 0.2.3 over our events: the policy ``compat``.

The numbers are that library's, its faults included (`docs/goodput-compat.md` lists them): who compares must
get what was got before. The policy ``conserving`` (:mod:`.ledger`) is the one whose buckets add up. The order
of events is their order of arrival, as it is there; the writer of an event does not matter.
"""

from collections.abc import Iterable
from math import modf

import msgspec

from ..events import GoodputEvent
from ..validation import span
from .types import BREAKDOWN_ORDER, ELASTIC_BADPUT, BadputTimes, BadputType
from .walk import Walk

_DISCOUNTED = (
    ("device_init", BadputType.TPU_INITIALIZATION),
    ("training_prep", BadputType.TRAINING_PREP),
)

_ELASTIC = {
    "elastic_scale_up": BadputType.ELASTIC_SCALE_UP,
    "elastic_slice_down": BadputType.ELASTIC_SLICE_DOWN,
    "elastic_reinit": BadputType.ELASTIC_REINITIALIZATION,
}


_ROUNDING_S = 1e-5
"""Sums of up to millions of steps, each to the microsecond, may be so much too large."""


class CompatError(ValueError):
    """These events have no goodput by the peer's rules; the text says what is wrong with them."""


class CompatAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer's rules make of a job. Times in seconds.

    `badput_s` need not sum to what `total_s` has left beside `productive_s`: ``DATA_LOADING_ASYNC`` overlaps
    with steps, and ``OTHER`` is never below 0. `max_productive_step` is the last step that counts,
    `last_step` the last one that was recorded.
    """

    total_s: float
    productive_s: float
    badput_s: BadputTimes
    max_productive_step: int = 0
    last_step: int = 0
    disruptions: int = 0
    elastic: bool = False

    @property
    def goodput_percent(self) -> float:
        """Productive time as percent of the total."""
        return self.productive_s / self.total_s * 100

    def breakdown(self) -> BadputTimes:
        """Badput as percent of the total; what takes the whole of it counts as 0, as it does there."""
        percent: BadputTimes = {}
        for badput in BREAKDOWN_ORDER:
            if badput in ELASTIC_BADPUT and not self.elastic:
                continue
            spent_s = self.badput_s.get(badput, {} if badput is BadputType.CUSTOM_BADPUT_EVENTS else 0.0)
            if isinstance(spent_s, dict):
                percent[badput] = {name: self._percent(part_s) for name, part_s in spent_s.items()}
            else:
                percent[badput] = self._percent(spent_s)
        return percent

    def _percent(self, spent_s: float) -> float:
        return spent_s / self.total_s * 100 if 0 < spent_s < self.total_s else 0.0


def compat_account(events: Iterable[GoodputEvent], now: float, *, elastic: bool = False) -> CompatAccount:
    """Account for a job until its last end, or until `now` (epoch seconds) if it never ended.

    The clock starts at the first :class:`~.events.JobStarted`. With `elastic`, the waits and
    re-initialisations of an elastic job are badput of their own. Raises :class:`CompatError` where the peer
    raises ``ValueError``: no start of the job, no time at all, or more productive time than time.
    """
    return account_of(_walked(events), now, elastic=elastic)


def account_of(walk: Walk, now: float, *, elastic: bool = False) -> CompatAccount:
    """The same for events that were walked already: the next ones need not begin anew."""
    if walk.first_job_start_s is None:
        raise CompatError(
            "no start of the job among the events: record_job_start_time was not called, or the log or the "
            "job name is another one"
        )
    end_s = now if walk.job_end_s is None else walk.job_end_s
    return _account(walk, _whole_us(end_s) - _whole_us(walk.first_job_start_s), elastic=elastic)


def compat_window(
    events: Iterable[GoodputEvent], start_s: float, end_s: float, *, elastic: bool = False
) -> CompatAccount:
    """Account for the events after `start_s` and up to `end_s` (epoch seconds) as if they were a job's all.

    The total is the time from the first of these events to the last one, not the window's length. Raises
    :class:`CompatError` if there are no two moments to tell of, or more productive time than that.
    """
    inside = [event for event in events if start_s < span(event)[0] <= end_s]
    first_s, last_s = (span(inside[0])[0], span(inside[-1])[0]) if inside else (None, None)
    return window_of(_walked(inside), first_s, last_s, elastic=elastic)


def window_of(walk: Walk, first_s: float | None, last_s: float | None, *, elastic: bool) -> CompatAccount:
    """The same for events that were walked already, the first and the last of which were at these times."""
    if first_s is None or last_s is None:
        raise CompatError("no events in the window")
    if first_s >= last_s:
        raise CompatError("the window's first event is not before its last one: no time to account for")
    return _account(walk, _whole_us(last_s) - _whole_us(first_s), elastic=elastic)


def _walked(events: Iterable[GoodputEvent]) -> Walk:
    walk = Walk()
    for event in events:
        walk.handle(event)
    return walk


def _account(walk: Walk, total_s: float, *, elastic: bool) -> CompatAccount:
    from .segments import spent  # noqa: PLC0415 - numpy: who never asks shall not pay for it

    productive_s, badput_s, max_step, last_step = spent(walk)
    if elastic:
        _add_elastic(badput_s, walk)
    if total_s == 0:
        raise CompatError("the job took no time at all: its start and its end are the same moment")
    if not 0 <= productive_s <= total_s:
        raise CompatError(
            f"{productive_s!r} s of productive time in {total_s!r} s: {_why(productive_s, total_s)}"
        )
    _drop_the_impossible(badput_s, total_s)
    known_s = sum(
        sum(spent_s.values()) if isinstance(spent_s, dict) else spent_s
        for badput, spent_s in badput_s.items()
        if badput is not BadputType.DATA_LOADING_ASYNC
    )
    badput_s[BadputType.OTHER] = max(0.0, total_s - productive_s - known_s)
    return CompatAccount(
        total_s=total_s,
        productive_s=productive_s,
        badput_s=badput_s,
        max_productive_step=max_step,
        last_step=last_step,
        disruptions=len(walk.segments),
        elastic=elastic,
    )


def _why(productive_s: float, total_s: float) -> str:
    """Why the productive time is none."""
    if productive_s < 0:
        return "saves take more than the steps that count there: those that the next number follows"
    if productive_s - total_s < _ROUNDING_S:
        return "no more than a rounding error, but that is an error there, too"
    return "steps lie outside the job's time, or are of several writers, or are told out of order"


def _add_elastic(badput_s: BadputTimes, walk: Walk) -> None:
    waits = [kind for kind in walk.spans if kind in {"elastic_scale_up", "elastic_slice_down"}]
    for kind in (*waits, "elastic_reinit"):
        if kind in walk.spans:
            badput_s[_ELASTIC[kind]] = sum(end_s - start_s for start_s, end_s in walk.spans[kind])
    # what a re-initialisation has in it is not counted twice
    reinits = walk.spans.get("elastic_reinit", ())
    for kind, badput in _DISCOUNTED:
        overlaps = (
            min(end_s, reinit_end_s) - max(start_s, reinit_start_s)
            for start_s, end_s in walk.spans.get(kind, ())
            for reinit_start_s, reinit_end_s in reinits
        )
        overlap_s = sum(overlap_s for overlap_s in overlaps if overlap_s > 0)
        spent_s = badput_s[badput]
        if overlap_s > 0 and not isinstance(spent_s, dict):
            badput_s[badput] = max(0.0, spent_s - overlap_s)


def _drop_the_impossible(badput_s: BadputTimes, total_s: float) -> None:
    """A bucket below 0 or above the total counts as 0."""
    for badput, spent_s in badput_s.items():
        if isinstance(spent_s, dict):
            badput_s[badput] = {
                name: part_s if 0 <= part_s <= total_s else 0.0 for name, part_s in spent_s.items()
            }
        elif not 0 <= spent_s <= total_s:
            badput_s[badput] = 0.0


def _whole_us(time_s: float) -> float:
    """The time as a datetime would have it."""
    fraction_s, whole_s = modf(time_s)
    return (int(whole_s) * 1_000_000 + round(fraction_s * 1e6)) / 1_000_000
