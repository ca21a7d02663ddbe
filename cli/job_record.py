"""What is known of a job, from its daemon's journal or from whatever logs there are: the same for all views.

What flushes slowed down and what trials cost is, of a journal, what the pipeline finds when it is replayed;
of other logs it is found in their events.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..client.paths import JobPaths
from ..daemon.journal import replayed
from ..goodput.account import Account
from ..goodput.checkpoint_cost import CheckpointCost
from ..goodput.events import GoodputEvent
from ..goodput.interval.save_costs import costs_of
from ..goodput.ledger.ledger import FLUSH_SLOWDOWN, Ledger
from ..goodput.readers.formats import JobLog
from ..goodput.readers.resiliency import LauncherEvent
from ..goodput.synthetic_steps import are_places
from ..goodput.validation import span
from ..intents.events import Values
from ..intents.tune.decisions import Decision
from ..intents.tune.gains import GainView, gains
from . import jobs
from .logs import JournalLog, Logs, read_journal, read_logs


class UnknownJobError(LookupError):
    """The logs have no such job, or none at all; the text says which there are."""


class Tuning(NamedTuple):
    """What checkpoints cost, what of that the ledger is charged with (s), and what was decided.

    `settings` are those in force at the end, None if no application said them.
    """

    costs: Sequence[CheckpointCost]
    charges: Mapping[str, float]
    decisions: tuple[Decision, ...] = ()
    settings: Values | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """What was told of a job until `now` (epoch seconds), and what follows from that, once it is asked for.

    `launcher` has what a launcher's log said; `journal` is that of the job's daemon, if it is known. `read`
    entries were read: a launcher's are more or fewer `events` for the ledger.
    """

    name: str
    events: list[GoodputEvent]
    read: int
    launcher: Sequence[LauncherEvent] = ()
    now: float
    journal: Path | None = None

    @cached_property
    def tuning(self) -> Tuning:
        """What the daemon found, or what the events say."""
        if self.journal is None:
            costs = costs_of(self.events)
            return Tuning(costs, {FLUSH_SLOWDOWN: sum(cost.slowdown_s for cost in costs)})
        pipeline, _ = replayed(self.journal)
        return Tuning(
            pipeline.costs,
            pipeline.ledger.charges,
            tuple(pipeline.decisions),
            pipeline.settings if pipeline.tuner else None,
        )

    @cached_property
    def ledger(self) -> Ledger:
        """A ledger that forgets nothing: a window may lie anywhere."""
        ledger = Ledger(remembered=None)
        ledger.extend(self.events)
        for bucket, seconds in self.tuning.charges.items():
            ledger.charge(bucket, seconds)
        return ledger

    @cached_property
    def account(self) -> Account:
        """Where all of the job's time went until now."""
        return self.ledger.account(self.now)

    @cached_property
    def tells_steps(self) -> bool:
        """Whether the numbers of its steps are such; else its steps are the work between outputs."""
        return not are_places(self.events)

    @cached_property
    def gains(self) -> tuple[GainView, ...]:
        """What each change of the settings gained."""
        return gains(self.tuning.decisions, self.tuning.costs)


def of_logs(paths: Iterable[Path], job_name: str | None = None) -> tuple[list[Told], Logs]:
    """The jobs that the logs tell of, by name, or the one that is named; and the logs.

    Raises UnknownJobError and what :func:`.goodput_logs.read_logs` raises.
    """
    logs = read_logs(paths)
    found = {name: log for name, log in logs.jobs.items() if log.events or log.launcher}
    if job_name is not None and job_name not in found:
        raise UnknownJobError(f"no job {job_name!r} in these logs; {_listed(found)}")
    if not found:
        first = f": {logs.problems[0]}" if logs.problems else ""
        raise UnknownJobError(f"these logs say nothing of a job's time{first}")
    names = sorted(found) if job_name is None else [job_name]
    return [_told(name, found[name], logs.journals.get(name, ())) for name in names], logs


def of_job(paths: JobPaths) -> Told:
    """A job of scrtune's, from its journal; until now while it runs.

    Raises jobs.UnknownJobError and what reading raises.
    """
    try:
        journal = read_journal(paths.journal)
    except FileNotFoundError as error:
        raise jobs.UnknownJobError(f"{paths.journal}: no journal; the job's daemon never ran") from error
    if not journal.events:
        raise jobs.UnknownJobError(f"{paths.journal}: the job has said nothing of its time yet")
    told = _told(paths.job_id, JobLog(events=journal.events), [journal])
    return replace(told, now=time.time()) if jobs.is_running(paths) else told


def _told(name: str, log: JobLog, journals: Sequence[JournalLog]) -> Told:
    events = log.timeline()
    # of several nodes' journals, that of the node with rank 0, which tells of the checkpoints
    journal = max(journals, key=lambda each: len(each.events), default=None)
    ends_s = [span(event)[1] for event in events]
    if journal is not None:
        ends_s.append(journal.end_s)
    return Told(
        name=name,
        events=events,
        read=len(log.events) + len(log.launcher),
        launcher=log.launcher,
        now=max(ends_s, default=0.0),
        journal=journal.path if journal else None,
    )


def _listed(names: Iterable[str]) -> str:
    listed = sorted(map(repr, filter(None, names)))
    return f"there are {', '.join(listed[:20])}" if listed else "they name no job"
