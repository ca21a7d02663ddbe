"""`scrtune goodput`: where the time of a job went; the best interval; a page about a job."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import msgspec

from ...client.paths import NO_JOB_ID, job_id_from_environment
from ...goodput.interval.failure_rate import RATE_WEIGHT, FailurePrior
from ...goodput.interval.model import Schedule
from ...goodput.readers import resiliency
from ...units import parse_duration_s
from ..errors import extra
from ..format import printable
from ..jobs.find import find, jobs
from ..jobs.record import of_one, report_unread
from ..options import FILE, OneJob, command, option
from ..tables import goodput as tables
from ..tables import interval as interval_tables
from ..terminal import csv_text, print_view
from ..views import goodput as views
from ..views.goodput import GoodputQuery, Policy, TimeWindow
from ..views.interval import JobOutlook, inputs, outlook
from ..views.tuner_changes import tuner_changes

Form = Literal["table", "json", "csv"]

_NUMBER = re.compile(r"-?\d{1,11}(\.\d{1,9})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MINUTE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_DAY_S = 86_400.0
_LONGEST_STEP_S = 1e9
_FLUSH_EVERY = re.compile(r"[1-9][0-9]{0,5}")
_MOST_FAILURES = 1e6
_WINDOW_HELP = "START..END, a day as 2025-09-27, or LAST as in 900, 15m or 15min, 2h or 1d"


def _step_time_s(seconds: float) -> float:
    if not 0 < seconds < _LONGEST_STEP_S:  # no NaN either
        raise ValueError(f"{seconds:g} is no time of a step; write seconds, above 0")
    return seconds


def time_window(text: str) -> TimeWindow:
    """Return the window that `text` describes, as `--window` takes it. Raises ValueError."""
    start, between, end = text.partition("..")
    if not between and not _DATE.fullmatch(text):
        try:
            return TimeWindow(last_s=parse_duration_s(text))
        except ValueError:
            raise ValueError(f"{text!r} is no window; write {_WINDOW_HELP}") from None
    try:
        start_s, end_s = _moment_s(start), _moment_s(end)
    except ValueError as error:
        raise ValueError(f"{error}; write times as 2025-09-27T04:51:00 or epoch seconds") from None
    if not between and start_s is not None:  # a day
        end_s = start_s + _DAY_S
    if start_s is not None and end_s is not None and start_s >= end_s:
        raise ValueError(f"{text!r} ends before it starts")
    return TimeWindow(start_s=start_s, end_s=end_s)


def _moment_s(text: str) -> float | None:
    """Return epoch seconds of those, or of a time as logs write it (UTC unless it says its zone).

    A date is the begin of that day, nothing is None. Raises ValueError.
    """
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        return float(text)
    if _DATE.fullmatch(text):
        text += "T00:00"
    return resiliency.microseconds(f"{text}:00" if _MINUTE.fullmatch(text) else text) / 1e6


def asked_schedule(words: str) -> Schedule:
    """Return the schedule of ``interval=600`` or ``interval=10m,flush=4``. Raises ValueError.

    Without `flush` its `flush_every` is 0: flushes stay as they are.
    """
    pairs = [each.strip().partition("=") for each in words.split(",")]
    given = {name: value for name, _, value in pairs}
    if len(given) < len(pairs):
        raise ValueError(f"{words!r}: say interval and flush once each; one command answers one question")
    flush = given.pop("flush", None)
    if given.keys() != {"interval"} or not (flush is None or _FLUSH_EVERY.fullmatch(flush)):
        raise ValueError(f"{words!r}: say interval=600 (seconds, or 10m, 2h), and flush=4 if you like")
    return Schedule(interval_s=parse_duration_s(given["interval"]), flush_every=int(flush or 0))


def mtbf_prior(words: str) -> FailurePrior:
    """Return the prior of ``24h``, or ``24h:3``: an MTBF of the job, and its weight. Raises ValueError."""
    mtbf, _, failures = words.partition(":")
    try:
        weight = float(failures) if failures else RATE_WEIGHT
        prior = FailurePrior(mtbf_s=parse_duration_s(mtbf), weight=weight, source="--mtbf-prior")
    except ValueError:
        weight = _MOST_FAILURES + 1
    if weight > _MOST_FAILURES:
        raise ValueError(f"{words!r}: say an MTBF of the job, and the failures it weighs: 24h:3")
    return prior


@dataclass(frozen=True)
class GoodputOptions(OneJob):
    """Options of `scrtune goodput`."""

    logs: tuple[Path, ...] = option("[LOG]...")
    job_name: str | None = option("--job-name NAME", "The job in the logs; default: all of them.")
    reference_step_time_s: float | None = option(
        "--reference-step-time SECONDS",
        "What a step should take: what steps took beyond it is no goodput.",
        click.FLOAT,
        parse=_step_time_s,
    )
    window: TimeWindow | None = option(
        "--window START..END|LAST",
        "That part of the time: two times, of which one may be left out; a day; or as 900, 15m, 2h, 1d.",
        parse=time_window,
    )
    policy: Policy | None = option(
        "--policy",
        "Buckets that sum to the wall time (conserving, the default), ml-goodput-measurement's rules, or both"
        " and where they differ.",
    )
    form: Form = option("--format", "Output form.", default="table")
    interval: bool = option("--interval", "Show the best interval between checkpoints instead.")
    what_if: Schedule | None = option(
        "--what-if interval=TIME[,flush=N]",
        "Show that, and what another interval, or flushing every N-th checkpoint, would bring.",
        parse=asked_schedule,
    )
    mtbf_prior: FailurePrior | None = option(
        "--mtbf-prior TIME[:FAILURES]",
        "With these: how often the job fails, by what you know, and how many failures that weighs.",
        parse=mtbf_prior,
    )
    html: Path | None = option(
        "--html FILE", "Write a page with a figure and tables instead; it needs no other file.", FILE
    )
    png: Path | None = option("--png FILE", "Draw the figure of that page as a picture instead.", FILE)

    @property
    def query(self) -> GoodputQuery:
        """What is asked about the time."""
        step_s = self.reference_step_time_s
        return GoodputQuery(reference_step_time_s=step_s, window=self.window, policy=self.policy)

    @property
    def asks_interval(self) -> bool:
        """Whether it is about the interval between checkpoints."""
        return self.interval or self.what_if is not None


@command(GoodputOptions)
def goodput(options: GoodputOptions) -> None:
    """Show where the job's time went; the buckets sum to its wall time.

    Without LOG it is about a job of scrtune's. LOG is a file with what is known of a job's time: a log of the
    resiliency library, of ml-goodput-measurement, SCR's, scrtune's own or a daemon's journal, a DFTracer
    trace or a directory of them; which of them it is shows in its content.
    """
    if options.logs and options.job_id is not None:
        raise click.UsageError("--job-id is about a job of scrtune's; of LOG, name one with --job-name")
    if not options.logs and options.job_name is not None:
        raise click.UsageError("--job-name is about a job in LOG; of scrtune's, name one with --job-id")
    _say_which(options)
    if options.html or options.png:
        _write_report(options)
    elif options.asks_interval:
        _print_interval(options)
    elif options.mtbf_prior is not None:
        raise click.UsageError("--mtbf-prior goes with --interval or --what-if")
    elif options.query.is_plain and not options.logs:
        _print(views.of_running_or_ended(find(options.job_id)), options.form)
    else:
        if options.logs:
            view = views.of_logs(options.logs, options.job_name, options.query)
        else:
            view = views.of_journal(find(options.job_id), options.query)
        report_unread(view.problems, repeated=view.repeated, lost=view.lost)
        _print(view, options.form)


def _print(view: views.LogsView | views.JobGoodputView, form: Form) -> None:
    print_view(view, form, tables.jobs, lambda view: csv_text(tables.COLUMNS, tables.rows(view)))


def _say_which(options: GoodputOptions) -> None:
    """Say on standard error which of several jobs of scrtune's is shown where nobody named one."""
    if options.logs or options.job_id is not None or job_id_from_environment() != NO_JOB_ID:
        return
    if (count := sum(1 for _ in jobs())) > 1:
        text = f"scrtune: of {count} jobs here this is about the latest, {find(None).job_id!r}; name another"
        click.echo(printable(f"{text} one with --job-id (`scrtune jobs` lists them)"), err=True)


