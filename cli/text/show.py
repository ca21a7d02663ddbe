"""Views as people read them: tables and sentences, made with rich."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...daemon.views import ExplainView, GoodputView, IntentView, StatusView, SwitchView
from ...goodput.account import Account, Window
from ...intents.events import Value, Values
from ...intents.rules.situation import Proposal, changes_text
from ...intents.tune.decisions import Decision, Verdict
from ...units import count_text, seconds_text
from ..views.replay import ReplayView

_WIDTH = 120
_SKEW_S = 0.001
_SHOWN_SHARE = 0.0005  # what would read 0.0 %
_STYLES = {
    Verdict.TRIAL: "yellow",
    Verdict.ACCEPTED: "green",
    Verdict.REVERTED: "red",
    Verdict.REQUIRED: "cyan",
    Verdict.VETOED: "magenta",
    Verdict.BASELINE: "red",
    Verdict.PENDING: "blue",
}


_WORDS = {
    Verdict.TRIAL: "on trial",
    Verdict.ACCEPTED: "kept",
    Verdict.REVERTED: "taken back",
    Verdict.REQUIRED: "required",
    Verdict.VETOED: "vetoed",
    Verdict.BASELINE: "yours again",
    Verdict.PENDING: "pending",
}


def console() -> Console:
    """A console that neither wraps what a pipe will read nor guesses at markup in our texts."""
    made = Console(markup=False, highlight=False)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def printable(text: str) -> str:
    """`text` for a terminal: undecodable bytes as question marks, control characters as blanks."""
    shown = text.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in shown)


def picture(shown: RenderableType, title: str) -> str:
    """What a terminal would show, as SVG; it fetches no font from anywhere."""
    recorder = Console(record=True, width=_WIDTH, file=io.StringIO(), markup=False, highlight=False)
    recorder.print(shown)
    return re.sub(r"@font-face \{.*?\}\s*", "", recorder.export_svg(title=title), flags=re.DOTALL)


def plain_table(*columns: str, title: str = "", right: Sequence[str] = ()) -> Table:
    """A table in the style of them all."""
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        show_header=any(columns),
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def status(view: StatusView) -> RenderableType:
    """`scrtune status`."""
    table = plain_table("", "")
    counters = view.counters
    state = "runs" if view.running else "has ended (read from its journal)"
    rows = {
        "job": f"{view.job_id} on {view.host}: {_shape(view)}",
        "daemon": f"{state}; tuning {'on' if view.tuning else 'off'}, generation {view.generation}",
        "trying": view.trying or "nothing",
        "checkpoints": (
            f"{view.checkpoints}; {cost(view.checkpoint_cost_s)} each now,"
            f" {cost(view.baseline_cost_s)} under your settings"
        ),
        "goodput": f"{view.goodput:.1%}",
        "events": (
            f"{counters.events} events; {counters.trace_lines} trace lines,"
            f" {counters.trace_events} trace events"
        ),
    }
    if view.running:
        rows["config"] = f"{view.config}, rewritten {view.rewrites} times"
    if threads := _counts(view.flush_threads):
        rows["flush threads"] = threads
    if watched := "\n".join(each.name for each in view.monitors if not each.failure):
        rows["monitors"] = watched
    problems = {
        "dropped lines": _counts(counters.dropped),
        "lost": _counts(counters.lost),
        "rejected": _counts(view.rejected),
        "config error": view.config_failure,
        "journal": f"{view.journal_lost} records lost" if view.journal_lost else "",
        "monitors fail": "\n".join(_failures(view)),
    }
    for name, text in (*rows.items(), *((name, text) for name, text in problems.items() if text)):
        table.add_row(Text(name, style="bold"), text)
    return table


def _failures(view: StatusView) -> list[str]:
    return [f"{each.name}: {each.failure}" for each in view.monitors if each.failure]


def _shape(view: StatusView) -> str:
    if not view.engine:
        return "the application has not said what it is yet"
    return f"{count_text(view.ranks, 'rank')}, {count_text(view.nodes, 'node')}, engine {view.engine}"


def intents(views: Sequence[IntentView]) -> RenderableType:
    """The intents, one row each, with what they rest on."""
    table = plain_table("intent", "what it says", "evidence", title="Intents")
    for view in views:
        table.add_row(view.name, view.sentence, _evidence(view))
    return table


def _evidence(view: IntentView) -> str:
    if view.confidence == "declared":
        return f"{view.source}\ndeclared, not observed"
    if not view.count:
        return "-"
    return f"{view.count} x {view.source}, {view.window_s:.1f} s\n{view.confidence} confidence"


def decisions(
    log: Sequence[Decision], start_s: float, gained: Mapping[int, str] | None = None
) -> RenderableType:
    """The decision log of a job that began at `start_s`: each change, its reason, and what it `gained`.

    That is in words, by the generation with which a trial began. Of a job that has told of no time yet
    (`start_s` is 0) times run from the first decision.
    """
    if not log:
        return Text("No decision yet: a few checkpoints under your own settings come first.")
    begin_s = start_s or log[0].time_s
    table = plain_table("at", "gen", "verdict", "change and reason", title="Decisions", right=("at", "gen"))
    for change, verdict in joined(log):
        last = verdict or change
        table.add_row(
            f"{change.time_s - begin_s:.1f} s",
            str(change.generation),
            verdict_text(last.verdict),
            _decision(change, verdict, (gained or {}).get(change.generation, "")),
        )
    return table


def verdict_text(verdict: Verdict) -> Text:
    """What became of a change, in a word."""
    return Text(_WORDS[verdict], style=_STYLES[verdict])


def joined(log: Sequence[Decision]) -> Iterator[tuple[Decision, Decision | None]]:
    """Each change with its verdict, if it has one: that follows the trial in the log."""
    waiting: Decision | None = None
    for decision in log:
        if decision.verdict is Verdict.TRIAL:
            waiting = decision
        elif waiting is not None and decision.verdict in {Verdict.ACCEPTED, Verdict.REVERTED}:
            yield waiting, decision
            waiting = None
        else:
            if waiting is not None and decision.verdict is Verdict.BASELINE:  # a run under other settings
                yield waiting, decision
                waiting = None
            yield decision, None
    if waiting is not None:
        yield waiting, None


def settings(view: ExplainView) -> RenderableType:
    """Each parameter: the user's value, where it came from, the value in force."""
    table = plain_table("parameter", "yours", "from", "in force", title="Settings")
    for name, value in view.settings.items():
        own = view.baseline.get(name)
        changed = Text(shown(value), style="bold green" if value != own else "")
        table.add_row(name, shown(own), view.sources.get(name, ""), changed)
    return table


