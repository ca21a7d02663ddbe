"""`scrtune run`: a job with the tuner beside it."""

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ...client.job_terms import Mode
from ...client.paths import JobPaths
from ...daemon.launch import run as launch
from ...daemon.launch.application import application_of
from ...daemon.launch.environment import KEEP_S, JobOptions
from ...daemon.launch.mpi import mpi_mismatch
from ...daemon.options import OFF, Monitoring
from ...intents.contradictions import in_declared
from ...intents.observe.faults.redundancy import FLOORS
from ...intents.observe.observation import DEFAULT_BUDGET
from ...units import parse_duration_s
from ..errors import UnknownJobError
from ..job_options import Preloaded, RunDeclarations, Traced
from ..options import MonitoringOptions, Probed, command, option

_KEEP = f"{KEEP_S / 86_400:.0f}d"


@dataclass(frozen=True)
class RunOptions(RunDeclarations, MonitoringOptions, Probed, Preloaded, Traced):
    """Options of `scrtune run`."""

    command: tuple[str, ...] = option("COMMAND...", kind=click.UNPROCESSED)
    job_id: str | None = option("--job-id ID", "Name of the job; default: $SLURM_JOB_ID, else the time.")
    mode: Mode | None = option(
        "--mode",
        "Measure alone (observe), also propose (recommend), or also change settings (auto).  [default: auto]",
    )
    no_tune: bool = option("--no-tune", "The same as --mode recommend.")
    floor: str | None = option(
        "--redundancy-floor",
        "The failure to survive, as a scheme or as process or node; default: your own scheme.",
        click.Choice(sorted(FLOORS), case_sensitive=False),
    )
    durability: Literal["strict", "next"] | None = option(
        "--durability",
        "When a checkpoint must be on the prefix directory: at the end of its output, or before the next one"
        " begins.  [default: as your own settings have it; next where those are SCR's defaults]",
    )
    interval: Literal["own", "auto"] = option(
        "--interval",
        "Keep your own checkpoint interval, or choose it by the cost of checkpoints and the rate of failures,"
        " where the application asks SCR_Need_checkpoint.",
        default="own",
    )
    observe_budget: float = option(
        "--observe-budget PERCENT",
        "How much of the job's time observing may cost.",
        click.FloatRange(0, 100),
        default=100 * DEFAULT_BUDGET,
    )
    no_memory: bool = option(
        "--no-memory", "Start without what earlier jobs taught, and keep nothing for later ones."
    )
    keep_s: float = option(
        "--keep TIME",
        "How long run directories of jobs that have ended stay; older ones go at this job's end.",
        default=_KEEP,
        parse=parse_duration_s,
    )
    override: bool = option("--override", "Also change SCR_* that your environment sets.")
    scr_conf: Path | None = option("--scr-conf", "The SCR config file to rewrite; default: a private one.")


@command(RunOptions, context_settings={"allow_interspersed_args": False})
def run(options: RunOptions) -> None:
    """Run COMMAND with the tuner beside it, and exit with its exit code.

    Starts the daemon and the forwarder, exports the environment, runs the command, ends both. Within a Slurm
    allocation the daemons run in a step of their own on every node. Whatever goes wrong with the tuner is
    reported, and the command runs without it.
    """
    if options.no_tune and options.mode not in (None, "recommend"):
        raise click.UsageError(f"--no-tune is --mode recommend: leave it out, or --mode {options.mode}")
    logging.basicConfig(format="scrtune: %(message)s", level=logging.WARNING)
    paths = launch.job_paths(options.job_id)
    job = JobOptions(
        trace=options.trace,
        preload=options.preload,
        mode=options.mode or ("recommend" if options.no_tune else "auto"),
        floor=options.floor or "",
        declared=options.all_declared,
        durability=options.durability or "",
        interval="auto" if options.interval == "auto" else "",
        override=options.override,
        scr_conf=options.scr_conf,
        observe_budget=options.observe_budget / 100,
        probe=not options.no_probe,
        keep_s=options.keep_s,
        application="" if options.no_memory else application_of(options.command),
        monitoring=options.monitoring,
    )
    warnings = (mpi_mismatch(options.command, os.environ), *missing(job.monitoring))
    for warning in filter(None, (*warnings, *in_declared(job.declared))):
        click.echo(f"scrtune: {warning}", err=True)
    sys.exit(launch.run_job(options.command, paths, job, lambda: _at_end(paths, options.keep_s)))


def missing(monitoring: Monitoring) -> Iterator[str]:
    """Yield what was asked for and cannot be had, and what to do: the job runs all the same."""
    metrics, scalars = monitoring.metrics != OFF, monitoring.tensorboard is not None
    needed = (("--metrics", metrics, "prometheus_client"), ("--tensorboard", scalars, "tensorboardX"))
    for flag, is_asked_for, library in needed:
        if is_asked_for and importlib.util.find_spec(library) is None:
            yield f"{flag} does nothing: {library} is not installed; pip install 'scrtune[monitoring]'"


def _at_end(paths: JobPaths, keep_s: float) -> None:
    """Sum up the job, and forget earlier ones."""
    from ..jobs.ended import forget_ended  # noqa: PLC0415 - the application does not wait for it

    _summary(paths)
    forget_ended(paths, keep_s)


def _summary(paths: JobPaths) -> None:
    """Say in a few lines on standard error what became of the tuning, by what the daemon has left.

    It is the last status, or the journal alone of a daemon that did not come to its end.
    """
    import msgspec  # noqa: PLC0415 - these are long there, unless the application never ran

    from ...daemon.journal.records import JournalError  # noqa: PLC0415
    from ...daemon.views import StatusView  # noqa: PLC0415
    from ..jobs import state as job_state  # noqa: PLC0415
    from ..tables.summary import summary  # noqa: PLC0415

    try:
        view = msgspec.json.decode(paths.last_status.read_bytes(), type=StatusView)
    except (OSError, msgspec.MsgspecError):  # no daemon has ended in order
        try:
            view = job_state.status(paths)
        except (UnknownJobError, JournalError, OSError) as error:
            click.echo(f"scrtune: job {paths.job_id}: what became of it is not known: {error}", err=True)
            return
        if not view.counters.events:
            click.echo(
                f"scrtune: job {paths.job_id}: what became of it is not known: nothing was recorded", err=True
            )
            return
    click.echo("\n".join(summary(view)), err=True)
