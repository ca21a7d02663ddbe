"""Goodput by the rules of the `resiliency` library: steps that were saved, at the speed they should have.

    goodput = (greatest step saved - least step loaded) * reference step time / (last event - first event)

Its log has six kinds of events, JSON lines that a launcher and a training loop write. What its documentation
("Goodput Measurement") prints for a log is :func:`rows`; where the rest of the time went it does not say:
:func:`as_goodput_events` hands the same log to our own ledger, which does.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import groupby

import msgspec

from .events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    JobEnded,
    JobQueued,
    JobStarted,
    OutputCompleted,
    StepStarted,
)
from .sanity import span

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

AFTER_LAST_SAVE = "AFTER_LAST_SAVE"
"""The name of the time between a job's last checkpoint and its end."""

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
    """What the library says of a job. Steps are None where no checkpoint was loaded, or none saved since."""

    total_events: int = 0
    job_started_count: int = 0
    checkpoints_loaded: int = 0
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
    difference = max(saved, default=0) - min(loaded, default=max(saved, default=0))
    if difference <= 0:
        return told
    told = msgspec.structs.replace(
        told, min_loaded_step=min(loaded), max_saved_step=max(saved), step_difference=difference
    )
    if reference_step_time_s is None:
        return told
    effective_s = difference * reference_step_time_s
    return msgspec.structs.replace(
        told,
        effective_computation_time_s=effective_s,
        goodput_percentage=effective_s / told.total_runtime_s * 100 if runtime_us else None,
    )


