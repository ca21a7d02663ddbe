"""The demo's report, as people read it."""

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from ...units import seconds_text
from ..views.demo import Column, DemoView, Spread
from . import tables


def report(view: DemoView) -> RenderableType:
    """Return events, intents, every decision with its reason, the before/after table, and the verdict."""
    counters = view.status.counters
    seen = (
        f"Seen in the tuned run: {counters.trace_events} I/O events of DFTracer"
        f" in {counters.trace_lines} lines, {sum(counters.dropped.values())} lines dropped;"
        f" {counters.events} events in all, {sum(counters.lost.values())} messages lost."
    )
    return Group(
        "",
        seen,
        "",
        tables.intents(view.explain.intents),
        "",
        tables.decisions(view.explain.decisions, view.explain.start_s),
        "",
        table(view),
        "",
        verdict(view),
    )


def table(view: DemoView) -> RenderableType:
    """Return the columns side by side: the median over the checkpoints, and least to most."""
    names = [column.name for column in view.columns]
    made = tables.plain_table("a checkpoint costs", *names, title="Before and after", right=names)
    rows: tuple[tuple[str, Callable[[Column], str]], ...] = (
        ("checkpoints", lambda column: str(column.cost_s.count)),
        ("blocking time", lambda column: _seconds(column.blocking_s)),
        ("flush time", lambda column: _seconds(column.flush_s)),
        ("slowdown by flush", lambda column: _seconds(column.slowdown_s)),
        ("cost (blocking + slowdown)", lambda column: _seconds(column.cost_s)),
        ("goodput per interval", lambda column: _share(column.interval_goodput)),
        ("goodput, by the ledger", lambda column: f"{column.goodput:.1%}"),
    )
    for name, cell in rows:
        made.add_row(name, *(cell(column) for column in view.columns))
    return made


def verdict(view: DemoView) -> Text:
    """Return the result in one sentence, also when tuning did not help."""
    defaults, before, after = (view.columns[index].cost_s.median for index in (0, 1, -1))
    what = f"{seconds_text(before)} -> {seconds_text(after)} a checkpoint"
    engine = f"{view.ranks} ranks, {view.engine} engine, {view.seconds:.0f} s in all."
    if not view.helped:
        return Text(f"Tuning did not help on this machine: {what}. {engine}", style="bold yellow")
    return Text(
        f"Tuned while it ran: {what}, {1 / view.ratio:.1f} times cheaper than the poor settings,"
        f" {after / defaults:.2f} x SCR's defaults. {engine}",
        style="bold green",
    )


def _seconds(spread: Spread) -> str:
    return f"{seconds_text(spread.median)}\n({seconds_text(spread.least)} - {seconds_text(spread.most)})"


def _share(spread: Spread) -> str:
    return f"{spread.median:.0%}\n({spread.least:.0%} - {spread.most:.0%})"
