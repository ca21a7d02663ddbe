"""Goodput by the rules of the `resiliency` library: steps that were saved, at the speed they should have.

    goodput = (greatest step saved - least step loaded) * reference step time / (last event - first event)

Its log has six kinds of events, JSON lines that a launcher and a training loop write. What its documentation
("Goodput Measurement") prints for a log is :func:`rows`; where the rest of the time went it does not say:
:mod:`.launcher_log` hands the same log to our own ledger, which does.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import compress, pairwise
from math import floor, log10

import msgspec

from ..account import Account
from ..events import Interval, JobStarted, OutputCompleted, RestartCompleted
from ..job_events import JobEvents
from ..synthetic_steps import are_synthetic
from ..validation import span

USER_SCHEDULED = "user_scheduled"
JOB_STARTED = "job_started"
CHECKPOINT_LOADED = "checkpoint_loaded"
CHECKPOINT_SAVED = "checkpoint_saved"
USER_TERMINATED = "user_terminated"
JOB_TERMINATED = "job_terminated"

KINDS = (
    USER_SCHEDULED,
    JOB_STARTED,
    CHECKPOINT_LOADED,
    CHECKPOINT_SAVED,
    USER_TERMINATED,
    JOB_TERMINATED,
)
"""The kinds of events, in the order that those of the same time have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_US = 1_000_000


class LauncherEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the library's log. `time_us` is whole microseconds since the epoch, as it was written.

    `step` is that of a checkpoint, `node_rank` the node that a launcher spoke for.
    """

    kind: str
    time_us: int
    step: int = 0
    node_rank: int = 0

    @property
    def time_s(self) -> float:
        """Epoch seconds."""
        return self.time_us / _US


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the library says of a job. Steps are None where no checkpoint was loaded, or none saved since.

    Counts are None where the log, which is not the library's, does not tell of such a thing.
    """

    total_events: int = 0
    job_started_count: int | None = 0
    checkpoints_loaded: int | None = 0
    checkpoints_saved: int = 0
    total_runtime_s: float = 0.0
    min_loaded_step: int | None = None
    max_saved_step: int | None = None
    step_difference: int | None = None
    effective_computation_time_s: float | None = None
    goodput_percentage: float | None = None


def microseconds(timestamp: str) -> int:
    """Return a time of ISO 8601 or RFC 3339 as microseconds since the epoch; UTC unless it says its zone.

    Raises ValueError.
    """
    try:
        moment = msgspec.convert(timestamp, datetime)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return (zoned - _EPOCH) // _MICROSECOND
    except (msgspec.ValidationError, OverflowError):
        raise ValueError(f"{timestamp!r} is no time") from None


def moment(time_s: float, *, milliseconds: bool = False) -> str:
    """Return a time for people, to the second or with milliseconds; seconds where no calendar goes so far."""
    try:
        time = _EPOCH + timedelta(milliseconds=round(1000 * time_s))
    except OverflowError:
        return f"{time_s:.3f} s"
    fraction = f".{time.microsecond // 1000:03}" if milliseconds and time.microsecond else ""
    return f"{time:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def metrics(events: Iterable[LauncherEvent], reference_step_time_s: float | None = None) -> Metrics:
    """Return what the library says of the events of one job, in whatever order they come.

    A job that no ``user_scheduled`` begins is given one, at its first event; of launchers that start (or end)
    one behind the other the last one counts. Only a load of a step beyond 0 counts as a checkpoint loaded.
    """
    timeline = _timeline(events)
    if not timeline:
        return Metrics()
    loaded = [event.step for event in timeline if event.kind == CHECKPOINT_LOADED]
    saved = [event.step for event in timeline if event.kind == CHECKPOINT_SAVED]
    runtime_us = timeline[-1].time_us - timeline[0].time_us
    told = Metrics(
        total_events=len(timeline),
        job_started_count=sum(event.kind == JOB_STARTED for event in timeline),
        checkpoints_loaded=sum(step > 0 for step in loaded),
        checkpoints_saved=len(saved),
        total_runtime_s=runtime_us / _US,
    )
    return _gained(told, loaded, saved, reference_step_time_s)


def _gained(
    told: Metrics, loaded: Sequence[int], saved: Sequence[int], reference_step_time_s: float | None
) -> Metrics:
    """Return `told` with the steps between what was loaded and what was saved, and what they are worth."""
    difference = max(saved) - min(loaded) if saved and loaded else 0
    if difference <= 0:
        return told
    told = msgspec.structs.replace(
        told, min_loaded_step=min(loaded), max_saved_step=max(saved), step_difference=difference
    )
    if reference_step_time_s is None:
        return told
    effective_s = difference * reference_step_time_s
    runtime_s = told.total_runtime_s
    return msgspec.structs.replace(
        told,
        effective_computation_time_s=effective_s,
        goodput_percentage=effective_s / runtime_s * 100 if runtime_s else None,
    )


