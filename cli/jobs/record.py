"""What is known of a job, from its daemon's journal or from logs of any kind: the same for all views.

What flushes slowed down and what trials cost is, of a journal, what the pipeline finds when it is replayed;
of other logs it is found in their events.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import click

from ...client.paths import JobPaths
from ...daemon.journal.journal import replay_journal
from ...goodput.buckets import FLUSH_SLOWDOWN
from ...goodput.checkpoint_cost import CheckpointCost, costs_of
from ...goodput.events import OutputCompleted
from ...goodput.job_events import JobEvents, are_synthetic
from ...goodput.ledger.ledger import Account, Ledger
from ...goodput.readers.jsonl import JobLog
from ...goodput.readers.resiliency import LauncherEvent
from ...intents.events import Values
from ...intents.pipeline import Pipeline
from ...intents.tune.decisions import Decision
from ...intents.tune.gains import GainView, gains
from ...units import count_text
from ..errors import UnknownJobError
from ..format import printable
from . import find as find_job
from .logs import JournalLog, Logs, read_journal, read_logs

_MOST_LISTED = 20
_MOST_JOBS = 200  # each takes 10 ms to account for and to lay out


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The events of a job until `now` (epoch seconds), and what follows from them, once it is asked for.

    `launcher` has the entries of a launcher's log; `journal` is that of the job's daemon, if it is known.
    `read` entries were read: a launcher's are more or fewer `events` for the ledger. `paths` has a job that
    was found by its run directory.
    """

    name: str
    events: JobEvents
    read: int
    launcher: Sequence[LauncherEvent] = ()
    now: float
    journal: Path | None = None
    paths: JobPaths | None = None

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """The pipeline as its daemon left it, if the job had one."""
        return None if self.journal is None else replay_journal(self.journal)[0]

    @cached_property
    def costs(self) -> Sequence[CheckpointCost]:
        """What checkpoints cost, as the daemon found, or as the events say."""
        return costs_of(self.events) if self.pipeline is None else self.pipeline.costs

    @property
    def charges(self) -> Mapping[str, float]:
        """What of that the ledger is charged with (s)."""
        if self.pipeline is not None:
            return self.pipeline.ledger.charges
        if not any(type(event) is OutputCompleted for event in self.events.others):
            return {}  # only SCR's flushes slow steps down: who has many saves shall not pay for it
        return {FLUSH_SLOWDOWN: sum(cost.slowdown_s for cost in self.costs)}

    @property
    def decisions(self) -> Sequence[Decision]:
        """What its daemon decided."""
        return () if self.pipeline is None else tuple(self.pipeline.decisions)

    @property
    def settings(self) -> Values | None:
        """The active ones at the end; None if no application reported them."""
        return self.pipeline.settings if self.pipeline is not None and self.pipeline.tuner else None

    @cached_property
    def ledger(self) -> Ledger:
        """A ledger that forgets nothing: a window may lie anywhere."""
        ledger = Ledger(remembered=None)
        ledger.extend(self.events)
        for bucket, seconds in self.charges.items():
            ledger.charge(bucket, seconds)
        return ledger

    @cached_property
    def account(self) -> Account:
        """Where all of the job's time went until now."""
        return self.ledger.account(self.now)

    @cached_property
    def tells_steps(self) -> bool:
        """Whether its steps are the application's own; else they are the work between outputs."""
        return not are_synthetic(self.events)

    @cached_property
    def gains(self) -> tuple[GainView, ...]:
        """What each change of the settings gained."""
        return gains(self.decisions)


def of_logs(paths: Iterable[Path], job_name: str | None = None) -> tuple[list[JobRecord], Logs]:
    """Return the jobs in the logs, of very many those of which they say most, or the one that is named.

    Raises UnknownJobError, and what :func:`.logs.read_logs` raises.
    """
    logs = read_logs(paths)
    found = {name: log for name, log in logs.jobs.items() if len(log)}
    if job_name is not None and job_name not in found:
        known = sorted(map(repr, filter(None, found)))[:_MOST_LISTED]
        listed = f"there are {', '.join(known)}" if known else "they name no job"
        raise UnknownJobError(f"no job {job_name!r} in these logs; {listed}")
    if not found:
        first = f": {logs.problems[0]}" if logs.problems else ""
        raise UnknownJobError(f"these logs say nothing of a job's time{first}")
    names = sorted(found) if job_name is None else [job_name]
    if len(names) > _MOST_JOBS:
        logs.problems.append(f"{len(names) - _MOST_JOBS} more jobs are not shown; name one with --job-name")
        names.sort(key=lambda name: len(found[name]), reverse=True)
        names = sorted(names[:_MOST_JOBS])
    return [_record(name, found[name], logs.journals.get(name, ())) for name in names], logs


def of_job(paths: JobPaths) -> JobRecord:
    """Return the record of a job of scrtune's, from its journal; until now while it runs.

    Raises UnknownJobError and what reading raises.
    """
    journal = read_journal(find_job.journal_of(paths))
    if not journal.events:
        raise UnknownJobError(f"{paths.journal}: the job has said nothing of its time yet")
    record = _record(paths.job_id, JobLog(events=journal.events), [journal])
    return replace(record, paths=paths, now=time.time() if find_job.is_running(paths) else record.now)


def of_one(logs: Sequence[Path], job_id: str | None, job_name: str | None) -> JobRecord:
    """Return the record of one job, of those in `logs`, else of scrtune's.

    Raises what finding a job or reading logs raises.
    """
    if not logs:
        return of_job(find_job.find(job_id))
    found, read = of_logs(logs, job_name)
    report_unread(read.problems, repeated=read.repeated, lost=read.lost)
    if len(found) > 1:
        listed = ", ".join(repr(job.name) for job in found[:_MOST_LISTED])
        raise UnknownJobError(f"the logs are of several jobs: {listed}; name one with --job-name")
    return found[0]


def report_unread(problems: Iterable[str], *, repeated: int, lost: int) -> None:
    """Say on standard error what of logs could not be read, came more than once, or was lost."""
    lines = [*problems]
    if repeated:
        count = "count" if repeated > 1 else "counts"
        lines.append(f"{count_text(repeated, 'event')} came more than once and {count} once")
    if lost:
        lines.append(f"{count_text(lost, 'event')} {'were' if lost > 1 else 'was'} lost before logging")
    for line in lines:
        click.echo(printable(f"scrtune: {line}"), err=True)


def _record(name: str, log: JobLog, journals: Sequence[JournalLog]) -> JobRecord:
    read, events = len(log), log.timeline()
    # of several nodes' journals, that of the node with rank 0, which has the checkpoints
    journal = max(journals, key=lambda each: len(each.events), default=None)
    now = float(events.times_s().max(initial=0.0 if journal is None else journal.end_s))
    path = journal.path if journal else None
    return JobRecord(name=name, events=events, read=read, launcher=log.launcher, now=now, journal=path)