def rows(told: Metrics) -> list[tuple[str, str]]:
    """The table as the library prints it: metric and value."""
    listed = [
        ("Total Events", str(told.total_events)),
        ("Job Started Count", str(told.job_started_count)),
        ("Checkpoints Loaded", str(told.checkpoints_loaded)),
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


def as_goodput_events(events: Iterable[LauncherEvent]) -> list[GoodputEvent]:
    """The same log for a ledger: runs, and the steps that lie between its checkpoints.

    Launchers of several nodes that start one behind the other are one run, from the first of them on; one
    that starts again has begun another. A run that a launcher ended, and that another one follows, did not
    end by itself: the log has no exit code, and the library's primer calls that pause the job's restart.
    What follows the last checkpoint of all led to nothing that the log knows of: it has a name of its own.
    """
    made: list[GoodputEvent] = []
    listed = sorted(events, key=_order)
    groups = [(kind, list(group)) for kind, group in groupby(listed, key=lambda event: event.kind)]
    last_start = max((n for n, (kind, _) in enumerate(groups) if kind == JOB_STARTED), default=-1)
    for number, (kind, group) in enumerate(groups):
        match kind:
            case "user_scheduled":
                made += [JobQueued(time_s=event.time_s) for event in group]
            case "job_started":
                made += [JobStarted(time_s=time_s, nodes=nodes) for time_s, nodes in _starts(group)]
            case "job_terminated":
                code = 1 if number < last_start else None
                made.append(JobEnded(time_s=group[-1].time_s, exit_code=code))
            case "checkpoint_loaded" | "checkpoint_saved":
                made += [StepStarted(step=event.step, time_s=event.time_s) for event in group]
    checkpoints = [event for event in listed if event.kind in (CHECKPOINT_LOADED, CHECKPOINT_SAVED)]
    if checkpoints and checkpoints[-1].kind == CHECKPOINT_SAVED:
        made += _after(checkpoints[-1], listed)
        if len(checkpoints) > 1 and checkpoints[-1].step > checkpoints[-2].step:
            made.remove(StepStarted(step=checkpoints[-1].step, time_s=checkpoints[-1].time_s))
            made.append(_last_step(*checkpoints[-2:]))
    return sorted(made, key=lambda event: span(event)[0])


def _last_step(before: LauncherEvent, saved: LauncherEvent) -> StepStarted:
    """The step that a last checkpoint ended, when it began: in proportion to all since the one before."""
    step_s = (saved.time_s - before.time_s) / (saved.step - before.step)
    return StepStarted(step=saved.step - 1, time_s=saved.time_s - step_s)


def _after(saved: LauncherEvent, listed: Sequence[LauncherEvent]) -> Iterator[Interval]:
    """What came after the last checkpoint, until its run's end."""
    later = [event for event in listed if event.time_us > saved.time_us]
    ending = (event for event in later if event.kind in (JOB_STARTED, JOB_TERMINATED))
    end = next(ending, later[-1] if later else saved)
    if end.time_us > saved.time_us:
        yield Interval(kind="custom", name=AFTER_LAST_SAVE, start_s=saved.time_s, end_s=end.time_s)


def from_goodput_events(events: Iterable[GoodputEvent]) -> list[LauncherEvent]:
    """What the library's log would have said of a job that tells of its steps as they start.

    A run has loaded the step that it begins with. A checkpoint that is saved has the steps before the next
    one that starts in that run; without a next one, all that had started.
    """
    made: list[LauncherEvent] = []
    saved_us: list[int] = []
    done: int | None = None
    begins = True

    def settle(step: int | None) -> None:
        if step is not None:
            made.extend(LauncherEvent(kind=CHECKPOINT_SAVED, time_us=at, step=step) for at in saved_us)
        saved_us.clear()

    for event in sorted(events, key=_end_s):
        at_us = round(_end_s(event) * _US)
        match event:
            case StepStarted(step=step):
                settle(step)
                done = step + 1
                if begins:
                    made.append(LauncherEvent(kind=CHECKPOINT_LOADED, time_us=at_us, step=step))
                    begins = False
            case JobStarted():
                settle(done)
                begins, done = True, None
                made.append(LauncherEvent(kind=JOB_STARTED, time_us=at_us))
            case (
                OutputCompleted(checkpoint=True, valid=True)
                | Interval(kind="checkpoint_save")
                | IntervalEnded(kind="checkpoint_save")
            ):
                saved_us.append(at_us)
            case JobQueued():
                made.append(LauncherEvent(kind=USER_SCHEDULED, time_us=at_us))
            case JobEnded():
                settle(done)
                made.append(LauncherEvent(kind=JOB_TERMINATED, time_us=at_us))
            case _:
                pass
    settle(done)
    return made


def _end_s(event: GoodputEvent) -> float:
    """The later one of :func:`.sanity.span`, quickly: a log may have millions of steps."""
    time_s: float | None = getattr(event, "time_s", None)
    return span(event)[1] if time_s is None else time_s


def _starts(group: Sequence[LauncherEvent]) -> Iterator[tuple[float, int]]:
    """When each run began, and on how many nodes."""
    began: LauncherEvent | None = None
    ranks: set[int] = set()
    for event in group:
        if event.node_rank in ranks and began is not None:
            yield began.time_s, len(ranks)
            began, ranks = None, set()
        began = began or event
        ranks.add(event.node_rank)
    if began is not None:
        yield began.time_s, len(ranks)


def _timeline(events: Iterable[LauncherEvent]) -> list[LauncherEvent]:
    """The events in order, with the one that every job begins with, and without launchers' repetitions."""
    listed = sorted(events, key=_order)
    if listed and listed[0].kind != USER_SCHEDULED:
        listed.insert(0, LauncherEvent(kind=USER_SCHEDULED, time_us=listed[0].time_us))
    kept: list[LauncherEvent] = []
    for event in listed:
        if kept and event.kind == kept[-1].kind and event.kind in (JOB_STARTED, JOB_TERMINATED):
            kept.pop()
        kept.append(event)
    return kept


def _order(event: LauncherEvent) -> tuple[int, int]:
    return event.time_us, KINDS.index(event.kind)


def _hours(seconds: float) -> str:
    return str(round(seconds / 3600, 2))
