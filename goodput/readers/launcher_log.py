"""A launcher's log (:mod:`.resiliency`) for a ledger: runs, and the steps that lie between its checkpoints.

The log has no steps, and no word on how long a load or a save takes, so this is what it says of the time:

- Launchers of several nodes that start one behind the other are one run, from the first of them on, though
  others of the run before may end between them; one that starts again has begun another.
- From a run's start to its load of a step beyond 0 a checkpoint is read: the library's primer calls that
  *Checkpoint Loading*. A load of step 0 reads nothing: that is the run's start-up.
- Between a load or save and the next save lie the steps between their numbers.
- What a run did behind its last save, when another run follows or when it loads again, is lost. What the last
  run of all did behind its last save led to nothing that the log knows of: it is no step.
- A run that a launcher ended, and that another one follows, did not end by itself, unless the user ended it:
  there is no exit code, and the primer calls that pause the job's restart.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobQueued,
    JobStarted,
    OutputCompleted,
    StepCompleted,
    StepStarted,
)
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

_SAVE = "checkpoint_save"


@dataclass
class _LauncherRun:
    """A run: `start_s` is None before the first one that was told of; `ended_s` while nobody said so."""

    start_s: float | None = None
    ranks: set[int] = field(default_factory=set)
    """The nodes whose launchers began it."""
    checkpoints: list[LauncherEvent] = field(default_factory=list)
    """Loads and saves."""
    ended_s: float | None = None
    by_user: bool = False

    def lives(self) -> list[list[LauncherEvent]]:
        """Its checkpoints, apart at each load."""
        lives: list[list[LauncherEvent]] = []
        for event in self.checkpoints:
            if event.kind == CHECKPOINT_LOADED or not lives:
                lives.append([])
            lives[-1].append(event)
        return lives

    def begins_with(self, event: LauncherEvent) -> bool:
        """Whether a launcher that starts does so for this run, as others did before it."""
        is_young = self.start_s is not None and self.ended_s is None and not self.checkpoints
        return is_young and event.node_rank not in self.ranks

    def is_not_meant_by(self, event: LauncherEvent) -> bool:
        """Whether a launcher that ends is one of the run before, later than others that began this one."""
        is_young = self.start_s is not None and not self.checkpoints
        return is_young and event.kind == JOB_TERMINATED and event.node_rank not in self.ranks

    def end(self, event: LauncherEvent) -> None:
        """Somebody said that it ended."""
        self.ended_s = event.time_s
        self.by_user |= event.kind == USER_TERMINATED


def as_goodput_events(events: Iterable[LauncherEvent]) -> list[GoodputEvent]:
    """The log as events for a ledger, by their times; the module says how it is taken."""
    listed = sorted(events, key=order)
    made = _queued(listed)
    runs = _runs(listed)
    for number, run in enumerate(runs):
        following = runs[number + 1 :]
        made += _frame(run)
        made += _saves(run)
        made += _restores(run)
        made += _work(run, following)
    for edge in (listed[:1], listed[-1:]):  # whatever these are: from one to the other goes the job's time
        made += [Interval(kind="recovery", start_s=each.time_s, end_s=each.time_s) for each in edge]
    return sorted(made, key=lambda event: span(event)[1])


def beside(events: Sequence[GoodputEvent], launcher: Iterable[LauncherEvent]) -> list[GoodputEvent]:
    """What a launcher's log adds to the `events` that a job tells itself.

    Where these have neither runs nor steps, all of it; else starts, ends and saves, each if the job tells of
    none. How the job's time was spent it knows better than its launcher.
    """
    told = {type(event) for event in events}
    if told.isdisjoint({JobStarted, StepStarted, StepCompleted}):
        return as_goodput_events(launcher)
    listed = sorted(launcher, key=order)
    made = _queued(listed)
    runs = _runs(listed)
    for run, following in [*pairwise(runs), *((run, None) for run in runs[-1:])]:
        made += _frame(run)
        if run.ended_s is not None:
            made.append(JobEnded(time_s=run.ended_s, exit_code=_code(run, following)))
    made = [event for event in made if type(event) not in told]
    if OutputCompleted not in told and not any(getattr(event, "kind", "") == _SAVE for event in events):
        made += [save for run in runs for save in _saves(run)]
    return sorted(made, key=lambda event: span(event)[1])


def with_real_end(events: Sequence[GoodputEvent], launcher: Iterable[LauncherEvent]) -> list[GoodputEvent]:
    """`events` with the end that the launcher told of, for rules by which a job's time ends with it.

    For a ledger the last run ends with its last save (:func:`as_goodput_events`), and the job with the log.
    """
    runs = _runs(sorted(launcher, key=order))
    if not runs or runs[-1].ended_s is None:
        return list(events)
    return [*events, JobEnded(time_s=runs[-1].ended_s)]


def _queued(listed: Iterable[LauncherEvent]) -> list[GoodputEvent]:
    return [JobQueued(time_s=event.time_s) for event in listed if event.kind == USER_SCHEDULED]


def _runs(listed: Sequence[LauncherEvent]) -> list[_LauncherRun]:
    runs = [_LauncherRun()]
    for event in listed:
        run = runs[-1]
        if event.kind == JOB_STARTED and run.begins_with(event):
            run.ranks.add(event.node_rank)
        elif event.kind == JOB_STARTED:
            runs.append(_LauncherRun(start_s=event.time_s, ranks={event.node_rank}))
        elif event.kind in (JOB_TERMINATED, USER_TERMINATED):
            if not run.is_not_meant_by(event):
                run.end(event)
            elif runs[-2].ended_s is None:
                runs[-2].ended_s = run.start_s
        elif event.kind in (CHECKPOINT_LOADED, CHECKPOINT_SAVED):
            run.checkpoints.append(event)
    for run in runs:
        if run.ended_s is not None and run.checkpoints:  # one node's launcher ended, the others went on
            run.ended_s = max(run.ended_s, run.checkpoints[-1].time_s)
    return runs if runs[0].checkpoints or runs[0].ended_s is not None else runs[1:]


def _frame(run: _LauncherRun) -> Iterator[GoodputEvent]:
    if run.start_s is not None:
        yield JobStarted(time_s=run.start_s, nodes=max(1, len(run.ranks)))


def _saves(run: _LauncherRun) -> Iterator[GoodputEvent]:
    """That they were, but not how long they took."""
    for event in run.checkpoints:
        if event.kind == CHECKPOINT_SAVED:
            yield Interval(kind=_SAVE, start_s=event.time_s, end_s=event.time_s)


def _restores(run: _LauncherRun) -> Iterator[GoodputEvent]:
    """Where the run reads a checkpoint; within it that takes no time that the log tells from what is lost."""
    for number, life in enumerate(run.lives()):
        loaded = life[0]
        if loaded.kind != CHECKPOINT_LOADED or (number == 0 and (loaded.step <= 0 or run.start_s is None)):
            continue
        start_s = run.start_s if number == 0 and run.start_s is not None else loaded.time_s
        yield Interval(kind="checkpoint_restore", start_s=start_s, end_s=loaded.time_s)


def _work(run: _LauncherRun, following: Sequence[_LauncherRun]) -> Iterator[GoodputEvent]:
    """The steps of a run, and its end."""
    lives = run.lives()
    if following or not lives:
        for life in lives:
            yield from map(_step, life)
        if lives and run.ended_s is not None and not _is_computed_again(lives[-1][-1].step, following):
            yield from _lost(lives[-1][-1].step, run.ended_s)
        if run.ended_s is not None:
            yield JobEnded(time_s=run.ended_s, exit_code=_code(run, following[0] if following else None))
        return
    for life in lives[:-1]:
        yield from map(_step, life)
    kept = _advancing(lives[-1])
    yield from map(_step, kept[:-1])
    if len(kept) > 1:
        yield _last_step(*kept[-2:])
    last_s = kept[-1].time_s
    if run.ended_s is not None:  # for a ledger the work ends here, and the job with its last event
        yield JobEnded(time_s=last_s)
    else:  # it may still run: this says only that it had come so far
        yield IntervalStarted(kind=_SAVE, time_s=last_s)
        yield IntervalEnded(kind=_SAVE, time_s=last_s)


def _lost(step: int, end_s: float) -> Iterator[GoodputEvent]:
    """What was made from `step` on is not there any more at `end_s`, though no run has made it again yet."""
    yield Interval(kind="checkpoint_restore", start_s=end_s, end_s=end_s)
    yield StepStarted(step=step, time_s=end_s)


def _code(run: _LauncherRun, following: _LauncherRun | None) -> int | None:
    """The exit code that a run must have had."""
    return 1 if following is not None and not run.by_user else None


def _is_computed_again(step: int, runs: Sequence[_LauncherRun]) -> bool:
    """Whether any of these runs begins, or goes back, to `step` or before it, and makes steps from there."""
    return any(
        life[0].step <= step and (len(_advancing(life)) > 1 or number < len(lives) - 1)
        for lives in (run.lives() for run in runs)
        for number, life in enumerate(lives)
    )


def _advancing(life: Sequence[LauncherEvent]) -> Sequence[LauncherEvent]:
    """Up to the last checkpoint that has more steps than the one before it."""
    behind = len(life)
    while behind > 1 and life[behind - 1].step <= life[behind - 2].step:
        behind -= 1
    return life[:behind]


def _step(event: LauncherEvent) -> StepStarted:
    return StepStarted(step=event.step, time_s=event.time_s)


def _last_step(before: LauncherEvent, saved: LauncherEvent) -> StepStarted:
    """The step that a last checkpoint ended, when it began: in proportion to all since the one before."""
    step_s = (saved.time_s - before.time_s) / (saved.step - before.step)
    return StepStarted(step=saved.step - 1, time_s=saved.time_s - step_s)