def _write_report(options: GoodputOptions) -> None:
    allowed = GoodputQuery(reference_step_time_s=options.reference_step_time_s)
    others = options.asks_interval or options.mtbf_prior is not None
    if options.query != allowed or options.form != "table" or others:
        raise click.UsageError("--html and --png go with --job-id, --job-name and --reference-step-time only")
    with extra("--html and --png need", "report"):  # here, because drawing takes 0.4 s to load
        from importlib.metadata import version  # noqa: PLC0415

        from ...goodput.report import report  # noqa: PLC0415
        from ..html.page import page, picture  # noqa: PLC0415
        from ..views.tuned_job import outlook_of, tuned_job  # noqa: PLC0415
    job, step_s = of_one(options.logs, options.job_id, options.job_name), options.reference_step_time_s
    changes, by_number = tuner_changes(job.decisions, job.gains), bool(job.launcher)
    of_it = (job.name, job.events, job.ledger, job.now, job.costs)
    shown = report(*of_it, reference_step_s=step_s, read=job.read, by_number=by_number)
    if options.html is not None:
        tuned, interval = tuned_job(job), outlook_of(job)
        text = page(shown, changes, version=version("scrtune"), tuned=tuned, outlook=interval)
        options.html.write_text(text, encoding="utf-8")
    if options.png is not None:
        title = f"{printable(shown.job_name) or '(no name)'}: goodput {shown.account.goodput:.1%}"
        options.png.write_bytes(picture(shown, changes, title))


def _print_interval(options: GoodputOptions) -> None:
    if not options.query.is_plain or options.form == "csv":
        raise click.UsageError(
            "--interval and --what-if go with --job-id, --job-name and --format table or json only"
        )
    job = of_one(options.logs, options.job_id, options.job_name)
    view = outlook(inputs(job), options.mtbf_prior, options.what_if)
    named = JobOutlook(job_name=job.name, **msgspec.structs.asdict(view))
    print_view(named, options.form, interval_tables.outlook)
