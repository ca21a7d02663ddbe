"""What recorded traces recommend: `scrtune replay`."""

from collections.abc import Sequence

import msgspec

from ...daemon.views import IntentView, intent_views
from ...intents.counters import Counters
from ...intents.events import Values
from ...intents.rules.explain import LeverView, why_nothing
from ...intents.rules.levers import LEVERS
from ...intents.rules.parameter import DerivedParameter
from ...intents.rules.situation import Proposal
from ...replay.run import MergedTraces, Replayed

_UNOBSERVED = {"core affinity": "a trace does not say how many cores a node has: --cores does"}


class IntentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one intent: what is recommended, or why nothing is."""

    intent: str
    recommended: Values = {}
    why: str = ""


class ReplayView(msgspec.Struct, frozen=True, kw_only=True):
    """What recorded traces say; `unseen` that they lack writes. Nothing of the proposals was tried."""

    files: int
    lines: int
    span_s: float
    processes: int
    hosts: int
    settings_from: str
    checkpoints: int
    checkpoints_from: str
    unseen: str
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
        settings_from=replayed.settings_from,
        checkpoints=pipeline.account(replayed.end_s).checkpoints,
        checkpoints_from=replayed.checkpoints_from,
        unseen=replayed.unseen,
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
