"""A launcher's log (:mod:`.resiliency`) for a ledger: runs, and the steps that lie between its checkpoints.

The log has no steps, and no word on how long a load or a save takes; `docs/goodput-logs.md` ("The resiliency
library") says how its time is taken, and how the end of a run is estimated that nobody recorded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median

import msgspec

from .. import events as ev
from ..job_events import JobEvents
from ..validation import span
from .resiliency import (
    CHECKPOINT_LOADED,
    CHECKPOINT_SAVED,
    JOB_STARTED,
    JOB_TERMINATED,
    USER_SCHEDULED,
    USER_TERMINATED,
    LauncherEvent,
    order,
)

ESTIMATED = "(estimated)"
"""The writer of the end of a run that nobody recorded."""
_SAVE = "checkpoint_save"


class EstimatedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The work, `lost_s` (0 to `most_s`), that `runs` lost whose ends nobody recorded."""

    runs: int
    lost_s: float
    most_s: float


@dataclass
class _LauncherRun:
    """A run: `start_s` is None before the first recorded start; `ended_s` while nobody recorded an end."""

    start_s: float | None = None
    ranks: set[int] = field(default_factory=set)
    """The nodes whose launchers began it."""
    checkpoints: list[LauncherEvent] = field(default_factory=list)
    """Loads and saves."""
    ended_s: float | None = None
    by_user: bool = False
    is_estimated: bool = False
    ended_first: int | None = None
    """The node whose launcher was the first to end behind the last checkpoint."""

    @property
    def is_young(self) -> bool:
        """Whether launchers may still start for it, or end for the run before."""
        return self.start_s is not None and not self.checkpoints

    @property
    def exit_code(self) -> int | None:
        """The exit code that it must have had if another one follows."""
        return None if self.by_user else 1

    def frame(self) -> list[ev.GoodputEvent]:
        """Its start, if that was recorded."""
        if self.start_s is None:
            return []
        return [ev.JobStarted(time_s=self.start_s, nodes=max(1, len(self.ranks)))]

    def attempts(self) -> list[list[LauncherEvent]]:
        """Its checkpoints, apart at each load."""
        attempts: list[list[LauncherEvent]] = []
        for event in self.checkpoints:
            if event.kind == CHECKPOINT_LOADED or not attempts:
                attempts.append([])
            attempts[-1].append(event)
        return attempts

    def paces_s(self) -> list[float]:
        """The times from each checkpoint to the save that follows."""
        return [
            after.time_s - before.time_s for attempt in self.attempts() for before, after in pairwise(attempt)
        ]


def as_goodput_events(events: Iterable[LauncherEvent]) -> list[ev.GoodputEvent]:
    """Return the log as events for a ledger, by their times; the module says how it is taken."""
    listed = sorted(events, key=order)
    made = _queued(listed)
    runs = _runs(listed)
    for number, run in enumerate(runs):
        following = runs[number + 1 :]
        work = _work(run, following) if following or not run.checkpoints else _last_work(run)
        made += [*run.frame(), *_saves(run), *_restores(run), *work]
    for edge in (listed[:1], listed[-1:]):  # whatever these are: from one to the other goes the job's time
        made += [ev.Interval(kind="recovery", start_s=each.time_s, end_s=each.time_s) for each in edge]
    return sorted(made, key=lambda event: span(event)[1])


def beside(events: JobEvents, launcher: Iterable[LauncherEvent]) -> list[ev.GoodputEvent]:
    """Return what a launcher's log adds to the `events` that a job records itself.

    Where these have neither runs nor steps, all of it; else starts, ends and saves, each if the job records
    none.
    """
    recorded = {type(event) for event in events.others}
    if not (events.steps or ev.JobStarted in recorded):
        return as_goodput_events(launcher)
    listed = sorted(launcher, key=order)
    made = _queued(listed)
    runs = _runs(listed)
    for run in runs:
        made += run.frame()
        if run.ended_s is not None and not run.is_estimated:
            code = run.exit_code if run is not runs[-1] else None
            made.append(ev.JobEnded(time_s=run.ended_s, exit_code=code))
    made = [event for event in made if type(event) not in recorded]
    kinds = {event.kind for event in events.others if isinstance(event, ev.Interval)}
    if ev.OutputCompleted not in recorded and _SAVE not in kinds.union(kind for kind, _, _ in events.borders):
        made += [save for run in runs for save in _saves(run)]
    return sorted(made, key=lambda event: span(event)[1])


