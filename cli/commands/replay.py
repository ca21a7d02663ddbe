"""`scrtune replay`: what recorded traces recommend."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import msgspec

from ...daemon.launch.environment import to_follow
from ...daemon.views import IntentView, intent_views, merged
from ...intents.counters import Counters
from ...intents.events import Values
from ...intents.observe.faults.redundancy import FLOORS
from ...intents.rules.explain import LeverView, why_nothing
from ...intents.rules.levers import LEVERS
from ...intents.rules.parameter import DerivedParameter
from ...intents.rules.parameters import advised
from ...intents.rules.situation import Proposal
from ...intents.settings import changes_text
from ...replay.run import JobShape, MergedTraces, Replayed, are_apart, replay_traces
from ...scr_config.render import environment_text
from ...units import count_text
from ..blocks import Document, facts, table
from ..format import printable
from ..job_options import Declarations
from ..options import command, option
from ..tables import job as tables
from ..terminal import print_view
from ..user_files import config_text

Form = Literal["table", "json", "sh", "csh", "fish", "slurm", "conf"]

_UNOBSERVED = {"core affinity": "a trace does not say how many cores a node has: --cores does"}
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
        print_view(view, form, _tables)
        return
    settings = to_follow({**advised(view.parameters), **merged(view.proposals)})
    if not settings:
        why = why_nothing(view.levers)
        click.echo(f"scrtune: nothing to recommend: {why} (--format table has all levers)", err=True)
        return
    click.echo(environment_text(settings, form), nl=False)


class IntentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one intent: what is recommended, or why nothing is."""

    intent: str
    recommended: Values = {}
    why: str = ""


class ReplayView(msgspec.Struct, frozen=True, kw_only=True):
    """What recorded traces say. Nothing of the proposals was tried."""

    files: int
    lines: int
    span_s: float
    processes: int
    hosts: int
    checkpoints: int
    checkpoints_from: str
    counters: Counters
    damage: tuple[str, ...]
    intents: tuple[IntentView, ...]
    proposals: tuple[Proposal, ...]
    levers: tuple[LeverView, ...] = ()
    parameters: tuple[DerivedParameter, ...] = ()
    """What follows from the intents without a trial."""
    contradictions: tuple[str, ...] = ()
    answers: tuple[IntentAnswer, ...] = ()
    merged: tuple[MergedTraces, ...] = ()


def replay_view(replayed: Replayed) -> ReplayView:
    """Return what recorded traces say, and what the rules make of it."""
    pipeline, summary = replayed.pipeline, replayed.summary
    intents, proposals = intent_views(pipeline), pipeline.proposals()
    levers, parameters = pipeline.levers(), pipeline.parameters()
    return ReplayView(
        files=summary.files,
        lines=summary.lines,
        span_s=replayed.end_s - replayed.start_s,
        processes=len(pipeline.observers.workflow.processes),
        hosts=len({host for host, _ in pipeline.observers.workflow.processes}),
        checkpoints=pipeline.account(replayed.end_s).checkpoints,
        checkpoints_from=replayed.checkpoints_from,
        counters=pipeline.counters,
        damage=tuple(f"{each.source}, byte {each.offset}: {each.reason}" for each in summary.damage),
        intents=intents,
        proposals=proposals,
        levers=levers,
        parameters=parameters,
        contradictions=pipeline.contradictions,
        answers=tuple(_answer(each, proposals, levers, parameters) for each in intents),
        merged=replayed.merged if len(replayed.merged) > 1 else (),
    )


def _answer(
    intent: IntentView,
    proposals: Sequence[Proposal],
    levers: Sequence[LeverView],
    parameters: Sequence[DerivedParameter],
) -> IntentAnswer:
    """Return what is recommended of the parameters of `intent`, or why nothing is."""
    if not intent.count and intent.name in _UNOBSERVED:
        return IntentAnswer(intent=intent.name, why=_UNOBSERVED[intent.name])
    names = {lever.name for lever in LEVERS if lever.intent == intent.name}
    mine = [each for each in parameters if each.intent == intent.name]
    changes = (change for each in proposals for change in each.changes.items())
    recommended = {name: value for name, value in changes if name in names}
    recommended |= {each.name: each.value for each in mine if each.stands and each.value is not None}
    if recommended:
        return IntentAnswer(intent=intent.name, recommended=recommended)
    views = [each for each in levers if each.name in names]
    if any(each.other is not None and each.gain_s > 0 for each in views):
        return IntentAnswer(intent=intent.name, why=why_nothing(views))
    reasons: dict[str, list[str]] = {}
    against = [(each.name, each.veto or each.overruled or each.why_not or each.command) for each in mine]
    for name, why in (*((each.name, each.why) for each in views), *against):
        reasons.setdefault(why, []).append(name)
    why = "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items() if why)
    return IntentAnswer(intent=intent.name, why=why or "no parameter follows from it")


def _tables(view: ReplayView) -> Document:
    counters = view.counters
    found = (f"{count} of generation {number}" for number, count in sorted(counters.generations.items()))
    generations, lines = ", ".join(found) or "nothing", count_text(view.lines, "line")
    dropped = count_text(sum(counters.dropped.values()), "line")
    events = count_text(counters.trace_events, "event")
    processes = count_text(view.processes, "process", "processes")
    unresolved = count_text(counters.unresolved, "access", "accesses")
    rows = {
        "read": f"{count_text(view.files, 'file')}, {lines}: {generations}",
        "merged": "\n".join(_merged(view)),
        "job": f"{processes} on {count_text(view.hosts, 'host')}, {view.span_s:.2f} s",
        "found": f"{events}, {count_text(view.checkpoints, 'checkpoint')}",
        "checkpoints": view.checkpoints_from,
        "dropped": ": ".join(filter(None, (dropped, tables.counts(counters.dropped)))),
        "unresolved": f"{unresolved} to files that no line names",
        "damaged": "\n".join(view.damage),
    }
    answers = ((each.intent, changes_text(each.recommended) or "-", each.why) for each in view.answers)
    title = "What follows from each intent"
    follows = [each for each in view.parameters if each.is_wanted or each.command]
    return [
        [facts(rows)],
        [tables.intents(view.intents)],
        [table("intent", "recommended", "why nothing", rows=answers, title=title)],
        *_recommendations(view),
        [tables.parameters(follows)] if follows else [],
        [tables.levers(view.levers)],
    ]


def _merged(view: ReplayView) -> Iterator[str]:
    start_s = min((each.start_s for each in view.merged if each.end_s > 0), default=0.0)
    for each in view.merged:
        when = f"from {each.start_s - start_s:,.2f} to {each.end_s - start_s:,.2f} s"
        yield f"{each.path}: {count_text(each.files, 'file')}, {when if each.end_s else 'no event'}"
    if view.merged:
        apart = ", though they do not overlap" if are_apart(view.merged) else ""
        yield f"read as one job{apart}; scrtune study NAME=PATH... compares several runs"


def _recommendations(view: ReplayView) -> Document:
    if not view.proposals:
        return [[f"Nothing to recommend: {why_nothing(view.levers)}."]]
    title = "Recommendations (by the cost model and the trace, untried)"
    return [
        tables.proposals(view.proposals, title),
        ["For the job script: the same command with --format sh."],
    ]
