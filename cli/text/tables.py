"""Tables for a terminal, made with rich: status, explain, replay, and what all commands share."""

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...daemon.views import ExplainView, GoodputView, IntentView, StatusView, SwitchView
from ...goodput.account import Account, Window
from ...intents.rules.situation import Proposal
from ...intents.rules.situation import changes_text as assignments
from ...intents.tune.decisions import Decision, Verdict
from ...intents.tune.gains import GainView
from ...units import count_text, seconds_text
from ..format import VERDICTS, changes_text, printable, value_text
from ..views.replay import ReplayView
from ..views.tuner_changes import TunerChange, tuner_changes

_WIDTH = 120
_LEAST_SKEW_S = 0.001
_LEAST_SHARE = 0.0005
"""A smaller share would be shown as 0.0 %."""


class _Pipe(io.StringIO):
    """Standard output without the blanks that rich appends to the lines of a table."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        sys.stdout.flush()


def console() -> Console:
    """Return a console that takes our texts as they are; into a pipe it writes $COLUMNS or 120 columns."""
    if sys.stdout.isatty():
        return Console(markup=False, highlight=False)
    width = None if os.environ.get("COLUMNS", "").isdigit() else _WIDTH
    return Console(markup=False, highlight=False, width=width, file=_Pipe())


def picture(shown: RenderableType, title: str) -> str:
    """Return what a terminal would show as SVG, which loads no font."""
    recorder = Console(record=True, width=_WIDTH, file=io.StringIO(), markup=False, highlight=False)
    recorder.print(shown)
    return re.sub(r"@font-face \{.*?\}\s*", "", recorder.export_svg(title=title), flags=re.DOTALL)


def plain_table(*columns: str, title: str = "", right: Sequence[str] = ()) -> Table:
    """Return an empty table in the style of all tables; the columns in `right` are aligned to the right."""
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


def facts(rows: Mapping[str, str], title: str = "") -> Table:
    """Return a table of names and texts, without the empty ones."""
    table = plain_table("", "", title=title)
    for name, text in rows.items():
        if text:
            table.add_row(Text(name, style="bold"), text)
    return table


def status(view: StatusView) -> RenderableType:
    """Return the table of `scrtune status`."""
    counters = view.counters
    state = "runs" if view.running else "has ended (read from its journal)"
    job = "the application has not reported its engine and ranks yet"
    if view.engine:
        job = f"{count_text(view.ranks, 'rank')}, {count_text(view.nodes, 'node')}, engine {view.engine}"
    return facts(
        {
            "job": f"{view.job_id} on {view.host}: {job}",
            "daemon": f"{state}; tuning {'on' if view.tuning else 'off'}, generation {view.generation}",
            "trying": view.trying or "nothing",
            "checkpoints": (
                f"{view.checkpoints}; {cost(view.checkpoint_cost_s)} each now,"
                f" {cost(view.baseline_cost_s)} under your settings"
            ),
            "goodput": f"{view.goodput:.1%}",
            "events": (
                f"{count_text(counters.events, 'event')};"
                f" {count_text(counters.trace_lines, 'trace line')},"
                f" {count_text(counters.trace_events, 'trace event')}"
            ),
            "config": (
                f"{view.config}, rewritten {count_text(view.rewrites, 'time')}" if view.running else ""
            ),
            "monitors": "\n".join(each.name for each in view.monitors if not each.failure),
            "dropped lines": _counts(counters.dropped),
            "lost": _counts(counters.lost),
            "rejected": _counts(view.rejected),
            "config error": view.config_failure,
            "journal": f"{count_text(view.journal_lost, 'record')} lost" if view.journal_lost else "",
            "monitors fail": "\n".join(_failures(view)),
        }
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))


def _failures(view: StatusView) -> list[str]:
    return [f"{each.name}: {each.failure}" for each in view.monitors if each.failure]


def intents(views: Sequence[IntentView]) -> RenderableType:
    """Return a row for each intent, with its evidence."""
    table = plain_table("intent", "meaning", "evidence", title="Intents")
    for view in views:
        evidence = "-"
        if view.confidence == "declared":
            evidence = f"{view.source}\ndeclared, not observed"
        elif view.count:
            evidence = f"{view.count} x {view.source}, {view.window_s:.1f} s\n{view.confidence} confidence"
        table.add_row(view.name, view.sentence, evidence)
    return table


def decisions(log: Sequence[Decision], start_s: float, gains: Sequence[GainView] = ()) -> RenderableType:
    """Return the decision log of a job that began at `start_s`: each change with its reason and its gain.

    If the start is not known yet (0), times are relative to the first decision.
    """
    if not log:
        return Text("No decision yet: a few checkpoints under your own settings come first.")
    begin_s = start_s or log[0].time_s
    table = plain_table("at", "gen", "verdict", "change and reason", title="Decisions", right=("at", "gen"))
    for change in tuner_changes(log, gains):
        at, generation = f"{change.decision.time_s - begin_s:.1f} s", str(change.decision.generation)
        table.add_row(at, generation, verdict_text(change.verdict), _change_text(change))
    return table


def _change_text(change: TunerChange) -> Text:
    decision, ended = change.decision, change.ended
    text = Text(change.what, style="bold")
    lines = [f"{decision.rule} [{decision.intent}]: {decision.because}", f"source: {decision.source}"]
    if decision.verdict is Verdict.TRIAL:
        lines[-1] += f"; expected gain {seconds_text(decision.expected_gain_s)} a checkpoint"
    if ended is not None:
        before, after = seconds_text(ended.before_s), seconds_text(ended.after_s)
        measured = f"measured {before} -> {after} a checkpoint (geometric means)"
        lines.append(f"{measured if ended.observations else 'nothing measured'}: {ended.because}")
    if change.gain_text:
        lines.append(change.gain_text)
    return Text("\n").join([text, *map(Text, lines)])


def verdict_text(verdict: Verdict) -> Text:
    """Return the verdict on a change in a word."""
    return Text(VERDICTS[verdict].word, style=VERDICTS[verdict].colour)


def decision_line(decision: Decision) -> Text:
    """Return one decision as one line of a log."""
    form = VERDICTS[decision.verdict]
    return Text.assemble(
        f"generation {decision.generation:2} ",
        (f"{form.word:10}", form.colour),
        (f" {changes_text(decision.previous, decision.changes)}", "bold"),
        f": {decision.rule}: {decision.because}",
    )


def settings(view: ExplainView) -> RenderableType:
    """Return a row for each parameter: the user's value, its origin, the active value."""
    table = plain_table("parameter", "yours", "from", "active", title="Settings")
    for name, value in view.settings.items():
        own = view.baseline.get(name)
        active = Text(value_text(value), style="bold green" if value != own else "")
        table.add_row(name, value_text(own), view.sources.get(name, ""), active)
    return table


