"""The daemon's answers: what `scrtune status`, `explain`, `off`, `pin` and the like show, however displayed.

A view is made from a :class:`Pipeline`, whether a running daemon holds it or a journal was replayed into it.
"""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from ..goodput.checkpoint_cost import CheckpointCost
from ..goodput.ledger.ledger import Account
from ..intents.counters import Counters
from ..intents.events import SettingsObserved, StorageProbed, Values, ValueSource
from ..intents.job_state import Leader
from ..intents.observe.nodes import NodeEvidence, stragglers
from ..intents.observe.observation import Observation
from ..intents.pipeline import Pipeline
from ..intents.rules.derived.interval import users_own
from ..intents.rules.explain import LeverView, why_nothing
from ..intents.rules.parameter import DerivedParameter
from ..intents.rules.parameters import advised
from ..intents.rules.situation import Proposal
from ..intents.tune.decisions import Decision, Verdict
from ..intents.tune.gains import GainView, gains, together
from ..intents.tune.knowledge import Knowledge

UNREAD = "messages that waited when the daemon ended"
"""What is said to be lost when there was no time for all that an application had sent."""


class IntentView(msgspec.Struct, frozen=True, kw_only=True):
    """One intent as a sentence, with its evidence."""

    name: str
    sentence: str
    source: str
    count: int
    window_s: float
    confidence: str
    end_s: float = 0.0
    """Epoch seconds of the newest observation."""
    number: int = 0
    """The LLNL study's; 0: none."""


class MonitorView(msgspec.Struct, frozen=True, kw_only=True):
    """Where the job's goodput can be watched; `failure` is why it cannot be now, empty when it can."""

    name: str
    failure: str = ""


class SavingsView(msgspec.Struct, frozen=True, kw_only=True):
    """What tuning made of a job's time so far, and what to run the next job with.

    `saved_s` are seconds of all checkpoints against the user's own settings, expected rework aside;
    `applied_s` went into applying settings, `reverted_s` into trials that were taken back. Of `uncounted`
    tuned checkpoints nobody knows what they saved, for the machine had changed. `interval` is the
    checkpoint interval if scrtune chose it (``--interval auto``), whose savings are not among these.
    `for_good` are the settings found, `is_tried` unless they are only proposed; without any `why_nothing`
    says why. `advised` follows from the intents, and was not tried.
    """

    saved_s: float = 0.0
    applied_s: float = 0.0
    reverted_s: float = 0.0
    uncounted: int = 0
    interval: Values = {}
    for_good: Values = {}
    advised: Values = {}
    is_tried: bool = True
    why_nothing: str = ""


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """Another node of the job as the leader hears it.

    `age_s` is how old its last word is, `digest_age_s` its last digest (None: there was none); its clock is
    `ahead_s` of the leader's.
    """

    host: str
    age_s: float
    digest_age_s: float | None = None
    is_lost: bool = False
    ahead_s: float = 0.0


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The daemons of a job: who leads since when (epoch seconds) and why, who is next, who is there.

    `is_heard`: rank 0 has spoken to the leader. Only the leader knows the `members`. `problems` counts what
    was wrong between the nodes.
    """

    leader: str = ""
    term: int = 0
    since_s: float = 0.0
    why: str = ""
    is_heard: bool = False
    next_in_line: str = ""
    members: tuple[MemberView, ...] = ()
    beats: int = 0
    """That have arrived here, of `beat_bytes` in all."""
    beat_bytes: int = 0
    problems: dict[str, int] = {}


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job's daemon."""

    job_id: str
    host: str
    engine: str
    ranks: int
    nodes: int
    running: bool
    tuning: bool
    generation: int
    trying: str
    checkpoints: int
    checkpoint_cost_s: float
    """Believed, of one under the active settings; `baseline_cost_s` under the user's own. 0: not known."""
    baseline_cost_s: float
    trial_budget_s: float
    kept: int
    taken_back: int
    goodput: float
    counters: Counters
    rejected: dict[str, int] = {}
    rewrites: int = 0
    config: str = ""
    config_failure: str = ""
    silent: bool = False
    """It runs, and does not answer: all this is what its journal has."""
    journal_lost: int = 0
    """Events that could not be written down: whatever reads the journal misses them."""
    journal_error: str = ""
    """Why the last ones could not be, empty when they could."""
    monitors: tuple[MonitorView, ...] = ()
    observation: Observation = Observation()
    probe: StorageProbed | None = None
    fixed: Values = {}
    """What the user gave while the job ran, by `scrtune pin` or in the config file."""
    savings: SavingsView = SavingsView()
    pace: str = ""
    """That checkpoints come absurdly often, or never, and what to set; else empty."""
    pace_settings: Values = {}
    """What that says to set."""
    cluster: ClusterView | None = None
    """The daemons of the other nodes; None in a job of one node, and when none runs."""
    leaders: tuple[Leader, ...] = ()
    """Whose daemon decided since when, in a job of several nodes."""
    mean_cost_s: float = 0.0
    """Measured, of the last 10,000 checkpoints, under whichever settings; 0: none was."""
    divergence: str = ""
    """By what the watched metric diverges, and which checkpoint is from before; empty while it does not."""


