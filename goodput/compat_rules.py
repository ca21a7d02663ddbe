"""The rules of ml-goodput-measurement 0.2.3 over our events: the policy ``compat``.

The numbers are that library's, its faults included (`docs/goodput-compat.md` lists them): who compares must
get what was got before. The policy ``conserving`` (:mod:`.ledger`) is the one whose buckets add up. The order
of events is their order of arrival, as it is there; the writer of an event does not matter.
"""

from collections.abc import Iterable, Sequence
from math import modf

import msgspec
import numpy as np
import numpy.typing as npt

from .compat_types import ELASTIC_BADPUT, BadputTimes, BadputType
from .compat_walk import Segment, Walk
from .events import GoodputEvent
from .sanity import span

_DISCOUNTED = (
    ("device_init", BadputType.TPU_INITIALIZATION),
    ("training_prep", BadputType.TRAINING_PREP),
)


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
        for badput in BadputType:
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
    if not inside:
        raise CompatError("no events in the window")
    first_s, last_s = span(inside[0])[0], span(inside[-1])[0]
    if first_s >= last_s:
        raise CompatError("the window's first event is not before its last one: no time to account for")
    return _account(_walked(inside), _whole_us(last_s) - _whole_us(first_s), elastic=elastic)


def _walked(events: Iterable[GoodputEvent]) -> Walk:
    walk = Walk()
    for event in events:
        walk.handle(event)
    return walk


