"""The page of `scrtune goodput --html`, one file without scripts, and the picture of its figures."""

import io
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import matplotlib as mpl
from matplotlib import figure as mpl_figure

from ...goodput.buckets import PRODUCTIVE
from ...goodput.interval.recommend import Outlook
from ...goodput.report import Report
from ...intents.mutability import LEVER
from ...units import count_text, duration_text
from ..blocks import Block, Figure, facts
from ..tables import goodput, interval, job, nodes
from ..views.tuned_job import TunedJob
from ..views.tuner_changes import TunerChange
from . import job_tables as tables
from .canvas import WIDTH, Canvas, svg
from .templates import rendered
from .theme import LETTERS, LIGHT
from .timeline import TimelineFigure

_DOTS_PER_INCH = 150
_INCH_MM = 25.4
_LEAST_LETTERS = 6.0
"""On paper, in points. A figure that would have smaller ones below the headline has a sheet of its own."""
_BELOW_THE_HEADLINE_MM = 110.0
_TITLE = 0.4


def page(
    report: Report,
    changes: Sequence[TunerChange],
    *,
    version: str,
    tuned: TunedJob | None = None,
    outlook: Outlook | None = None,
) -> str:
    """Return all of `report` as one HTML document, with what else is known of the job."""
    timeline = TimelineFigure(report, changes)
    return rendered(
        "page.html.j2",
        report=report,
        version=version,
        period=_period(report),
        cards=list(_cards(report, changes)),
        figure=Figure(
            "Over time", " ".join(timeline.left_out()), svg(timeline.height, timeline.draw, "Over time")
        ),
        changes=[*_changes(changes, tuned, report.account.start_s)],
        settings=list(_settings(tuned)) if tuned else [],
        environment=tuned.environment if tuned else "",
        caveats=_caveats(tuned) if tuned else "",
        explained=[*(_explained(tuned) if tuned else ()), *(_outlook(outlook) if outlook else ())],
        sums=list(_sums(report)),
        paper_mm=max(_BELOW_THE_HEADLINE_MM, _LEAST_LETTERS / LETTERS * _INCH_MM * timeline.height),
    )


def _changes(changes: Sequence[TunerChange], tuned: TunedJob | None, start_s: float) -> Iterator[Block]:
    if changes:
        yield job.decisions(changes, start_s, running=tuned is not None and tuned.explain.running)
    elif tuned:
        yield job.no_decisions(tuned.explain)
    if tuned and tuned.explain.gains:
        yield goodput.gains(tuned.explain.gains)


def _settings(tuned: TunedJob) -> Iterator[Block]:
    yield job.settings(tuned.explain)
    if tuned.explain.levers:
        yield job.levers(tuned.explain.levers)


def _caveats(tuned: TunedJob) -> str:
    """Return what to know of the recommended environment."""
    untried = "" if tuned.status.savings.is_tried else " It is proposed, and was not tried."
    levers = f" {LEVER}* count under scrtune run alone." if LEVER in tuned.environment else ""
    return f"For the job script; one click selects all of it.{untried}{levers}"


def _explained(tuned: TunedJob) -> Iterator[Block]:
    """Yield the intents, and the nodes of a job on several."""
    found, cluster = tuned.explain, tuned.status.cluster
    yield job.intents(found.intents, found.start_s)
    if not (leader := nodes.leader(tuned.status)):
        return
    told = {"leader": leader, "led": nodes.led(found.leaders, found.start_s) if found.leaders else ""}
    told["heard"] = nodes.members(cluster) if cluster else ""
    told["stragglers"] = "\n".join(found.stragglers)
    yield facts(told, "Cluster")
    yield nodes.table_of(found.nodes)


def _outlook(found: Outlook) -> Iterator[Block]:
    yield interval.schedules(found)
    yield interval.advice(found)


def _sums(report: Report) -> Iterator[Block]:
    yield tables.account(report)
    if report.checkpoints:
        yield tables.costs(report)
    yield from (tables.lanes(report), tables.disruptions(report), tables.steps(report))


def picture(report: Report, changes: Sequence[TunerChange], title: str) -> bytes:
    """Return the figure as a PNG."""
    timeline, out = TimelineFigure(report, changes), io.BytesIO()
    with mpl.rc_context(LIGHT.settings()):
        figure = mpl_figure.Figure(figsize=(WIDTH, timeline.height + _TITLE))
        ratios = [_TITLE, timeline.height]
        heading, body = figure.subfigures(2, 1, height_ratios=ratios, hspace=0, squeeze=False)[:, 0]
        heading.text(0.015, 0.35, title, fontsize=12, fontweight="bold")
        timeline.draw(Canvas(body, LIGHT))
        figure.savefig(out, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": "scrtune"})
    return out.getvalue()


def _period(report: Report) -> str:
    """Return the start and the end of the job in UTC."""
    start_s, wall_s = report.account.start_s, report.account.wall_s
    try:
        first, last = (datetime.fromtimestamp(each, timezone.utc) for each in (start_s, start_s + wall_s))
    except (OverflowError, ValueError, OSError):  # the clock of a simulation
        return f"{start_s:.3f} to {start_s + wall_s:.3f} s"
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"


def _cards(report: Report, changes: Sequence[TunerChange]) -> Iterator[tuple[str, str, str]]:
    account, count = report.account, report.checkpoints
    yield ("Goodput", f"{account.goodput:.1%}", "of the wall time was productive")
    productive = f"{duration_text(account.buckets[PRODUCTIVE])} productive"
    yield ("Wall time", duration_text(account.wall_s), productive)
    if report.tells_steps:
        summary = report.steps.summary if report.steps else None
        ideal = f"{duration_text(summary.ideal_s)} ideally" if summary else ""
        if summary and summary.stride > 1:
            ideal += f"; {summary.stride:,} numbers apart"
        yield ("Steps", f"{goodput.counted_steps(account.steps, summary):,}", ideal)
    else:
        yield ("Work between outputs", f"{account.steps:,}", "times: the application reports no steps")
    mean = f"mean cost {duration_text(sum(report.cost_parts.values()) / count)}" if count else ""
    yield ("Checkpoints", f"{account.checkpoints:,}", mean)
    yield ("Disruptions", f"{len(report.disruptions):,}", count_text(account.runs, "run"))
    if changes:
        kept = sum(change.word == "kept" for change in changes)
        found, saved = [change.gain for change in changes if change.gain is not None], ""
        if found:
            total_s = sum(each.total_s for each in found)
            saved = f"{total_s:,.1f} s saved so far against the user's own settings"
        yield ("Changes kept", f"{kept} of {len(changes)}", saved)
