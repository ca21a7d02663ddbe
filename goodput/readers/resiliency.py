"""Goodput by the rules of the `resiliency` library: steps that were saved, at the speed they should have.

    goodput = (greatest step saved - least step loaded) * reference step time / (last event - first event)

Its log has six kinds of events, JSON lines that a launcher and a training loop write. What its documentation
("Goodput Measurement") prints for a log is :func:`rows`; where the rest of the time went it does not say:
:mod:`.launcher_log` hands the same log to our own ledger, which does.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from math import floor, log10

import msgspec

from .ml_goodput import NotUnderstoodError

KINDS = (
    USER_SCHEDULED := "user_scheduled",
    JOB_STARTED := "job_started",
    CHECKPOINT_LOADED := "checkpoint_loaded",
    CHECKPOINT_SAVED := "checkpoint_saved",
    USER_TERMINATED := "user_terminated",
    JOB_TERMINATED := "job_terminated",
)
"""The kinds of events, in the order that those of the same time have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US = 1_000_000


class LauncherEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the library's log: microseconds since the epoch, a checkpoint's step, a launcher's node."""

    kind: str
    time_us: int
    step: int = 0
    node_rank: int = 0

    @property
    def time_s(self) -> float:
        """Epoch seconds."""
        return self.time_us / _US


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the library says of a job; None where nothing was loaded, or nothing saved since."""

    total_events: int = 0
    job_started_count: int = 0
    checkpoints_loaded: int | None = None
    checkpoints_saved: int = 0
    total_runtime_s: float = 0.0
    min_loaded_step: int | None = None
    max_saved_step: int | None = None
    step_difference: int | None = None
    effective_computation_time_s: float | None = None
    goodput_percentage: float | None = None


def microseconds(timestamp: str) -> int:
    """Return an ISO 8601 time (UTC unless it says) as epoch microseconds. Raises NotUnderstoodError."""
    try:
        moment = msgspec.convert(timestamp, datetime)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return (zoned - _EPOCH) // timedelta(microseconds=1)
    except (msgspec.ValidationError, OverflowError):
        raise NotUnderstoodError(f"{timestamp!r} is no time") from None


def moment(time_s: float, *, milliseconds: bool = False) -> str:
    """Return a time for people, to the second or with milliseconds; seconds where no calendar goes so far."""
    try:
        time = _EPOCH + timedelta(milliseconds=round(1000 * time_s))
    except OverflowError:
        return f"{time_s:.3f} s"
    fraction = f".{time.microsecond // 1000:03}" if milliseconds and time.microsecond else ""
    return f"{time:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def metrics(events: Iterable[LauncherEvent], reference_step_time_s: float | None = None) -> Metrics:
    """Return what the library says of the events of one job, in whatever order they come."""
    timeline = _timeline(events)
    if not timeline:
        return Metrics()
    loaded = [event.step for event in timeline if event.kind == CHECKPOINT_LOADED]
    saved = [event.step for event in timeline if event.kind == CHECKPOINT_SAVED]
    runtime_s = (timeline[-1].time_us - timeline[0].time_us) / _US
    gained = max(0, max(saved) - min(loaded)) if saved and loaded else 0
    effective_s = gained * reference_step_time_s if gained and reference_step_time_s is not None else None
    return Metrics(
        total_events=len(timeline),
        job_started_count=sum(event.kind == JOB_STARTED for event in timeline),
        checkpoints_loaded=sum(step > 0 for step in loaded) if loaded else None,
        checkpoints_saved=len(saved),
        total_runtime_s=runtime_s,
        min_loaded_step=min(loaded) if gained else None,
        max_saved_step=max(saved) if gained else None,
        step_difference=gained or None,
        effective_computation_time_s=effective_s,
        goodput_percentage=effective_s / runtime_s * 100 if effective_s is not None and runtime_s else None,
    )


def rows(found: Metrics) -> list[tuple[str, str]]:
    """Return the table as the library prints it, metric and value; without loads it has no row of them."""
    share = found.goodput_percentage
    listed = {
        "Total Events": found.total_events,
        "Job Started Count": found.job_started_count,
        "Checkpoints Loaded": found.checkpoints_loaded,
        "Checkpoints Saved": found.checkpoints_saved,
        "Total Runtime (hours)": _hours(found.total_runtime_s),
        "Min Loaded Step": found.min_loaded_step,
        "Max Saved Step": found.max_saved_step,
        "Step Difference": found.step_difference,
        "Effective Computation Time (hours)": _hours(found.effective_computation_time_s),
        "Goodput Percentage": None if share is None else f"{share:.2f}%",
    }
    return [(name, str(value)) for name, value in listed.items() if value is not None]


def _timeline(events: Iterable[LauncherEvent]) -> list[LauncherEvent]:
    """Return the events in order, with the one that begins every job, of launchers' repetitions the last."""
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