def _account(walk: Walk, total_s: float, *, elastic: bool) -> CompatAccount:
    productive_s, badput_s, max_step, last_step = _spent(walk)
    if elastic:
        _add_elastic(badput_s, walk)
    if total_s == 0:
        raise CompatError("the job took no time at all: its start and its end are the same moment")
    if not 0 <= productive_s <= total_s:
        raise CompatError(
            f"{productive_s:.6f} s of productive time in {total_s:.6f} s: steps and checkpoints of these "
            "events cannot be from one writer, in order"
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


def _spent(walk: Walk) -> tuple[float, BadputTimes, int, int]:
    """Productive seconds, badput, the last step that counts and the last one recorded."""
    save_s = _mean_by_name(walk.saves)
    badput_s: BadputTimes = {
        BadputType.TPU_INITIALIZATION: walk.paired_s.get("device_init", 0.0),
        BadputType.TRAINING_PREP: walk.paired_s.get("training_prep", 0.0),
        BadputType.DATA_LOADING_ASYNC: walk.loading_s - walk.sync_loading_s + walk.async_loading_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: save_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: _mean_by_name(walk.restores),
    }
    if walk.has_sync_loading:
        badput_s[BadputType.DATA_LOADING_SYNC] = walk.sync_loading_s
    customs = _Customs(walk.customs)
    productive_s = 0.0
    for segment in walk.segments:
        productive_s += _close(segment, customs, badput_s)[0]
        if segment.recovery_s is not None:
            _add(badput_s, BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, segment.recovery_s)
    if not walk.starts:
        return 0.0, badput_s, 0, 0
    last_step = max(walk.starts)
    segment_s, max_step = _close(Segment(walk.starts, last_step), customs, badput_s)
    productive_s += segment_s
    if walk.job_end_s is not None:
        productive_s += walk.job_end_s - walk.starts[last_step]
        max_step = last_step
    return productive_s - save_s, badput_s, max_step, last_step


class _Customs:
    """Custom events as columns: each takes its time from the step it lies wholly inside of."""

    def __init__(self, customs: Sequence[tuple[float, float, str]]) -> None:
        self.start_s = np.array([custom[0] for custom in customs], dtype=float)
        self.end_s = np.array([custom[1] for custom in customs], dtype=float)
        self.names = sorted({custom[2] for custom in customs})
        numbers = {name: number for number, name in enumerate(self.names)}
        self.name_numbers = np.array([numbers[custom[2]] for custom in customs], dtype=int)
        self._by_start = np.argsort(self.start_s, kind="stable")
        self._sorted_start_s = self.start_s[self._by_start]

    def within(
        self, times_s: npt.NDArray[np.float64], counted: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.float64], dict[str, float]]:
        """Seconds in each step that is `counted` (shape ``len(times_s) - 1``), and by name."""
        steps, customs = self._pairs(times_s)
        steps, customs = steps[counted[steps]], customs[counted[steps]]
        spent_s = self.end_s[customs] - self.start_s[customs]
        by_step_s = np.bincount(steps, weights=spent_s, minlength=len(counted))
        by_name_s = np.bincount(self.name_numbers[customs], weights=spent_s, minlength=len(self.names))
        seen = set(self.name_numbers[customs].tolist())
        return np.asarray(by_step_s, dtype=float), {
            self.names[number]: float(by_name_s[number]) for number in sorted(seen)
        }

    def _pairs(self, times_s: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Which step (by position) holds which custom event."""
        if np.all(times_s[1:] >= times_s[:-1]):
            # only those that begin within these steps, or many disruptions would cost their product
            first, last = np.searchsorted(self._sorted_start_s, (times_s[0], times_s[-1]))
            customs = np.sort(self._by_start[first:last])
            steps = np.searchsorted(times_s, self.start_s[customs], side="right") - 1
            inside = self.end_s[customs] <= times_s[steps + 1]
            return steps[inside], customs[inside]
        # steps that run backwards may hold an event more than once
        held = [
            np.flatnonzero((times_s[:-1] <= start_s) & (end_s <= times_s[1:]))
            for start_s, end_s in zip(self.start_s, self.end_s, strict=True)
        ]
        none = np.empty(0, dtype=np.intp)
        return np.concatenate([none, *held]), np.repeat(np.arange(len(held)), [len(found) for found in held])


def _close(segment: Segment, customs: _Customs, badput_s: BadputTimes) -> tuple[float, int]:
    """The steps between two disruptions: returns productive seconds and the last step that counts.

    A step lasts until the next step number begins; where a number is missing, nothing counts. What lies past
    the step the work went on at was wasted. The first step's excess over the mean of the others is start-up.
    Work that went on at step 0 has no segment before it.
    """
    if segment.resumed_at == 0:
        return 0.0, 0
    steps = np.fromiter(segment.starts, dtype=np.int64, count=len(segment.starts))
    times_s = np.fromiter(segment.starts.values(), dtype=float, count=len(steps))
    spans_s = np.diff(times_s)
    kept = steps[1:] <= segment.resumed_at
    counted = kept & (np.diff(steps) == 1)
    _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, _sum(spans_s[~kept]))
    if not counted.any():
        return 0.0, 0
    in_customs_s, by_name_s = customs.within(times_s, counted)
    took_s = np.maximum(0.0, spans_s - in_customs_s)[counted]
    all_s = _sum(took_s)
    first = steps[:-1][counted] == steps.min()
    first_s, others = float(took_s[first].sum()), int((~first).sum())
    startup_s = max(0.0, first_s - (all_s - first_s) / others) if others else 0.0
    _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    custom_s = badput_s.setdefault(BadputType.CUSTOM_BADPUT_EVENTS, {})
    if isinstance(custom_s, dict):
        for name, spent_s in by_name_s.items():
            custom_s[name] = custom_s.get(name, 0.0) + spent_s
    return all_s - startup_s if others else first_s, int(steps[:-1][counted][-1])


def _add_elastic(badput_s: BadputTimes, walk: Walk) -> None:
    for kind, badput in (
        ("elastic_scale_up", BadputType.ELASTIC_SCALE_UP),
        ("elastic_slice_down", BadputType.ELASTIC_SLICE_DOWN),
        ("elastic_reinit", BadputType.ELASTIC_REINITIALIZATION),
    ):
        for start_s, end_s in walk.spans.get(kind, ()):
            _add(badput_s, badput, end_s - start_s)
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


def _add(badput_s: BadputTimes, badput: BadputType, seconds: float) -> None:
    before_s = badput_s.get(badput, 0.0)
    if not isinstance(before_s, dict):
        badput_s[badput] = before_s + seconds


def _mean_by_name(durations_s: dict[str, list[float]]) -> float:
    """Sum over checkpoints; what several writers say of the same one is averaged."""
    return sum((sum(told_s) / len(told_s) for told_s in durations_s.values()), 0.0)


def _sum(seconds: npt.NDArray[np.float64]) -> float:
    """The sum from first to last, so that the last bit, too, is what the peer has.

    It decides whether a job that did nothing but train has more productive time than time.
    """
    return float(np.cumsum(seconds)[-1]) if len(seconds) else 0.0


def _whole_us(time_s: float) -> float:
    """The time as a datetime would have it."""
    fraction_s, whole_s = modf(time_s)
    return (int(whole_s) * 1_000_000 + round(fraction_s * 1e6)) / 1_000_000