def explain(view: ExplainView) -> RenderableType:
    """Return the tables of `scrtune explain`."""
    costs = Text(
        f"A checkpoint costs {cost(view.checkpoint_cost_s)} now,"
        f" {cost(view.baseline_cost_s)} under your settings;"
        f" trials may still cost {seconds_text(max(0.0, view.trial_budget_s))}."
    )
    shown: list[RenderableType] = [Text(f"Job {view.job_id}", style="bold"), ""] if view.job_id else []
    shown += [intents(view.intents), "", decisions(view.decisions, view.start_s, view.gains)]
    shown += ["", settings(view), "", costs]
    if view.at_launch:
        shown.append(Text(f"The next launch changes {changes_text(view.settings, view.at_launch)}."))
    if view.unpublished:
        failure = f"Not active, because they could not be published: {view.unpublished}"
        shown.append(Text(failure, style="bold red"))
    return Group(*shown)


def buckets(spent: Account | Window, whole: str) -> RenderableType:
    """Return a row for each bucket of at least 0.05 %, and the sum, named `whole`."""
    table = plain_table("where the time went", "seconds", "share", right=("seconds", "share"))
    for bucket, bucket_s in sorted(spent.buckets.items(), key=lambda item: -item[1]):
        if bucket_s > 0 and bucket_s >= _LEAST_SHARE * spent.wall_s:
            table.add_row(Text(printable(bucket)), f"{bucket_s:.3f}", f"{bucket_s / spent.wall_s:.1%}")
    table.add_row(whole, f"{spent.wall_s:.3f}", "100.0%" if spent.wall_s else "-", style="bold")
    return table