class OrderView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `scrtune off`, `on`, `pin` or `unpin`; `refused` is why nothing of it was done, or empty.

    `generation` is of the settings that are published; until `is_published` those of the order are not among
    them, and `failure` says why if it was tried. `waiting` are the parameters of the order that only the next
    launch of the job changes. A job that is not known has said nothing to this daemon yet: it will be tuned
    or not as was ordered when it does.
    """

    job_id: str
    tuning: bool
    is_job_known: bool
    generation: int
    is_published: bool
    failure: str = ""
    refused: str = ""
    waiting: tuple[str, ...] = ()


class ExplainView(msgspec.Struct, frozen=True, kw_only=True):
    """Why the settings are what they are, what each change gained, and why each lever is as it is.

    The daemon leaves `job_id` to who asks. `mode` is that of ``scrtune run --mode``.
    """

    baseline: Values
    settings: Values
    sources: dict[str, str]
    intents: tuple[IntentView, ...]
    decisions: tuple[Decision, ...]
    baseline_cost_s: float
    checkpoint_cost_s: float
    trial_budget_s: float
    at_launch: Values = {}
    """What the next launch activates beyond `settings`."""
    start_s: float = 0.0
    """When the job began, epoch seconds; 0 before its first event."""
    unpublished: str = ""
    """Why the settings are active nowhere, when the config file could not be written."""
    gains: tuple[GainView, ...] = ()
    levers: tuple[LeverView, ...] = ()
    parameters: tuple[DerivedParameter, ...] = ()
    """What follows from the intents without a trial."""
    contradictions: tuple[str, ...] = ()
    """What the user said that cannot be, and what counts instead."""
    mode: str = "auto"
    job_id: str = ""
    observation: Observation = Observation()
    probe: StorageProbed | None = None
    recalled: Knowledge | None = None
    """What earlier jobs taught."""
    pace: str = ""
    """As in :class:`StatusView`."""
    running: bool = True
    leaders: tuple[Leader, ...] = ()
    """As in :class:`StatusView`."""
    nodes: tuple[NodeEvidence, ...] = ()
    """What each node has said of itself, where there are several."""
    stragglers: tuple[str, ...] = ()
    """Of which of them the others have far more."""
    proposals: tuple[Proposal, ...] = ()
    """What would be changed in a job whose settings are not (``--mode recommend``), the best first."""


class GoodputView(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time went, what each checkpoint cost, and what each decision gained."""

    goodput: float
    account: Account
    costs: tuple[CheckpointCost, ...] = ()
    gains: tuple[GainView, ...] = ()


def intent_views(pipeline: Pipeline) -> tuple[IntentView, ...]:
    """Return every intent, whether it has evidence or not."""
    return tuple(
        IntentView(
            name=name,
            sentence=intent.sentence(),
            source=intent.evidence.source,
            count=intent.evidence.count,
            window_s=intent.evidence.window_s,
            confidence=intent.evidence.confidence,
            end_s=intent.evidence.end_s,
            number=intent.number,
        )
        for name, intent in pipeline.intents.named().items()
    )


def explain_view(pipeline: Pipeline) -> ExplainView:
    """Return the baseline, the active settings, the intents and every decision."""
    tuner, job = pipeline.tuner, pipeline.job
    nodes = pipeline.observers.nodes.evidence()
    shown = sorted(pipeline.advice.settings)
    baseline = tuner.baseline if tuner else {}
    if job is not None:
        baseline = {**baseline, **users_own(job.settings, baseline).changes}
    return ExplainView(
        baseline={name: baseline[name] for name in shown if name in baseline},
        settings={name: tuner.settings[name] for name in shown} if tuner else {},
        sources={name: job.sources.get(name, "default") for name in shown} if job else {},
        intents=intent_views(pipeline),
        decisions=tuple(pipeline.decisions),
        baseline_cost_s=tuner.baseline_s if tuner else 0.0,
        checkpoint_cost_s=tuner.current_s if tuner else 0.0,
        trial_budget_s=tuner.budget.left_s if tuner else 0.0,
        at_launch=tuner.at_launch if tuner else {},
        gains=gains(pipeline.decisions),
        levers=pipeline.levers(),
        parameters=pipeline.parameters(),
        contradictions=pipeline.contradictions,
        mode="auto" if job is None or job.tuning else "recommend" if job.recommend else "observe",
        start_s=pipeline.account(0.0).start_s,
        observation=pipeline.observing.observation,
        probe=pipeline.observers.nodes.probe,
        recalled=pipeline.observers.recalled,
        pace=pipeline.pace.sentence,
        leaders=tuple(pipeline.leaders),
        nodes=nodes if len(nodes) > 1 else (),
        stragglers=tuple(stragglers(nodes)),
        proposals=() if job is None or job.tuning else pipeline.proposals(),
    )


