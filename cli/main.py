"""The `scrtune` command. Exit codes: `docs/cli.md`."""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
import msgspec
from rich.console import RenderableType

from ..client.capture.environment import CaptureUnavailableError
from ..client.capture.forward import forward as forward_traces
from ..client.paths import JobPaths, RunDirectoryError
from ..client.transport.daemon_client import DaemonUnavailable
from ..daemon import views
from ..daemon.journal import JournalError
from ..daemon.launch import run
from ..daemon.launch.environment import ConfigFiles, Job, JobOptions, to_follow, variables_by_hand
from ..daemon.launch.preload import Preload, export_text
from ..daemon.launch.slurm import serve_node
from ..daemon.loop import Daemon
from ..daemon.options import DaemonOptions, Monitoring
from ..daemon.process import AlreadyRunningError, Signals, end_at_eof
from ..goodput.interval.model import IntervalError
from ..intents.observe.redundancy import FLOORS
from ..replay.run import JobShape
from ..replay.run import replay as replay_traces
from ..scr_config.render import Form, RenderError
from . import find_job as chosen_job
from . import jobs
from .commands import (
    check as check_command,
)
from .commands import (
    goodput as goodput_command,
)
from .commands import (
    interval as interval_command,
)
from .commands import (
    params as config_commands,
)
from .commands import (
    report as report_command,
)
from .commands.demo import DemoError
from .commands.demo import demo as run_demo
from .commands.record import record
from .monitoring_options import missing, monitoring_options
from .text import gains as show_gains
from .text import logs as show_logs
from .text import show
from .text.demo import report
from .views.replay import replay as replay_view

EXIT_FAILURE = 1
EXIT_NO_JOB = 3
EXIT_ALREADY_RUNNING = 4
EXIT_RUN_DIRECTORY = 5

_SETTLED_LIMIT_S = 1.0
_SETTLED_STEP_S = 0.05

_F = TypeVar("_F", bound=Callable[..., Any])

_EXIT_CODES: dict[type[Exception], int] = {
    jobs.UnknownJobError: EXIT_NO_JOB,
    goodput_command.UnknownJobError: EXIT_NO_JOB,
    goodput_command.LogError: EXIT_FAILURE,
    IntervalError: EXIT_FAILURE,
    DaemonUnavailable: EXIT_NO_JOB,
    jobs.NotPublishedError: EXIT_FAILURE,
    AlreadyRunningError: EXIT_ALREADY_RUNNING,
    RunDirectoryError: EXIT_RUN_DIRECTORY,
    JournalError: EXIT_RUN_DIRECTORY,
    CaptureUnavailableError: EXIT_FAILURE,
    DemoError: EXIT_FAILURE,
    RenderError: EXIT_FAILURE,
    OSError: EXIT_FAILURE,
}


