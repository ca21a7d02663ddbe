"""A launcher's log (:mod:`.resiliency`) for a ledger: runs, and the steps that lie between its checkpoints.

The log has no steps, and no word on how long a load or a save takes; `docs/goodput-logs.md` ("The resiliency
library") says how its time is taken, and how the end of a run is estimated that nobody recorded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import TypeGuard

import msgspec

from .. import events as ev
from ..job_events import JobEvents
from ..validation import span
from . import resiliency as log
from .resiliency import LauncherEvent

ESTIMATED = "(estimated)"
"""The writer of the end of a run that nobody recorded."""
_SAVE, _RESTORE = "checkpoint_save", "checkpoint_restore"


class EstimatedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The work, `lost_s` (0 to `most_s`), that `runs` lost whose ends nobody recorded."""

    runs: int
    lost_s: float
    most_s: float


class _LauncherRun(msgspec.Struct):
    """A run: `start_s` is None before the first recorded start; `ended_s` while nobody recorded an end.

    `ranks` are the nodes whose launchers began it, `attempts` its loads and saves, apart at each load.
    `exit_code` is what it must have had if another run follows. `ended_by` is the node whose launcher was the
    first to end behind the last checkpoint.
    """

    start_s: float | None = None
    ranks: set[int] = set()
    attempts: list[list[LauncherEvent]] = []
    ended_s: float | None = None
    exit_code: int | None = 1
    ended_by: str = ""

    @property
    def checkpoints(self) -> list[LauncherEvent]:
        """Its loads and saves."""
        return [event for attempt in self.attempts for event in attempt]

    def frame(self) -> list[ev.GoodputEvent]:
        """Its start, if that was recorded."""
        if self.start_s is None:
            return []
        return [ev.JobStarted(time_s=self.start_s, nodes=max(1, len(self.ranks)))]

    def saves(self) -> list[ev.GoodputEvent]:
        """That they were; how long they took is not known."""
        return [_at(_SAVE, event.time_s) for event in self.checkpoints if event.kind == log.CHECKPOINT_SAVED]

    def paces_s(self) -> list[float]:
        """The times from each checkpoint to the save that follows."""
        pairs = (pair for attempt in self.attempts for pair in pairwise(attempt))
        return [after.time_s - before.time_s for before, after in pairs]


def as_goodput_events(events: Iterable[LauncherEvent]) -> list[ev.GoodputEvent]:
    """Return the log as events for a ledger, by their times; the module says how it is taken."""
    listed = sorted(events, key=log.order)
    made, runs = _queued(listed), _runs(listed)
    for number, run in enumerate(runs):
        following = runs[number + 1 :]
        work = _work(run, following) if following or not run.attempts else _last_work(run)
        made += [*run.frame(), *run.saves(), *_restores(run), *work]
    # whatever these are: from one to the other goes the job's time
    made += [_at("recovery", edge.time_s) for edge in (*listed[:1], *listed[-1:])]
    return sorted(made, key=lambda event: span(event)[1])


def beside(events: JobEvents, launcher: Sequence[LauncherEvent]) -> list[ev.GoodputEvent]:
    """Return what a launcher's log adds to the `events` that a job records itself.

    Where these have neither runs nor steps, all of it; else starts, ends and saves, each if the job records
    none.
    """
    recorded = {type(event) for event in events.others}
    if not (events.steps or ev.JobStarted in recorded):
        return as_goodput_events(launcher)
    made, runs = _queued(launcher), _runs(launcher)
    for run in runs:
        made += run.frame()
        if run.ended_s is not None and run.ended_by != ESTIMATED:
            code = run.exit_code if run is not runs[-1] else None
            made.append(ev.JobEnded(time_s=run.ended_s, exit_code=code))
    made = [event for event in made if type(event) not in recorded]
    kinds = {event.kind for event in events.others if isinstance(event, ev.Interval)}
    if ev.OutputCompleted not in recorded and _SAVE not in kinds.union(kind for kind, _, _ in events.borders):
        made += [save for run in runs for save in run.saves()]
    return sorted(made, key=lambda event: span(event)[1])


def with_real_end(events: JobEvents, launcher: Sequence[LauncherEvent]) -> JobEvents:
    """Return `events` with the ends that a launcher recorded: for a ledger runs end with their last save."""
    if not launcher:
        return events
    made = JobEvents()
    made.update(events)
    made.others = [event for event in events.others if not is_estimated(event)]
    runs = _runs(launcher)
    if runs and runs[-1].ended_s is not None:
        made.add(ev.JobEnded(time_s=runs[-1].ended_s))
    return made


def is_estimated(event: ev.GoodputEvent) -> TypeGuard[ev.JobEnded]:
    """Return whether `event` is the end of a run that nobody recorded."""
    return isinstance(event, ev.JobEnded) and event.writer == ESTIMATED


def estimated_loss(events: JobEvents) -> EstimatedLoss | None:
    """Return what of a launcher's log is estimated, or None."""
    ends_s = [event.time_s for event in events.others if is_estimated(event)]
    if not ends_s:
        return None
    saved_s = sorted(events.step_starts[""].starts_s)
    lost_s = sum(end_s - saved_s[bisect_left(saved_s, end_s) - 1] for end_s in ends_s)
    return EstimatedLoss(runs=len(ends_s), lost_s=lost_s, most_s=2 * lost_s)