def explain(view: ExplainView, gained: Mapping[int, str] | None = None) -> RenderableType:
    """`scrtune explain`; `gained` as in :func:`decisions`."""
    verdict = Text(
        f"A checkpoint costs {cost(view.checkpoint_cost_s)} now,"
        f" {cost(view.baseline_cost_s)} under your settings;"
        f" trials may still cost {seconds_text(max(0.0, view.trial_budget_s))}."
    )
    shown: list[RenderableType] = [Text(f"Job {view.job_id}", style="bold"), ""] if view.job_id else []
    shown += [intents(view.intents), "", decisions(view.decisions, view.start_s, gained)]
    shown += ["", settings(view), "", verdict]
    if view.at_launch:
        shown.append(Text(f"The next launch changes {changed(view.settings, view.at_launch)}."))
    if view.unpublished:
        shown.append(
            Text(f"Not in force, since it could not be published: {view.unpublished}", style="bold red")
        )
    return Group(*shown)


def buckets(spent: Account | Window, whole: str) -> RenderableType:
    """Every bucket in which more than next to nothing lies, and the sum, which is called `whole`."""
    table = plain_table("where the time went", "seconds", "share", right=("seconds", "share"))
    for bucket, bucket_s in sorted(spent.buckets.items(), key=lambda item: -item[1]):
        if bucket_s > 0 and bucket_s >= _SHOWN_SHARE * spent.wall_s:
            table.add_row(Text(printable(bucket)), f"{bucket_s:.3f}", f"{bucket_s / spent.wall_s:.1%}")
    table.add_row(whole, f"{spent.wall_s:.3f}", "100.0%" if spent.wall_s else "-", style="bold")
    return table


def goodput(view: GoodputView, *, tells_steps: bool = True) -> RenderableType:
    """`scrtune goodput`: every bucket, the sum, and how many steps and checkpoints that was.

    Of an application that tells of no steps, its work between outputs stands for them.
    """
    account = view.account
    work = count_text(account.steps, "step")
    if not tells_steps:
        work = f"work between outputs {count_text(account.steps, 'time')}"
    return Group(
        buckets(account, "wall time"),
        f"{work}, {count_text(account.checkpoints, 'checkpoint')},"
        f" {count_text(account.runs, 'run')}{_repairs(account)};"
        f" goodput {view.goodput:.1%}",
        *_beside(account),
    )


def _beside(account: Account) -> list[str]:
    """What the buckets do not say: what cost nothing, and how far they can be trusted."""
    shown = []
    if account.data_loading_async_s > 0:
        shown.append(f"{account.data_loading_async_s:.3f} s of data loading ran beside the steps")
    if account.skew_s >= _SKEW_S:
        shown.append(
            f"the ranks' clocks are {seconds_text(account.skew_s)} apart, and so are the buckets' borders"
        )
    return shown


def _repairs(account: Account) -> str:
    """What failed and what SCR brought back; nothing when all went well."""
    failures = f", {count_text(account.node_failures, 'node failure')}" if account.node_failures else ""
    recoveries = (
        f", {count_text(account.recoveries, 'dataset')} brought back by SCR" if account.recoveries else ""
    )
    return failures + recoveries