def with_real_end(events: JobEvents, launcher: Sequence[LauncherEvent]) -> JobEvents:
    """Return `events` with the ends that a launcher recorded: for a ledger runs end with their last save."""
    if not launcher:
        return events
    made = JobEvents()
    made.update(events)
    made.others = [event for event in events.others if not is_estimated(event)]
    runs = _runs(sorted(launcher, key=order))
    if runs and runs[-1].ended_s is not None:
        made.add(ev.JobEnded(time_s=runs[-1].ended_s))
    return made


def is_estimated(event: ev.GoodputEvent) -> bool:
    """Return whether `event` is the end of a run that nobody recorded."""
    return isinstance(event, ev.JobEnded) and event.writer == ESTIMATED


def estimated_loss(events: JobEvents) -> EstimatedLoss | None:
    """Return what of a launcher's log is estimated, or None."""
    ends_s = [
        event.time_s for event in events.others if isinstance(event, ev.JobEnded) and is_estimated(event)
    ]
    if not ends_s:
        return None
    saved_s = sorted(events.step_starts[""].starts_s)
    lost_s = sum(end_s - saved_s[bisect_left(saved_s, end_s) - 1] for end_s in ends_s)
    return EstimatedLoss(runs=len(ends_s), lost_s=lost_s, most_s=2 * lost_s)


def _queued(listed: Iterable[LauncherEvent]) -> list[ev.GoodputEvent]:
    return [ev.JobQueued(time_s=event.time_s) for event in listed if event.kind == USER_SCHEDULED]


def _runs(listed: Sequence[LauncherEvent]) -> list[_LauncherRun]:
    runs = [_LauncherRun()]
    for event in listed:
        run, is_new_rank = runs[-1], event.node_rank not in runs[-1].ranks
        if event.kind == JOB_STARTED and run.is_young and run.ended_s is None and is_new_rank:
            run.ranks.add(event.node_rank)
        elif event.kind == JOB_STARTED:
            runs.append(_LauncherRun(start_s=event.time_s, ranks={event.node_rank}))
        elif event.kind == JOB_TERMINATED and run.is_young and is_new_rank:  # of the run before
            if runs[-2].ended_s is None:
                runs[-2].ended_s = run.start_s
        elif event.kind in (JOB_TERMINATED, USER_TERMINATED):
            run.ended_s = event.time_s
            run.by_user |= event.kind == USER_TERMINATED
            run.ended_first = event.node_rank if run.ended_first is None else run.ended_first
        elif event.kind in (CHECKPOINT_LOADED, CHECKPOINT_SAVED):
            run.checkpoints.append(event)
            run.ended_first = None
    _estimate_ends(runs)
    for run in runs:
        if run.ended_s is not None and run.checkpoints:
            run.ended_s = max(run.ended_s, run.checkpoints[-1].time_s)
    return runs if runs[0].checkpoints or runs[0].ended_s is not None else runs[1:]


def _estimate_ends(runs: Sequence[_LauncherRun]) -> None:
    """Set the ends that nobody recorded: half of the time to the next start, or to when a save was due."""
    every_s = [pace_s for run in runs for pace_s in run.paces_s()]
    for run, after in pairwise(runs):
        last_s = run.checkpoints[-1].time_s if run.checkpoints else inf
        if after.start_s is None or last_s >= after.start_s or run.by_user:
            continue
        if run.ended_s is None or run.ended_s < last_s:  # one node's launcher ended, the others went on
            due_s = median(run.paces_s() or every_s or [after.start_s - last_s])
            run.ended_s = last_s + min(due_s, after.start_s - last_s) / 2
            run.is_estimated = True


