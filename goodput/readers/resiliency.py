"""Goodput by the rules of the `resiliency` library: steps that were saved, at the speed they should have.

    goodput = (greatest step saved - least step loaded) * reference step time / (last event - first event)

Its log has six kinds of events, JSON lines that a launcher and a training loop write. What its documentation
("Goodput Measurement") prints for a log is :func:`rows`; where the rest of the time went it does not say:
:mod:`.launcher_log` hands the same log to our own ledger, which does.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

import msgspec

from ..account import Account
from ..events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
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
    """A time as ISO 8601 or RFC 3339 writes it, as microseconds since the epoch; UTC unless it says its zone.

    Raises ValueError.
    """
    try:
        moment = msgspec.convert(timestamp, datetime)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return (zoned - _EPOCH) // _MICROSECOND
    except (msgspec.ValidationError, OverflowError):
        raise ValueError(f"{timestamp!r} is no time") from None


def moment(time_s: float, *, milliseconds: bool = False) -> str:
    """The other way round, for people, to the second or to what of it lies beyond the second.

    Seconds where the calendar does not go so far.
    """
    try:
        time = _EPOCH + timedelta(milliseconds=round(1000 * time_s))
    except OverflowError:
        return f"{time_s:.3f} s"
    fraction = f".{time.microsecond // 1000:03}" if milliseconds and time.microsecond else ""
    return f"{time:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def metrics(events: Iterable[LauncherEvent], reference_step_time_s: float | None = None) -> Metrics:
    """What the library says of the events of one job, in whatever order they come.

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
    """`told` with the steps between what was loaded and what was saved, and what they are worth."""
    difference = max(saved, default=0) - min(loaded, default=max(saved, default=0))
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
    """The table as the library prints it: metric and value."""
    listed = [("Total Events", str(told.total_events))]
    if told.job_started_count is not None:
        listed.append(("Job Started Count", str(told.job_started_count)))
    if told.checkpoints_loaded is not None:
        listed.append(("Checkpoints Loaded", str(told.checkpoints_loaded)))
    listed += [
        ("Checkpoints Saved", str(told.checkpoints_saved)),
        ("Total Runtime (hours)", _hours(told.total_runtime_s)),
    ]
    if told.step_difference is not None:
        listed += [
            ("Min Loaded Step", str(told.min_loaded_step)),
            ("Max Saved Step", str(told.max_saved_step)),
            ("Step Difference", str(told.step_difference)),
        ]
    if told.effective_computation_time_s is not None:
        listed.append(("Effective Computation Time (hours)", _hours(told.effective_computation_time_s)))
    if told.goodput_percentage is not None:
        listed.append(("Goodput Percentage", f"{told.goodput_percentage:.2f}%"))
    return listed


def metrics_of_job(
    events: Sequence[GoodputEvent], account: Account, reference_step_time_s: float | None = None
) -> Metrics:
    """What the library would say of a job whose log is another one, with `account` for what both count.

    A run has loaded the step that it begins with, and so has one that goes back to a checkpoint. A checkpoint
    that is saved has the steps before the next one, and at the end all that were told of. Of a job that tells
    of no steps, or of synthetic ones (:mod:`..synthetic_steps`), there are no numbers.
    """
    told = Metrics(
        total_events=len(events),
        job_started_count=account.runs or None,
        checkpoints_loaded=None,
        checkpoints_saved=account.checkpoints,
        total_runtime_s=account.wall_s,
    )
    steps = _Steps()
    begun = [event for event in events if type(event) is StepStarted]
    others = [event for event in events if type(event) is not StepStarted]
    for event in sorted([*others, *begun], key=_end_s):  # a step that begins as a save ends is behind it
        steps.take(event)
    steps.settle()
    if not steps.loaded or are_synthetic(events):
        return told
    told = msgspec.structs.replace(told, checkpoints_loaded=sum(step > 0 for step in steps.loaded))
    return _gained(told, steps.loaded, steps.saved, reference_step_time_s)


class _Steps:
    """Follows a job's steps, told by their starts or by both ends, to what it loaded and saved."""

    def __init__(self) -> None:
        self.loaded: list[int] = []
        self.saved: list[int] = []
        self._done: dict[str, int] = {}
        """How many steps each writer has told of in this run."""
        self._begins = True
        self._is_open = False
        """The last step only said when it began: whether it ended, the next one shows."""
        self._unsettled = False

    def take(self, event: GoodputEvent) -> None:
        """Take in the next event."""
        match event:
            case StepStarted(step=step):
                self._stepped(step, event.writer, begins=True)
            case StepCompleted(step=step):
                self._stepped(step, event.writer, begins=False)
            case JobStarted() | RestartCompleted(valid=True) | Interval(kind="checkpoint_restore"):
                self._again()
            case IntervalEnded(kind="checkpoint_restore"):
                self._again()
            case OutputCompleted(checkpoint=True, valid=True) | Interval(kind="checkpoint_save"):
                self._save()
            case IntervalEnded(kind="checkpoint_save"):
                self._save()
            case _:
                pass

    def settle(self, step: int | None = None) -> None:
        """The checkpoints that wait for it have the steps before `step`, else all that were told of."""
        if self._unsettled and (step is not None or self._done):
            self.saved.append(max(self._done.values()) if step is None else step)
        self._unsettled = False

    def _stepped(self, step: int, writer: str, *, begins: bool) -> None:
        if self._unsettled:
            self.settle(step)
        if self._begins:
            self.loaded.append(step)
            self._begins = False
        self._done[writer] = step + 1
        self._is_open = begins

    def _save(self) -> None:
        self._unsettled = True
        if not self._is_open:
            self.settle()

    def _again(self) -> None:
        self.settle()
        self._begins, self._is_open = True, False
        self._done.clear()


def _end_s(event: GoodputEvent) -> float:
    """The later one of :func:`.validation.span`, quickly: a log may have millions of steps."""
    time_s: float | None = getattr(event, "time_s", None)
    return span(event)[1] if time_s is None else time_s


def _timeline(events: Iterable[LauncherEvent]) -> list[LauncherEvent]:
    """The events in order, with the one that every job begins with, and without launchers' repetitions."""
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
    """What to sort by: the time, and at the same time the kind."""
    return event.time_us, KINDS.index(event.kind)


def _hours(seconds: float) -> str:
    return str(round(seconds / 3600, 2))