def rows(told: Metrics) -> list[tuple[str, str]]:
    """Return the table as the library prints it: metric and value. Without loads it has none."""
    has_loads, share = told.checkpoints_loaded is not None, told.goodput_percentage
    listed = {
        "Total Events": told.total_events,
        "Job Started Count": told.job_started_count,
        "Checkpoints Loaded": told.checkpoints_loaded,
        "Checkpoints Saved": told.checkpoints_saved,
        "Total Runtime (hours)": _hours(told.total_runtime_s),
        "Min Loaded Step": told.min_loaded_step if has_loads else None,
        "Max Saved Step": told.max_saved_step,
        "Step Difference": told.step_difference,
        "Effective Computation Time (hours)": _hours(told.effective_computation_time_s),
        "Goodput Percentage": None if share is None else f"{share:.2f}%",
    }
    return [(name, str(value)) for name, value in listed.items() if value is not None]


def metrics_of_job(
    events: JobEvents, account: Account, reference_step_time_s: float | None = None
) -> Metrics:
    """Return what the library would say of a job with another log, with `account` for what both count.

    A run has loaded the step that it begins with, and so has one that goes back to a checkpoint. A checkpoint
    that is saved has the steps before the next one, and at the end all that were recorded. Of a job without
    steps, or with synthetic ones (:mod:`..synthetic_steps`), there are no numbers.
    """
    told = Metrics(
        total_events=len(events),
        job_started_count=account.runs or None,
        checkpoints_loaded=None,
        checkpoints_saved=account.checkpoints,
        total_runtime_s=account.wall_s,
    )
    if not (events.step_starts or events.whole_steps) or are_synthetic(events):
        return told
    attempts = list(_loaded_and_saved(events))
    loaded, saved = [first for first, _ in attempts], [last for _, last in attempts if last is not None]
    told = msgspec.structs.replace(told, checkpoints_loaded=sum(step > 0 for step in loaded) or None)
    return _gained(told, loaded, saved, reference_step_time_s)


def _loaded_and_saved(events: JobEvents) -> Iterator[tuple[int, int | None]]:
    """Yield the first step of each attempt, and how many steps its furthest checkpoint has."""
    import numpy as np  # noqa: PLC0415 - who only writes such a log shall not pay for it

    whole, begun = events.whole_steps.values(), events.step_starts.values()
    number = np.concatenate([*(each.numbers for each in whole), *(each.numbers for each in begun)])
    # at the time of a save a step that ends then lies before it, and one that begins then behind it
    begun_s = [np.nextafter(each.times_s, np.inf) for each in begun]
    time_s = np.concatenate([*(each.ends_s for each in whole), *begun_s])
    is_whole = np.arange(len(number)) < sum(len(each.numbers) for each in whole)
    if (time_s[1:] < time_s[:-1]).any():
        order = np.argsort(time_s, kind="stable")
        number, time_s, is_whole = number[order], time_s[order], is_whole[order]
    restarts_s = sorted(_ends_s(events, "checkpoint_restore", (JobStarted, RestartCompleted)))
    saves_s = sorted(_ends_s(events, "checkpoint_save", (OutputCompleted,)))
    saved_in = np.searchsorted(restarts_s, saves_s)
    saves, edges = (np.searchsorted(time_s, each_s, "right") for each_s in (saves_s, restarts_s))
    for attempt, (first, behind) in enumerate(pairwise([0, *edges.tolist(), len(number)])):
        if first < behind:
            done = np.maximum.accumulate(number[first:behind]) + 1
            its = saves[(saved_in == attempt) & (saves >= first)]
            between = its[its < behind]
            has_ended = is_whole[between - 1] & (between > first)
            known = np.where(has_ended, done[between - 1 - first], number[between])
            at_end = done[-1:] if len(its) > len(between) else done[:0]
            yield int(number[first]), max([*known.tolist(), *at_end.tolist()], default=None)


def _ends_s(events: JobEvents, kind: str, types: tuple[type, ...]) -> Iterator[float]:
    """Yield the ends (epoch seconds) of the intervals of a `kind`, and of valid events of these types."""
    for event in events.others:
        is_one = isinstance(event, types) or (isinstance(event, Interval) and event.kind == kind)
        if is_one and getattr(event, "valid", True) and getattr(event, "checkpoint", True):
            yield span(event)[1]
    for (its_kind, _, _), borders in events.borders.items():
        if its_kind == kind:
            yield from compress(borders.times_s, (not begins for begins in borders.begins))


def _timeline(events: Iterable[LauncherEvent]) -> list[LauncherEvent]:
    """Return the events in order, with the one that begins every job, without launchers' repetitions."""
    listed = sorted(events, key=order)
    if listed and listed[0].kind != USER_SCHEDULED:
        listed.insert(0, LauncherEvent(kind=USER_SCHEDULED, time_us=listed[0].time_us))
    kept: list[LauncherEvent] = []
    for event in listed:
        if kept and event.kind == kept[-1].kind and event.kind in (JOB_STARTED, JOB_TERMINATED):
            kept.pop()
        kept.append(event)
    return kept


def order(event: LauncherEvent) -> tuple[int, int]:
    """Return what to sort by: the time, and at the same time the kind."""
    return event.time_us, KINDS.index(event.kind)


def _hours(seconds: float | None) -> str | None:
    """Return hours as the library rounds them; what it would print as 0.0 has two significant digits."""
    hours = (seconds or 0.0) / 3600
    if not hours or round(hours, 2):
        return None if seconds is None else str(round(hours, 2))
    return f"{hours:.{1 - floor(log10(abs(hours)))}f}"