def _saves(run: _LauncherRun) -> Iterator[ev.GoodputEvent]:
    """Yield that they were; how long they took is not known."""
    for event in run.checkpoints:
        if event.kind == CHECKPOINT_SAVED:
            yield ev.Interval(kind=_SAVE, start_s=event.time_s, end_s=event.time_s)


def _restores(run: _LauncherRun) -> Iterator[ev.GoodputEvent]:
    """Yield where the run reads a checkpoint; within it the log does not part the time from what is lost."""
    for number, attempt in enumerate(run.attempts()):
        loaded = attempt[0]
        if loaded.kind != CHECKPOINT_LOADED or (number == 0 and (loaded.step <= 0 or run.start_s is None)):
            continue
        start_s = run.start_s if number == 0 and run.start_s is not None else loaded.time_s
        yield ev.Interval(kind="checkpoint_restore", start_s=start_s, end_s=loaded.time_s)


def _work(run: _LauncherRun, following: Sequence[_LauncherRun]) -> Iterator[ev.GoodputEvent]:
    """Yield the steps of a run that others follow, or that has no checkpoint, and its end."""
    yield from (ev.StepStarted(step=event.step, time_s=event.time_s) for event in run.checkpoints)
    if run.ended_s is None:
        return
    if run.checkpoints and not _is_computed_again(run.checkpoints[-1].step, following):
        # what was made from there on is lost, though no run has made it again yet
        yield ev.Interval(kind="checkpoint_restore", start_s=run.ended_s, end_s=run.ended_s)
        yield ev.StepStarted(step=run.checkpoints[-1].step, time_s=run.ended_s)
    code, writer = run.exit_code if following else None, ""
    if run.is_estimated:
        writer = ESTIMATED
    elif code and len(run.ranks) > 1 and run.ended_first is not None:
        writer = f"node {run.ended_first}"
    yield ev.JobEnded(time_s=run.ended_s, exit_code=code, writer=writer)


def _last_work(run: _LauncherRun) -> Iterator[ev.GoodputEvent]:
    """Yield the steps of the last run of all, which has checkpoints, up to the last that made progress."""
    last = run.attempts()[-1]
    kept = _advancing(last)
    for event in (*run.checkpoints[: -len(last)], *kept[:-1]):
        yield ev.StepStarted(step=event.step, time_s=event.time_s)
    last_s = kept[-1].time_s
    if len(kept) > 1:  # the step that the last checkpoint ended takes as long as all since the one before
        step_s = (last_s - kept[-2].time_s) / (kept[-1].step - kept[-2].step)
        yield ev.StepStarted(step=kept[-1].step - 1, time_s=last_s - step_s)
    if run.ended_s is not None:  # for a ledger the work ends here, and the job with its last event
        yield ev.JobEnded(time_s=last_s)
    else:  # it may still run: this says only that it had come so far
        yield ev.IntervalStarted(kind=_SAVE, time_s=last_s)
        yield ev.IntervalEnded(kind=_SAVE, time_s=last_s)


def _is_computed_again(step: int, runs: Sequence[_LauncherRun]) -> bool:
    """Return whether any of these runs begins at, or goes back to, `step` or before, and makes steps."""
    return any(
        attempt[0].step <= step and (len(_advancing(attempt)) > 1 or number < len(attempts) - 1)
        for attempts in (run.attempts() for run in runs)
        for number, attempt in enumerate(attempts)
    )


def _advancing(attempt: Sequence[LauncherEvent]) -> Sequence[LauncherEvent]:
    """Return it up to the last checkpoint that has more steps than the one before."""
    behind = len(attempt)
    while behind > 1 and attempt[behind - 1].step <= attempt[behind - 2].step:
        behind -= 1
    return attempt[:behind]