def _told(command: _F) -> _F:
    """Turn our own errors into one line on standard error and an exit code."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            sys.exit(0)  # the reader has seen enough (head, less)
        except tuple(_EXIT_CODES) as error:
            click.echo(f"scrtune: {error}", err=True)
            sys.exit(next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)))

    return wrapped  # type: ignore[return-value]


_job_option = click.option(
    "--job-id", metavar="ID", help="The job; default: this environment's, else the latest on this host."
)
_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output form.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="scrtune")
def main() -> None:
    """Tune checkpointing with SCR while the job runs.

    \b
    scrtune run -- mpiexec -n 2 python app.py     a job with the tuner beside it
    eval "$(scrtune env)"                         the recommended SCR environment
    scrtune explain                               what was changed, and why
    scrtune replay TRACE...                       what recorded traces recommend
    """  # noqa: D301


_trace_option = click.option(
    "--trace",
    type=click.Choice(["preload", "function", "off"]),
    default="preload",
    show_default=True,
    help="How DFTracer gets in: preloaded, by the application's own initialize_log, or not at all.",
)


_preload_option = click.option(
    "--preload",
    type=click.Choice(get_args(Preload)),
    default="auto",
    show_default=True,
    help="libscrtune.so for C, C++ and Fortran: where it was built, always (a warning if not), or never.",
)


@main.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--job-id", metavar="ID", help="Name of the job; default: $SLURM_JOB_ID, else the time.")
@_trace_option
@_preload_option
@click.option("--no-tune", is_flag=True, help="Observe and propose, but change nothing.")
@click.option(
    "--redundancy-floor",
    "floor",
    type=click.Choice(sorted(FLOORS), case_sensitive=False),
    help="The failure to survive, as a scheme or as process or node; default: your own scheme.",
)
@click.option("--override", is_flag=True, help="Also change SCR_* that your environment sets.")
@click.option(
    "--scr-conf",
    type=click.Path(path_type=Path),
    help="The SCR config file to rewrite; default: a private one.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@monitoring_options
@_told
def run_command(
    job_id: str | None, command: tuple[str, ...], no_tune: bool, floor: str | None, **options: Any
) -> None:
    """Run COMMAND with the tuner beside it, and exit with its exit code.

    Starts the daemon and the forwarder, exports the environment, runs the command, ends both. Within a Slurm
    allocation the daemons run in a step of their own on every node. Whatever goes wrong with the tuner is
    told, and the command runs without it.
    """
    logging.basicConfig(format="scrtune: %(message)s", level=logging.WARNING)
    paths = run.job_paths(job_id)
    job = JobOptions(tuning=not no_tune, floor=floor or "", **options)
    for text in missing(job.monitoring):
        click.echo(f"scrtune: {text}", err=True)
    sys.exit(run.run(command, paths, job, lambda: _summary(paths)))


def _summary(paths: JobPaths) -> None:
    """What became of the tuning, in two lines on standard error.

    The daemon is asked: the journal of a long job would take longer to replay than its user wants to wait.
    It is asked again until it says the same twice, which it does when all that it was sent is taken in: the
    goodput of a job that has not ended changes all the time.
    """
    deadline_s = time.monotonic() + _SETTLED_LIMIT_S
    with contextlib.suppress(DaemonUnavailable):
        view, before = jobs.ask(paths, "status", views.StatusView), None
        while before != view and time.monotonic() < deadline_s:
            time.sleep(_SETTLED_STEP_S)
            view, before = jobs.ask(paths, "status", views.StatusView), view
        for line in show.summary(view):
            click.echo(line, err=True)


@main.command(hidden=True)
@click.option("--prolog", type=click.Path(path_type=Path), required=True)
@click.option("--scr-conf", type=click.Path(path_type=Path), required=True)
@click.option("--user-conf", type=click.Path(path_type=Path))
@click.option("--library", type=click.Path(path_type=Path))
@_trace_option
@monitoring_options
@_told
def node(prolog: Path, scr_conf: Path, user_conf: Path | None, **options: Any) -> None:
    """Daemon and forwarder of one node of an allocation (started by `scrtune run` with srun)."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    files = ConfigFiles(scr_conf=scr_conf, user_conf=user_conf)
    serve_node(JobPaths.of(), Job(files=files, **options), prolog)


_until_eof_option = click.option(
    "--until-eof", is_flag=True, help="The end of standard input ends it as SIGTERM does."
)


