"""The state of a job as people read it: status, explain, and the lines of `off` and `on`."""

from collections.abc import Iterator, Mapping, Sequence

from ...daemon.views import ExplainView, GoodputView, IntentView, OrderView, StatusView
from ...intents.events import StorageProbed
from ...intents.rules.explain import LeverView
from ...intents.rules.parameter import DerivedParameter
from ...intents.rules.situation import Proposal
from ...intents.settings import changes_text as assignments
from ...intents.tune.decisions import Verdict
from ...units import bytes_text, count_text, seconds_text
from ..blocks import Block, Document, Lines, Section, Styled, Table, facts, table
from ..format import transitions_text, value_text, verdict_cell
from ..views.story import Story, standing
from ..views.tuner_changes import TunerChange, tuner_changes
from . import nodes
from .summary import believed, costs, failures, journal_gaps

_BARS = 60
_HEIGHTS = "▁▂▃▄▅▆▇█"


def status(view: StatusView) -> Document:
    """Return the table of `scrtune status`."""
    counters = view.counters
    state = "runs" if view.running else "has ended (read from its journal)"
    if view.silent:
        state = "runs, but does not answer (read from its journal)"
    job = "the application has not reported its engine and ranks yet"
    if view.engine:
        job = f"{count_text(view.ranks, 'rank')}, {count_text(view.nodes, 'node')}, engine {view.engine}"
    shown = facts(
        {
            "job": f"{view.job_id} on {view.host}: {job}",
            "leader": nodes.leader(view),
            "nodes": nodes.members(view.cluster) if view.cluster else "",
            "daemon": f"{state}; tuning {'on' if view.tuning else 'off'}, generation {view.generation}",
            "trying": (view.trying or "nothing") if view.running else "",
            "on trial at the end": "" if view.running else view.trying,
            "fixed by you": assignments(view.fixed),
            "checkpoints": f"{view.checkpoints}, {costs(view)}" if view.checkpoints else "none",
            "interval": view.pace,
            "diverges": view.divergence,
            "goodput": f"{view.goodput:.1%}",
            "events": (
                f"{count_text(counters.events, 'event')};"
                f" {count_text(counters.trace_lines, 'trace line')},"
                f" {count_text(counters.trace_events, 'trace event')}"
            ),
            "observation": view.observation.sentence(),
            "config": (
                f"{view.config}, rewritten {count_text(view.rewrites, 'time')}" if view.running else ""
            ),
            "monitors": "\n".join(each.name for each in view.monitors if not each.failure),
            "dropped lines": counts(counters.dropped),
            "lost": counts(counters.lost),
            "rejected": counts(view.rejected),
            "between nodes": counts(view.cluster.problems) if view.cluster else "",
            "config error": view.config_failure,
            "journal": journal_gaps(view),
            "monitors fail": "\n".join(failures(view)),
        }
    )
    return [[shown]]


def watched(seen: StatusView, why: ExplainView, spent: GoodputView) -> Document:
    """Return the frame of `scrtune status --watch`."""
    costs_s = [each.cost_s for each in spent.costs[-_BARS:]]
    bars = f"{sparkline(costs_s)}  {seconds_text(costs_s[-1])}" if costs_s else "none measured yet"
    title = f"Cost of the last {count_text(len(costs_s), 'checkpoint')}, each" if costs_s else "Checkpoints"
    found = [each for each in why.intents if each.count]
    return [*status(seen), [intents(found, why.start_s)], [facts({title: bars})]]


def sparkline(values: Sequence[float]) -> str:
    """Return a bar for each of `values`, the largest the highest; 0 and less are the lowest."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return _HEIGHTS[0] * len(values)
    return "".join(_HEIGHTS[min(7, max(0, int(8 * value / highest)))] for value in values)


def counts(found: Mapping[str, int]) -> str:
    """Return how many there are of each kind, in alphabetical order."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted(found.items()))


def intents(views: Sequence[IntentView], start_s: float = 0.0) -> Table:
    """Return a row for each intent with its evidence, and until when that is in a job from `start_s` on."""
    rows = ((view.name, view.sentence, _evidence(view, start_s)) for view in views)
    return table("intent", "meaning", "evidence", rows=rows, title="Intents", kind="texts")


def _evidence(view: IntentView, start_s: float) -> str:
    if view.confidence == "declared":
        return f"{view.source}\ndeclared, not observed"
    if not view.count:
        return "-"
    until = f", until {view.end_s - start_s:.1f} s" if start_s and view.end_s >= start_s else ""
    return f"{view.count} x {view.source}, {view.window_s:.1f} s{until}\n{view.confidence} confidence"


