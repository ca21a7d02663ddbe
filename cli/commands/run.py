"""`scrtune run`: a job with the tuner beside it."""

import contextlib
import importlib.util
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_args

import click

from ...client.paths import JobPaths
from ...client.transport.advice import DaemonUnavailable
from ...daemon.launch import run as launch
from ...daemon.launch.environment import JobOptions, Trace
from ...daemon.launch.preload import Preload
from ...daemon.options import OFF, Monitoring
from ...daemon.views import StatusView
from ...intents.observe.redundancy import FLOORS
from ..job_state import ask
from ..options import PATH, MonitoringOptions, command
from ..text import show

_SETTLED_LIMIT_S = 1.0
_SETTLED_STEP_S = 0.05

TraceOption = Annotated[
    Trace,
    click.option(
        "--trace",
        type=click.Choice(get_args(Trace)),
        default="preload",
        show_default=True,
        help="How DFTracer gets in: preloaded, by the application's own initialize_log, or not at all.",
    ),
]
PreloadOption = Annotated[
    Preload,
    click.option(
        "--preload",
        type=click.Choice(get_args(Preload)),
        default="auto",
        show_default=True,
        help="libscrtune.so for C, C++ and Fortran: where it was built, always (a warning if not), or never.",
    ),
]


class RunOptions(MonitoringOptions, frozen=True, kw_only=True):
    """Options of `scrtune run`."""

    job_id: Annotated[
        str | None,
        click.option(
            "--job-id", metavar="ID", help="Name of the job; default: $SLURM_JOB_ID, else the time."
        ),
    ]
    trace: TraceOption
    preload: PreloadOption
    no_tune: Annotated[
        bool, click.option("--no-tune", is_flag=True, help="Observe and propose, but change nothing.")
    ]
    floor: Annotated[
        str | None,
        click.option(
            "--redundancy-floor",
            "floor",
            type=click.Choice(sorted(FLOORS), case_sensitive=False),
            help="The failure to survive, as a scheme or as process or node; default: your own scheme.",
        ),
    ]
    override: Annotated[
        bool, click.option("--override", is_flag=True, help="Also change SCR_* that your environment sets.")
    ]
    scr_conf: Annotated[
        Path | None,
        click.option("--scr-conf", type=PATH, help="The SCR config file to rewrite; default: a private one."),
    ]
    command: Annotated[
        tuple[str, ...], click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
    ]


@command(RunOptions, context_settings={"allow_interspersed_args": False})
def run(options: RunOptions) -> None:
    """Run COMMAND with the tuner beside it, and exit with its exit code.

    Starts the daemon and the forwarder, exports the environment, runs the command, ends both. Within a Slurm
    allocation the daemons run in a step of their own on every node. Whatever goes wrong with the tuner is
    reported, and the command runs without it.
    """
    logging.basicConfig(format="scrtune: %(message)s", level=logging.WARNING)
    paths = launch.job_paths(options.job_id)
    job = JobOptions(
        trace=options.trace,
        preload=options.preload,
        tuning=not options.no_tune,
        floor=options.floor or "",
        override=options.override,
        scr_conf=options.scr_conf,
        monitoring=options.monitoring,
    )
    for text in missing(job.monitoring):
        click.echo(f"scrtune: {text}", err=True)
    sys.exit(launch.run(options.command, paths, job, lambda: _summary(paths)))


def missing(monitoring: Monitoring) -> Iterator[str]:
    """Yield what was asked for and cannot be had, and what to do: the job runs all the same."""
    needed = {
        "--metrics": (monitoring.metrics not in {"", OFF}, "prometheus_client"),
        "--tensorboard": (monitoring.tensorboard, "tensorboardX"),
    }
    for option, (is_asked_for, library) in needed.items():
        if is_asked_for and importlib.util.find_spec(library) is None:
            yield f"{option} does nothing: {library} is not installed; pip install 'scrtune[monitoring]'"


def _summary(paths: JobPaths) -> None:
    """Say in two lines on standard error what became of the tuning.

    The daemon is asked: the journal of a long job would take longer to replay than its user wants to wait.
    It is asked again until it says the same twice, which it does when all that it was sent is taken in: the
    goodput of a job that has not ended changes all the time.
    """
    deadline_s = time.monotonic() + _SETTLED_LIMIT_S
    with contextlib.suppress(DaemonUnavailable):
        view, before = ask(paths, "status", StatusView), None
        while before != view and time.monotonic() < deadline_s:
            time.sleep(_SETTLED_STEP_S)
            view, before = ask(paths, "status", StatusView), view
        for line in show.summary(view):
            click.echo(line, err=True)
