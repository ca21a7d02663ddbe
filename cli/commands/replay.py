"""`scrtune replay`: what recorded traces recommend."""

from pathlib import Path
from typing import Annotated

import click
import msgspec

from ...intents.observe.redundancy import FLOORS
from ...replay.run import JobShape
from ...replay.run import replay as replay_traces
from ..options import PATH, ViewForm, command
from ..output import print_view
from ..text import show
from ..views.replay import replay as replay_view

_CONF = click.Path(path_type=Path, exists=True, dir_okay=False)


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `scrtune replay`."""

    traces: Annotated[
        tuple[Path, ...],
        click.argument("traces", nargs=-1, required=True, type=PATH, metavar="TRACE..."),
    ]
    prefix: Annotated[
        str, click.option("--prefix", default="", help="The job's prefix directory, as its paths name it.")
    ]
    cache: Annotated[str, click.option("--cache", default="", help="The job's cache directory.")]
    conf: Annotated[
        Path | None, click.option("--conf", type=_CONF, help="The SCR config file that the job ran with.")
    ]
    system_conf: Annotated[
        Path | None,
        click.option(
            "--system-conf",
            type=_CONF,
            help="The system's SCR config file where the job ran; default: none.",
        ),
    ]
    cores: Annotated[
        int,
        click.option(
            "--cores", type=click.IntRange(min=0), default=0, help="Cores of a node; a trace does not say."
        ),
    ]
    nodes: Annotated[
        int,
        click.option(
            "--nodes",
            type=click.IntRange(min=0),
            default=0,
            help="Nodes; default: the host names in the trace.",
        ),
    ]
    floor: Annotated[
        str | None,
        click.option(
            "--redundancy-floor",
            "floor",
            type=click.Choice(sorted(FLOORS), case_sensitive=False),
            help="The failure the job wants to survive; default: the scheme in --conf, or SCR's own.",
        ),
    ]
    form: ViewForm


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
        click.echo(show.printable(f"scrtune: {files[problem.source]}: {problem}"), err=True)
    print_view(replay_view(replayed), options.form, show.replay)


def _text(path: Path | None) -> str | None:
    return path.read_bytes().decode("utf-8", "surrogateescape") if path else None