def decisions(changes: Sequence[TunerChange], start_s: float, *, running: bool = False) -> Table:
    """Return the decision log of a job that began at `start_s`: each change with its reason and its gain.

    If the start is not known yet (0), times are relative to the first decision. What is on trial in a job
    that is not `running` has no verdict any more.
    """
    begin_s, rows = start_s or (changes[0].decision.time_s if changes else 0.0), []
    for change in changes:
        is_over = change.verdict is Verdict.TRIAL and not running
        verdict = "undecided" if is_over else verdict_cell(change.verdict)
        at, number = f"{change.decision.time_s - begin_s:.1f} s", str(change.decision.generation)
        rows.append(
            (at, number, verdict, Lines((Styled(f"{change.number}. {change.what}"), _reasons(change))))
        )
    return table(">at", ">gen", "verdict", "change and reason", rows=rows, title="Decisions")


def _reasons(change: TunerChange) -> Table:
    """Return why a change was made; of a trial what was expected, seen and believed, and the budget."""
    trial, ended = change.decision, change.ended
    rows = {"what": f"{trial.rule} [{trial.intent}]", "source": trial.source, "why": trial.because}
    if trial.expected is not None:
        del rows["why"]
        gain_s = trial.expected_gain_s
        than = "less" if gain_s >= 0 else "more, to find out how fast that tier is,"
        rows["expected"] = (
            f"{trial.expected.text} a checkpoint, {seconds_text(abs(gain_s))} {than} than before"
        )
    if trial.verdict is Verdict.TRIAL:
        rows["seen"] = f"{trial.seen.text}, the last of {trial.checkpoints}" if trial.seen else "nothing"
        rows["believed"] = _believed(change)
        rows["budget"] = f"{seconds_text(max(0.0, trial.budget_s))} were left for trials"
    if ended is not None:
        is_said = trial.comparison is not None and ended.because == trial.comparison.text
        rows["verdict"] = "" if is_said else ended.because
        rows["budget"] += f", {seconds_text(max(0.0, ended.budget_s))} after it"
    return facts(rows)


def _believed(change: TunerChange) -> str:
    if (found := change.decision.comparison) is None:
        return ""
    ratio = f"{found.ratio:.2f} times the cost before ({found.low:.2f} to {found.high:.2f})"
    return f"{change.gain_text}; {ratio}, cheaper with probability {found.p_better:.2f}"


def no_decisions(view: ExplainView) -> str:
    """Return why nothing was changed."""
    if view.mode != "auto":
        return f"Nothing is changed: --mode {view.mode}."
    so_far = " so far" if view.running else ""
    if view.baseline_cost_s > 0:
        return f"No change{so_far}: the table of levers says why."
    return f"No change{so_far}: no checkpoint was measured."


def levers(views: Sequence[LeverView]) -> Table:
    """Return a row for each lever: its value, the best other one, what that saves, why it is as it is."""
    rows = (
        (
            *(each.name, value_text(each.value)),
            *(("", "") if each.other is None else (value_text(each.other), f"{each.gain_s:.3f} s")),
            each.why,
        )
        for each in views
    )
    title, note = (
        "Why each lever is as it is",
        "Saves: of a checkpoint's believed cost, with what goes best with it.",
    )
    return table(
        "lever", "now", "best other", ">saves", "why", rows=rows, title=title, note=note, kind="texts"
    )


def proposals(found: Sequence[Proposal], title: str) -> Section:
    """Return each proposal with its reasons; none was tried."""
    shown: list[Block] = [Styled(title)]
    for each in found:
        gain = "required" if each.required else f"{seconds_text(each.expected_gain_s)} a checkpoint"
        what = f"{each.rule} [{each.intent}]"
        rows = {"what": what, "source": each.source, "why": each.because, "gain": gain}
        shown += [assignments(each.changes), facts(rows)]
    return shown


def settings(view: ExplainView) -> Table:
    """Return a row for each parameter: the user's value, its origin, the active value."""
    rows = []
    for name, value in sorted(view.settings.items()):
        own = view.baseline.get(name)
        active = value_text(value)
        shown = active if value == own else Styled(active, "bold green")
        rows.append((name, value_text(own), view.sources.get(name, ""), shown))
    return table("parameter", "yours", "from", "active", rows=rows, title="Settings", kind="texts")


def _probe(probe: StorageProbed) -> str:
    """Return the rates that were measured, and why others were not."""
    rates = {
        "cache writes": probe.cache_write_bytes_per_s,
        "cache reads": probe.cache_read_bytes_per_s,
        "its device": probe.cache_sync_bytes_per_s,
        "memory copies": probe.memory_bytes_per_s,
        "XOR": probe.xor_bytes_per_s,
    }
    found = [f"{name} {bytes_text(rate)}/s" for name, rate in rates.items() if rate > 0]
    if probe.writers > 1:
        found.append(f"the cache used by {probe.writers} at once")
    found.append(f"took {seconds_text(probe.probe_s)}")
    return f"Probe of {probe.host}: {'. '.join(filter(None, [', '.join(found), probe.problem]))}."