def goodput(view: GoodputView, *, tells_steps: bool = True) -> RenderableType:
    """Return the buckets of `scrtune goodput`, and how many steps and checkpoints they stand for.

    If the application reports no steps, its work between outputs is counted instead.
    """
    account = view.account
    steps = f"work between outputs {count_text(account.steps, 'time')}"
    counts = [
        count_text(account.steps, "step") if tells_steps else steps,
        count_text(account.checkpoints, "checkpoint"),
        count_text(account.runs, "run"),
    ]
    if account.node_failures:
        counts.append(count_text(account.node_failures, "node failure"))
    if account.recoveries:
        counts.append(f"{count_text(account.recoveries, 'dataset')} brought back by SCR")
    shown = [f"{', '.join(counts)}; goodput {view.goodput:.1%}"]
    if account.data_loading_async_s > 0:
        shown.append(f"{account.data_loading_async_s:.3f} s of data loading ran beside the steps")
    if account.skew_s >= _LEAST_SKEW_S:
        skew = seconds_text(account.skew_s)
        shown.append(f"the ranks' clocks are {skew} apart, and so are the buckets' borders")
    return Group(buckets(account, "wall time"), *shown)


def proposals(made: Sequence[Proposal]) -> RenderableType:
    """Return a row for each change that the rules propose; none was tried."""
    if not made:
        return Text("Nothing to recommend: no rule has the evidence it needs, or nothing would gain.")
    title = "Recommendations (rules only, untried)"
    table = plain_table("change", "why", "source", "expected gain", title=title)
    for each in made:
        gain = "required" if each.required else f"{seconds_text(each.expected_gain_s)} a checkpoint"
        change = assignments(each.changes).replace(" ", "\n")
        table.add_row(change, f"{each.rule}: {each.because}", each.source, gain)
    return table


def replay(view: ReplayView) -> RenderableType:
    """Return the tables of `scrtune replay`."""
    counters = view.counters
    generations = ", ".join(
        f"{count} of generation {number}" for number, count in sorted(counters.generations.items())
    )
    lines = count_text(view.lines, "line")
    dropped = count_text(sum(counters.dropped.values()), "line")
    unresolved = count_text(counters.unresolved, "access", "accesses")
    processes = count_text(view.processes, "process", "processes")
    return Group(
        facts(
            {
                "read": f"{count_text(view.files, 'file')}, {lines}: {generations or 'nothing'}",
                "job": f"{processes} on {count_text(view.hosts, 'host')}, {view.span_s:.2f} s",
                "found": (
                    f"{count_text(counters.trace_events, 'event')},"
                    f" {count_text(view.checkpoints, 'checkpoint')}"
                ),
                "dropped": ": ".join(filter(None, (dropped, _counts(counters.dropped)))),
                "unresolved": f"{unresolved} to files that no line names",
                "damaged": "\n".join(view.damage),
            }
        ),
        "",
        intents(view.intents),
        "",
        proposals(view.proposals),
    )


def summary(view: StatusView) -> list[str]:
    """Return the result of a job's tuning in two lines, and a line for each failure."""
    tuned = (
        f"{count_text(view.checkpoints, 'checkpoint')}, {cost(view.baseline_cost_s)} each under your"
        f" settings, {cost(view.checkpoint_cost_s)} now; {count_text(view.kept, 'change')} kept,"
        f" {view.taken_back} taken back; goodput {view.goodput:.1%}"
    )
    lines = [f"job {view.job_id}: {tuned}", f"why: scrtune explain --job-id {view.job_id}"]
    if not view.checkpoints:
        seen = "those of scrtune.client in Python, and of a real SCR below libscrtune.so"
        lines = [
            f"job {view.job_id}: no checkpoint was seen, nothing was tuned",
            f"seen are {seen} (`scrtune run --preload always` says why it is missing)",
        ]
    lines += _failures(view)
    if view.config_failure:
        lines.append(f"the last changes were never active: {view.config_failure}")
    return [f"scrtune: {line}" for line in lines]


def switched(view: SwitchView, *, on: bool) -> str:
    """Return the result of `scrtune off` or `scrtune on` in one line."""
    job, switch = f"job {view.job_id}", "on" if on else "off"
    if not view.is_job_known:
        return (
            f"{job}: tuning is {switch}. The application has not reported to this node's daemon yet; the"
            f" switch applies once it does. If its rank 0 runs on another node, switch it there."
        )
    if not on:
        return (
            f"{job}: tuning is off; your own settings are active from the next SCR_Start_output"
            f" (generation {view.generation})"
        )
    if not view.tuning:
        return f"{job}: it was started with --no-tune: it is observed, and nothing is tried"
    return f"{job}: tuning is on; it continues from your own settings"


def cost(value_s: float) -> str:
    """Return the cost of a checkpoint; 0 means that it is not known."""
    return seconds_text(value_s) if value_s > 0 else "not measured yet"