def proposals(made: Sequence[Proposal]) -> RenderableType:
    """What the rules propose, untried."""
    if not made:
        return Text("Nothing to recommend: no rule has the evidence it needs, or nothing would gain.")
    table = plain_table(
        "change", "why", "source", "expected gain", title="Recommendations (rules only, untried)"
    )
    for each in made:
        gain = "required" if each.required else f"{seconds_text(each.expected_gain_s)} a checkpoint"
        table.add_row(
            changes_text(each.changes).replace(" ", "\n"), f"{each.rule}: {each.because}", each.source, gain
        )
    return table


def replay(view: ReplayView) -> RenderableType:
    """`scrtune replay`."""
    counters = view.counters
    read = plain_table("", "")
    generations = ", ".join(
        f"{count} of generation {number}" for number, count in sorted(counters.generations.items())
    )
    read.add_row("read", f"{count_text(view.files, 'file')}, {view.lines} lines: {generations or 'nothing'}")
    where = f"{view.processes} processes on {count_text(view.hosts, 'host')}"
    read.add_row("job", f"{where}, {view.span_s:.2f} s")
    read.add_row("found", f"{counters.trace_events} events, {view.checkpoints} checkpoints")
    dropped = sum(counters.dropped.values())
    read.add_row("dropped", f"{dropped} lines" + (f": {_counts(counters.dropped)}" if dropped else ""))
    read.add_row("unresolved", f"{counters.unresolved} accesses to files that no line names")
    for damage in view.damage:
        read.add_row("damaged", damage)
    return Group(read, "", intents(view.intents), "", proposals(view.proposals))


def summary(view: StatusView) -> list[str]:
    """What became of a job's tuning, in two lines, and what failed, in one each."""
    lines = [f"job {view.job_id}: {_tuned(view)}", f"why: scrtune explain --job-id {view.job_id}"]
    if not view.checkpoints:
        seen = "those of scrtune.client in Python, and of a real SCR below libscrtune.so"
        lines = [
            f"job {view.job_id}: no checkpoint was seen, nothing was tuned",
            f"seen are {seen} (`scrtune run --preload always` says why it is missing)",
        ]
    lines += _failures(view)
    if view.config_failure:
        lines.append(f"the last changes were never in force: {view.config_failure}")
    return [f"scrtune: {line}" for line in lines]


def _tuned(view: StatusView) -> str:
    return (
        f"{count_text(view.checkpoints, 'checkpoint')}, {cost(view.baseline_cost_s)} each under your"
        f" settings, {cost(view.checkpoint_cost_s)} now; {count_text(view.kept, 'change')} kept,"
        f" {view.taken_back} taken back; goodput {view.goodput:.1%}"
    )


def switched(view: SwitchView, *, on: bool) -> str:
    """What `scrtune off` or `scrtune on` has brought about."""
    if not view.is_job_known:
        when = "as soon as it does" if on else "then, too"
        return (
            f"job {view.job_id}: tuning is {'on' if on else 'off'}. The application has said nothing to this"
            f" node's daemon yet: it holds {when}. If its rank 0 runs on another node, say it there."
        )
    if not on:
        return (
            f"job {view.job_id}: tuning is off; your own settings are in force from the next SCR_Start_output"
            f" (generation {view.generation})"
        )
    if not view.tuning:
        return f"job {view.job_id}: it was started with --no-tune: it is observed, and nothing is tried"
    return f"job {view.job_id}: tuning is on; it goes on from your own settings"


def cost(value_s: float) -> str:
    """What a checkpoint costs; 0 is what nobody has measured."""
    return seconds_text(value_s) if value_s > 0 else "not measured yet"


def shown(value: Value | None) -> str:
    """A parameter's value; nothing and empty look different."""
    return "-" if value is None else str(value) or '""'


def changed(before: Values, after: Values) -> str:
    """``NAME old -> new`` for each change."""
    return ", ".join(
        f"{name} {shown(before.get(name))} -> {shown(value)}" for name, value in sorted(after.items())
    )


def _decision(change: Decision, verdict: Decision | None, gained: str) -> Text:
    text = Text()
    text.append(changed(change.previous, change.changes), style="bold")
    text.append(f"\n{change.rule} [{change.intent}]: {change.because}\nsource: {change.source}")
    if change.verdict is Verdict.TRIAL:
        text.append(f"; expected gain {seconds_text(change.expected_gain_s)} a checkpoint")
    if verdict is not None:
        before, after = seconds_text(verdict.before_s), seconds_text(verdict.after_s)
        measured = f"{before} -> {after} a checkpoint (geometric means)"
        told = f"measured {measured}" if verdict.observations else "nothing measured"
        text.append(f"\n{told}: {verdict.because}")
    if change.verdict is Verdict.TRIAL and gained:
        text.append(f"\n{gained}")
    return text


def decision_line(decision: Decision) -> Text:
    """One decision as one line, for a log that people watch."""
    text = Text(f"generation {decision.generation:2} ")
    text.append(f"{_WORDS[decision.verdict]:10}", style=_STYLES[decision.verdict])
    text.append(f" {changed(decision.previous, decision.changes)}", style="bold")
    text.append(f": {decision.rule}: {decision.because}")
    return text


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