def goodput_view(pipeline: Pipeline, now: float) -> GoodputView:
    """Return the account until `now` (epoch seconds) and the costs that are remembered."""
    account = pipeline.account(now)
    return GoodputView(
        goodput=account.goodput, account=account, costs=tuple(pipeline.costs), gains=gains(pipeline.decisions)
    )


def status_view(
    pipeline: Pipeline, now: float, *, job_id: str, host: str, running: bool = True
) -> StatusView:
    """Return the state in short; the daemon adds what only it knows (:mod:`scrtune.daemon.control`)."""
    job, tuner, pace = pipeline.job, pipeline.tuner, pipeline.pace
    # numpy is loaded only for a job that has said something
    account = None if pipeline.ledger.is_silent else pipeline.account(now)
    return StatusView(
        job_id=job_id,
        host=host,
        engine=job.engine if job else "",
        ranks=job.ranks if job else 0,
        nodes=job.nodes if job else 0,
        running=running,
        tuning=pipeline.on,
        generation=pipeline.advice.generation,
        trying=tuner.trying.key if tuner and tuner.trying else "",
        checkpoints=account.checkpoints if account else 0,
        checkpoint_cost_s=tuner.current_s if tuner else 0.0,
        baseline_cost_s=tuner.baseline_s if tuner else 0.0,
        trial_budget_s=tuner.budget.left_s if tuner else 0.0,
        kept=sum(decision.verdict is Verdict.ACCEPTED for decision in pipeline.decisions),
        taken_back=sum(decision.verdict is Verdict.REVERTED for decision in pipeline.decisions),
        goodput=account.goodput if account else 0.0,
        counters=pipeline.counters,
        observation=pipeline.observing.observation,
        probe=pipeline.observers.nodes.probe,
        fixed=_fixed(job) if job else {},
        savings=_savings(pipeline),
        pace=pace.sentence,
        pace_settings=pace.settings,
        leaders=tuple(pipeline.leaders),
        mean_cost_s=fmean(each.cost_s for each in pipeline.costs) if pipeline.costs else 0.0,
        divergence=pipeline.divergence,
    )


def _savings(pipeline: Pipeline) -> SavingsView:
    found, tuner = together(gains(pipeline.decisions)), pipeline.tuner
    is_tried = pipeline.job is None or pipeline.job.tuning
    for_good = merged(pipeline.proposals()) if not is_tried else tuner.found if tuner else {}
    if for_good and pipeline.job:  # it was found beside what is pinned
        for_good |= {name: pipeline.job.settings[name] for name in pipeline.pinned}
    return SavingsView(
        saved_s=found.total_s,
        applied_s=pipeline.applied.applied_s,
        reverted_s=found.reverted_s,
        uncounted=tuner.uncounted if tuner else 0,
        interval=_interval(pipeline),
        for_good=for_good,
        advised=advised(pipeline.parameters()),
        is_tried=is_tried,
        why_nothing=why_nothing(pipeline.levers()) if tuner and tuner.belief and not for_good else "",
    )


def _interval(pipeline: Pipeline) -> Values:
    job, baseline = pipeline.job, pipeline.tuner.baseline if pipeline.tuner else {}
    changed = users_own(job.settings, baseline).changes if job else {}
    return {name: baseline[name] for name in changed if name in baseline}


def merged(proposals: Sequence[Proposal]) -> Values:
    """Return the changes of `proposals`; of two for one parameter the first counts."""
    return {name: value for each in reversed(proposals) for name, value in each.changes.items()}


def _fixed(job: SettingsObserved) -> Values:
    edited = [name for name, source in job.sources.items() if source == ValueSource.EDITED]
    return {name: job.settings[name] for name in sorted(edited)}
