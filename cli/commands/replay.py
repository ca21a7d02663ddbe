"""`scrtune replay`: what recorded traces recommend."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ...daemon.launch.environment import to_follow
from ...daemon.views import merged
from ...intents.observe.faults.redundancy import FLOORS
from ...intents.rules.explain import why_nothing
from ...intents.rules.parameters import advised
from ...replay.run import JobShape, replay_traces
from ...scr_config.render import environment_text
from ..format import printable
from ..job_options import Declarations
from ..options import command, option
from ..tables import replay as tables
from ..terminal import print_view
from ..user_files import config_text
from ..views.replay import replay_view

Form = Literal["table", "json", "sh", "csh", "fish", "slurm", "conf"]

_CONF = click.Path(path_type=Path, exists=True, dir_okay=False)


@dataclass(frozen=True)
class ReplayOptions(Declarations):
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
    form: Form = option(
        "--format",
        "Output form; as environment for a job script (sh, csh, fish, slurm) or SCR's config file (conf).",
        default="table",
    )


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
        declared=options.declared,
        conf=config_text(options.conf) if options.conf else None,
        system_conf=config_text(options.system_conf) if options.system_conf else None,
    )
    replayed = replay_traces(options.traces, shape)
    files = {"user config": options.conf, "system config": options.system_conf}
    for problem in replayed.problems:
        click.echo(printable(f"scrtune: {files[problem.source]}: {problem}"), err=True)
    view = replay_view(replayed)
    for told in view.contradictions:
        click.echo(f"scrtune: {told}", err=True)
    if (form := options.form) == "table" or form == "json":
        print_view(view, form, tables.replay)
        return
    settings = to_follow({**advised(view.parameters), **merged(view.proposals)})
    if not settings:
        why = why_nothing(view.levers)
        click.echo(f"scrtune: nothing to recommend: {why} (--format table has all levers)", err=True)
        return
    click.echo(environment_text(settings, form), nl=False)