def explain(view: ExplainView) -> Document:
    """Return the tables of `scrtune explain`."""
    seen = [f"Observation: {view.observation.sentence()}."]
    seen += [_probe(view.probe)] if view.probe else []
    seen += [nodes.led(view.leaders, view.start_s)] if view.leaders else []
    at_nodes: Section = []
    if view.nodes:
        at_nodes = [nodes.table_of(view.nodes), *(f"Straggler: {each}." for each in view.stragglers)]
    changes = decisions(tuner_changes(view.decisions, view.gains), view.start_s, running=view.running)
    proposed = proposals(view.proposals, "Proposals (nothing was changed; `scrtune env` has them)")
    return [
        [Styled(f"Job {view.job_id}")] if view.job_id else [],
        [intents(view.intents, view.start_s)],
        seen,
        at_nodes,
        [changes if view.decisions else no_decisions(view)],
        [levers(view.levers)] if view.levers else [],
        [*_parameters(view)],
        [settings(view)],
        [*_told(view)],
        proposed if view.proposals else [],
        [*_not_active(view)],
    ]


def _parameters(view: ExplainView) -> Iterator[Block]:
    """Yield the table of what follows without a trial, and the names of those of which nothing does."""
    follows = [each for each in view.parameters if each.is_wanted or each.command]
    if follows:
        yield parameters(follows, view)
    if silent := sorted({each.name for each in view.parameters} - {each.name for each in follows}):
        yield f"Nothing else follows: {', '.join(silent)}; `scrtune explain NAME` says why."


def _not_active(view: ExplainView) -> Iterator[Block]:
    """Yield what is decided and not active, and why."""
    if view.at_launch:
        yield f"The next launch changes {transitions_text(view.settings, view.at_launch)}."
    if view.unpublished:
        yield Styled(f"Not active, because they could not be published: {view.unpublished}", "bold red")


def _told(view: ExplainView) -> Iterator[str]:
    """Yield what checkpoints cost, and what else there is to know of the settings, as sentences."""
    cost = "No checkpoint was measured"
    if view.mode == "observe":
        cost = "Checkpoints are measured (scrtune status, scrtune goodput), and nothing is proposed"
    elif max(view.checkpoint_cost_s, view.baseline_cost_s) > 0:
        cost = f"Checkpoints: {believed(view)}"
    has_budget = view.mode == "auto" and view.running
    left = f"; trials may still cost {seconds_text(max(0.0, view.trial_budget_s))}" if has_budget else ""
    yield f"{cost}{left}."
    yield from (f"Contradiction: {each}." for each in view.contradictions)
    if view.pace:
        yield f"{view.pace[0].upper()}{view.pace[1:]}."
    if view.recalled is not None:
        yield f"Known before: {view.recalled.sentence()}."


def story(told: Story) -> Document:
    """Return the sections of a story, one below the other."""
    head: Section = [
        Styled(f"Job {told.job_id}: {told.about}"),
        *(f"Contradiction: {each}." for each in told.contradictions),
    ]
    sections: Document = [[facts(each.rows, each.title)] for each in told.sections]
    return [head, *sections]


def parameters(found: Sequence[DerivedParameter], view: ExplainView | None = None) -> Table:
    """Return a row for each parameter that follows from an intent: its value, and what became of it."""
    rows = []
    for each in found:
        lines = f"{len(each.lines)} lines" if each.lines else "-"
        value = lines if each.value is None else value_text(each.value)
        rows.append((each.name, value, each.intent, standing(each, view)))
    title = "What follows from the intents (scrtune explain NAME says why)"
    return table("parameter", "follows", "from", "standing", rows=rows, title=title)


def switched(view: OrderView, *, on: bool) -> str:
    """Return the result of `scrtune off` or `scrtune on` in one line."""
    result = "tuning is on; it continues from your own settings"
    if not view.is_job_known:
        result = (
            f"tuning is {'on' if on else 'off'}. The application has not reported to this node's daemon yet;"
            " the switch applies once it does. If its rank 0 runs on another node, switch it there."
        )
    elif not on:
        own = "your own settings are active from the next SCR_Start_output"
        result = f"tuning is off; {own} (generation {view.generation})"
    elif not view.tuning:
        result = "it was started with --no-tune or --mode: it is observed, and nothing is changed"
    return f"job {view.job_id}: {result}"


def fixed(view: OrderView, what: Sequence[str], now: str) -> str:
    """Return the result of `scrtune pin` or `scrtune unpin` in one line."""
    verb = "is" if len(what) == 1 else "are"
    later = f"; {', '.join(view.waiting)} from the next launch on" if view.waiting else ""
    return (
        f"job {view.job_id}: {', '.join(what)} {verb} {now}; from the next SCR_Start_output on (generation"
        f" {view.generation}){later}"
    )