@main.command(short_help="Run the daemon of a job in the foreground; SIGTERM ends it.")
@click.option("--job-id", metavar="ID", help="The job; default: this environment's, else defjobid as in SCR.")
@click.option("--scr-conf", type=click.Path(path_type=Path), help="The SCR config file to rewrite.")
@click.option("--user-conf", type=click.Path(path_type=Path), help="Your own SCR config file, to start from.")
@_until_eof_option
@monitoring_options
@_told
def daemon(
    job_id: str | None,
    scr_conf: Path | None,
    user_conf: Path | None,
    monitoring: Monitoring,
    *,
    until_eof: bool,
) -> None:
    """Run the daemon of a job on this node, in the foreground; SIGTERM ends it.

    `scrtune run` starts it for you. Started again after a crash it goes on from its journal.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    paths = JobPaths.of(job_id)
    options = DaemonOptions(
        paths=paths, scr_conf=scr_conf or paths.scr_conf, user_conf=user_conf, monitoring=monitoring
    )
    if until_eof:
        end_at_eof(sys.stdin.fileno())
    Daemon(options).run()


@main.command(short_help="Follow DFTracer's files and push their lines to a daemon.")
@click.argument("log_prefix", type=click.Path(path_type=Path), required=False)
@click.argument("endpoint", required=False)
@_until_eof_option
@_told
def forward(log_prefix: Path | None, endpoint: str | None, *, until_eof: bool) -> None:
    """Follow DFTracer's files LOG_PREFIX-*.pfw and push their lines to ENDPOINT, until SIGTERM.

    Beside them the file that $SCRTUNE_EVENTS_FILE names, to which the preloaded library writes, and SCR's own
    log. Without arguments: those of this environment's job. `scrtune run` starts it for you.
    """
    paths = JobPaths.of()
    with Signals().watched() as signals:
        if until_eof:
            end_at_eof(sys.stdin.fileno())
        said = os.environ.get("SCRTUNE_EVENTS_FILE")
        counts = forward_traces(
            log_prefix or paths.trace_prefix,
            endpoint or paths.events_endpoint,
            lambda: signals.ending,
            reclaim=True,
            events_file=Path(said).absolute() if said else None,
        )
    click.echo(f"forwarder ended: {counts}", err=True)


@main.command()
@click.option(
    "--job-id",
    metavar="ID",
    help="The job; default: this environment's, else the one that runs on this host.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Form)),
    default="sh",
    show_default=True,
    help="For which shell; JSON; for a Slurm task prolog; options of flux run; or as SCR's config file.",
)
@click.option(
    "--resolved",
    is_flag=True,
    help="Show what SCR would find here, without a job: a table, or JSON with --format json.",
)
@click.option(
    "--conf",
    type=click.Path(path_type=Path, readable=False),
    help="With --resolved: this for the user's config file; default: where SCR looks.",
)
@click.option(
    "--system-conf",
    type=click.Path(path_type=Path, readable=False),
    help="With --resolved: this for the system's config file; default: as compiled into SCR.",
)
@_preload_option
@_told
def env(job_id: str | None, form: Form, resolved: bool, preload: Preload, **files: Path | None) -> None:
    """Print the recommended SCR environment: eval "$(scrtune env)".

    It is what the job's next SCR_Start_output gets: your own settings with what was tuned; and while its
    daemon runs, what an application needs to be tuned by it, LD_PRELOAD among it: yours stays behind ours.
    Prints nothing but that on standard output, and nothing at all when there is no job. Without --job-id it
    is about this environment's job, else the one that runs on this host. Where a job has its files and what
    it is called (SCR_PREFIX, SCR_CACHE_BASE and the like) stays as it is here.

    With --resolved: the value of each parameter, the layer and the place it comes from, and what it shadows.
    """
    if resolved or any(files.values()):
        config_commands.show_resolved(form, resolved=resolved, **files)
        return
    paths = jobs.find_to_follow(job_id)
    settings = to_follow(jobs.advice(paths).settings)
    variables = variables_by_hand(paths, settings, preload, os.environ) if jobs.is_running(paths) else {}
    click.echo(export_text(settings, variables, form, os.environ.get("LD_PRELOAD", "")), nl=False)


@main.command(short_help="Show the state of a job: what arrived, and what was lost.")
@_job_option
@_format_option
@_told
def status(job_id: str | None, form: str) -> None:
    """Show the state of a job: what arrived, what was lost, what is being tried."""
    _show(jobs.status(chosen_job.find(job_id)), form, show.status)


@main.command(short_help="Show why the settings are what they are, with the evidence.")
@_job_option
@_format_option
@_told
def explain(job_id: str | None, form: str) -> None:
    """Show why the settings are what they are: intents with evidence, every change with its reason."""
    _show(jobs.explain(chosen_job.find(job_id)), form, show_gains.explain)


@main.command(short_help="Show where a job's time went, from its daemon or from its logs.")
@click.argument("logs", nargs=-1, type=click.Path(path_type=Path), metavar="[LOG]...")
@_job_option
@click.option("--job-name", metavar="NAME", help="The job in the logs; default: all of them.")
@click.option(
    "--reference-step-time",
    "reference_step_time_s",
    type=float,
    callback=goodput_command.step_time_of,
    metavar="SECONDS",
    help="What a step should take: what steps took beyond it is no goodput.",
)
@click.option(
    "--window",
    callback=goodput_command.window_of,
    metavar="START..END|LAST",
    help="That part of the time: two times, of which one may be left out; a day; or as 900, 15m, 2h, 1d.",
)
@click.option(
    "--policy",
    type=click.Choice(goodput_command.POLICIES),
    default="conserving",
    show_default=True,
    help="Buckets that sum to the wall time, ml-goodput-measurement's rules, or both and where they differ.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(goodput_command.FORMATS),
    default="table",
    show_default=True,
    help="Output form.",
)
@interval_command.options
@report_command.options
@_told
def goodput(logs: tuple[Path, ...], job_id: str | None, form: str, interval: bool, **wanted: Any) -> None:
    """Show where the job's time went; the buckets sum to its wall time.

    Without LOG it is about a job of scrtune's. LOG is a file that tells of a job's time: a log of the
    resiliency library, of ml-goodput-measurement, SCR's, scrtune's own or a daemon's journal, a DFTracer
    trace or a directory of them; what it is shows in its content.
    """
    chosen_job.refuse_misnamed(logs, job_id, wanted["job_name"])
    files = {name: wanted.pop(name) for name in ("html", "png")}
    if any(files.values()):
        report_command.write(logs, job_id, form, interval=interval, **files, **wanted)
        return
    if interval or wanted["asked"] is not None:
        _show(interval_command.outlook(logs, job_id, form, **wanted), form, interval_command.table)
        return
    if wanted["mtbf_prior"] is not None:
        raise click.UsageError("--mtbf-prior goes with --interval or --what-if")
    del wanted["asked"], wanted["mtbf_prior"]
    if logs:
        show_logs.print_logs(logs, form, **wanted)
        return
    paths = chosen_job.find(job_id)
    del wanted["job_name"]
    if wanted != {"policy": "conserving", "window": None, "reference_step_time_s": None}:
        show_logs.print_view(goodput_command.report_job(paths, **wanted), form)
        return
    view = goodput_command.of_job(paths)
    if form == "csv":
        click.echo(show_logs.csv_of_job(view), nl=False)
    else:
        _show(view, form, show_logs.shown_job)


@main.command(short_help="Stop tuning a running job: your own settings come back.")
@_job_option
@_told
def off(job_id: str | None) -> None:
    """Stop tuning a running job: your own settings are in force from its next SCR_Start_output.

    Returns when they are published. The job is observed on, and `scrtune on` has it tuned again.
    """
    click.echo(show.switched(jobs.switch(jobs.find(job_id, no_other=True), on=False), on=False))


@main.command(short_help="Tune a running job again, after `scrtune off`.")
@_job_option
@_told
def on(job_id: str | None) -> None:
    """Tune a running job again, after `scrtune off`, from the settings that are in force."""
    click.echo(show.switched(jobs.switch(jobs.find(job_id, no_other=True), on=True), on=True))


def _show(view: Any, form: str, table: Callable[[Any], RenderableType]) -> None:
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
    else:
        show.console().print(table(view))


@main.command(short_help="Watch a job with poor settings being tuned, in about a minute.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as one JSON object, and nothing else."
)
@click.option(
    "--svg", type=click.Path(path_type=Path), metavar="FILE", help="Also save the report as a picture."
)
@_told
def demo(as_json: bool, svg: Path | None) -> None:
    """Run a checkpointing MPI job with poor settings and watch it being tuned, in about a minute.

    Three runs of the same job: SCR's defaults, poor settings, poor settings tuned live. All measured here
    and now.
    """
    out = show.console()
    if as_json:
        view = run_demo(lambda _: None, lambda _: None)
        click.echo(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
    else:
        view = run_demo(
            lambda decision: out.print(show.decision_line(decision)),
            lambda what: out.print(f"\nRunning: {what}"),
        )
        out.print(report(view))
    if svg is not None:
        svg.write_text(show.picture(report(view), "scrtune demo"), encoding="utf-8")


@main.command(short_help="Print what recorded traces recommend, with the reasons.")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...")
@click.option("--prefix", default="", help="The job's prefix directory, as its paths name it.")
@click.option("--cache", default="", help="The job's cache directory.")
@click.option(
    "--conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The SCR config file that the job ran with.",
)
@click.option(
    "--system-conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The system's SCR config file where the job ran; default: none.",
)
@click.option("--cores", type=click.IntRange(min=0), default=0, help="Cores of a node; a trace does not say.")
@click.option(
    "--nodes", type=click.IntRange(min=0), default=0, help="Nodes; default: the host names in the trace."
)
@click.option(
    "--redundancy-floor",
    "floor",
    type=click.Choice(sorted(FLOORS), case_sensitive=False),
    help="The failure the job wants to survive; default: the scheme in --conf, or SCR's own.",
)
@_format_option
@_told
def replay(
    traces: tuple[Path, ...],
    conf: Path | None,
    system_conf: Path | None,
    floor: str | None,
    form: str,
    **shape: Any,
) -> None:
    """Run recorded traces through the tuner's pipeline and print what it recommends, with its reasons.

    TRACE is a .pfw or .pfw.gz file of any DFTracer release, or a directory that is searched for them.
    """
    files = {"user config": conf, "system config": system_conf}
    user, system = (
        path.read_bytes().decode("utf-8", "surrogateescape") if path else None for path in files.values()
    )
    replayed = replay_traces(traces, JobShape(conf=user, system_conf=system, floor=floor or "", **shape))
    for problem in replayed.problems:
        click.echo(show.printable(f"scrtune: {files[problem.source]}: {problem}"), err=True)
    _show(replay_view(replayed), form, show.replay)


main.add_command(config_commands.params)
main.add_command(check_command.check)
main.add_command(record)