def _at(kind: str, time_s: float) -> ev.Interval:
    return ev.Interval(kind=kind, start_s=time_s, end_s=time_s)


def _queued(events: Iterable[LauncherEvent]) -> list[ev.GoodputEvent]:
    return [ev.JobQueued(time_s=event.time_s) for event in events if event.kind == log.USER_SCHEDULED]


def _runs(events: Iterable[LauncherEvent]) -> list[_LauncherRun]:
    runs = [_LauncherRun()]
    for event in sorted(events, key=log.order):
        run, rank = runs[-1], event.node_rank
        # of a launcher that may still start for this run, or end for the run before
        is_new_rank = run.start_s is not None and not run.attempts and rank not in run.ranks
        if event.kind == log.JOB_STARTED and is_new_rank and run.ended_s is None:
            run.ranks.add(rank)
        elif event.kind == log.JOB_STARTED:
            runs.append(_LauncherRun(start_s=event.time_s, ranks={rank}))
        elif event.kind == log.JOB_TERMINATED and is_new_rank:
            if runs[-2].ended_s is None:
                runs[-2].ended_s = run.start_s
        elif event.kind in (log.JOB_TERMINATED, log.USER_TERMINATED):
            run.ended_s = event.time_s
            run.exit_code = None if event.kind == log.USER_TERMINATED else run.exit_code
            run.ended_by = run.ended_by or f"node {rank}"
        elif event.kind in (log.CHECKPOINT_LOADED, log.CHECKPOINT_SAVED):
            if event.kind == log.CHECKPOINT_LOADED or not run.attempts:
                run.attempts.append([])
            run.attempts[-1].append(event)
            run.ended_by = ""
    _settle_ends(runs)
    return runs if runs[0].attempts or runs[0].ended_s is not None else runs[1:]


def _settle_ends(runs: Sequence[_LauncherRun]) -> None:
    """Estimate what nobody recorded: half of the time to the next start, or to when a save was due."""
    every_s = [pace_s for run in runs for pace_s in run.paces_s()]
    for run, after in pairwise([*runs, _LauncherRun()]):
        if not run.attempts:
            continue
        last_s = run.attempts[-1][-1].time_s
        # one node's launcher may have ended while the others went on
        is_open = run.exit_code is not None and (run.ended_s is None or run.ended_s < last_s)
        if is_open and after.start_s is not None and last_s < after.start_s:
            due_s = median(run.paces_s() or every_s or [after.start_s - last_s])
            run.ended_s = last_s + min(due_s, after.start_s - last_s) / 2
            run.ended_by = ESTIMATED
        elif run.ended_s is not None:
            run.ended_s = max(run.ended_s, last_s)


def _restores(run: _LauncherRun) -> Iterator[ev.GoodputEvent]:
    """Yield where the run reads a checkpoint; within it the log does not part the time from what is lost."""
    for number, (loaded, *_) in enumerate(run.attempts):
        if number:
            yield _at(_RESTORE, loaded.time_s)
        elif loaded.kind == log.CHECKPOINT_LOADED and loaded.step > 0 and run.start_s is not None:
            yield ev.Interval(kind=_RESTORE, start_s=run.start_s, end_s=loaded.time_s)


def _work(run: _LauncherRun, following: Sequence[_LauncherRun]) -> Iterator[ev.GoodputEvent]:
    """Yield the steps of a run that others follow, or that has no checkpoint, and its end."""
    made = run.checkpoints
    yield from (ev.StepStarted(step=event.step, time_s=event.time_s) for event in made)
    if run.ended_s is None:
        return
    if made and not _is_computed_again(made[-1].step, following):
        # what was made from there on is lost, though no run has made it again yet
        yield _at(_RESTORE, run.ended_s)
        yield ev.StepStarted(step=made[-1].step, time_s=run.ended_s)
    code = run.exit_code if following else None
    is_said = run.ended_by == ESTIMATED or (code and len(run.ranks) > 1)
    yield ev.JobEnded(time_s=run.ended_s, exit_code=code, writer=run.ended_by if is_said else "")


def _last_work(run: _LauncherRun) -> Iterator[ev.GoodputEvent]:
    """Yield the steps of the last run of all, which has checkpoints, up to the last that made progress."""
    kept = _advancing(run.attempts[-1])
    for event in (*run.checkpoints[: -len(run.attempts[-1])], *kept[:-1]):
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


def _is_computed_again(step: int, runs: Iterable[_LauncherRun]) -> bool:
    """Return whether any of these runs begins at, or goes back to, `step` or before, and makes steps."""
    return any(
        attempt[0].step <= step and (len(_advancing(attempt)) > 1 or attempt is not run.attempts[-1])
        for run in runs
        for attempt in run.attempts
    )


def _advancing(attempt: Sequence[LauncherEvent]) -> Sequence[LauncherEvent]:
    """Return it up to the last checkpoint that has more steps than the one before."""
    behind = len(attempt)
    while behind > 1 and attempt[behind - 1].step <= attempt[behind - 2].step:
        behind -= 1
    return attempt[:behind]
