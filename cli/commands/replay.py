"""`scrtune replay`: what recorded traces recommend."""

from dataclasses import dataclass
from pathlib import Path

import click

from ...intents.observe.redundancy import FLOORS
from ...replay.run import JobShape, replay_traces
from ..format import printable
from ..options import Form, command, option
from ..output import print_view
from ..text import tables
from ..views.replay import replay as replay_view

_CONF = click.Path(path_type=Path, exists=True, dir_okay=False)


@dataclass(frozen=True)
class ReplayOptions:
    """Options of `scrtune replay`."""

    traces: tuple[Path, ...] = option("TRACE...")
    prefix: str = option("--prefix", "The job's prefix directory, as its paths name it.", default="")
    cache: str = option("--cache", "The job's cache directory.", default="")
    conf: Path | None = option("--conf", "The SCR config file that the job ran with.", _CONF)
    system_conf: Path | None = option(
        "--system-conf", "The system's SCR config file where the job ran; default: none.", _CONF
    )
    cores: int = option("--cores", "Cores of a node; a trace does not say.", click.IntRange(min=0), default=0)
    nodes: int = option(
        "--nodes", "Nodes; default: the host names in the trace.", click.IntRange(min=0), default=0
    )
    floor: str | None = option(
        "--redundancy-floor",
        "The failure the job wants to survive; default: the scheme in --conf, or SCR's own.",
        click.Choice(sorted(FLOORS), case_sensitive=False),
    )
    form: Form = option("--format", "Output form.", default="table")


@command(ReplayOptions)
def replay(options: ReplayOptions) -> None:
    """Run recorded traces through the tuner's pipeline and print what it recommends, with its reasons.

    TRACE is a .pfw or .pfw.gz file of any DFTracer release, or a directory that is searched for them.
    """
    shape = JobShape(
        prefix=options.prefix,
        cache=options.cache,
        cores=options.cores,
        nodes=options.nodes,
        floor=options.floor or "",
        conf=_text(options.conf),
        system_conf=_text(options.system_conf),
    )
    replayed = replay_traces(options.traces, shape)
    files = {"user config": options.conf, "system config": options.system_conf}
    for problem in replayed.problems:
        click.echo(printable(f"scrtune: {files[problem.source]}: {problem}"), err=True)
    print_view(replay_view(replayed), options.form, tables.replay)


def _text(path: Path | None) -> str | None:
    return path.read_bytes().decode("utf-8", "surrogateescape") if path else None
