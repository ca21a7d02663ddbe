"""The page of `scrtune goodput --html`, one file without scripts, and the picture of its figures."""

import io
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import matplotlib as mpl
from jinja2 import Template
from matplotlib.figure import Figure

from ...goodput.buckets import CUSTOM, PRODUCTIVE, TUNING
from ...goodput.interval.recommend import Outlook
from ...goodput.report import Report
from ...goodput.report_lanes import by_kind
from ...intents.mutability import LEVER
from ...units import count_text, duration_text, rounded_duration_text
from ..format import counted_steps, estimate_text, value_text
from ..views import nodes
from ..views.tuned_job import TunedJob
from ..views.tuner_changes import TunerChange
from .templates import page_environment
from .theme import LETTERS, LIGHT, PAGE, VARIABLES, colour_of, group_of
from .timeline import WIDTH, Canvas, TimelineFigure

_LEAST_S = 0.0005
"""A shorter time would be shown as 0.000 s."""
_DOTS_PER_INCH = 150
_INCH_MM = 25.4
_LEAST_LETTERS = 6.0
"""On paper, in points. A figure that would have smaller ones below the headline has a sheet of its own."""
_BELOW_THE_HEADLINE_MM = 110.0
_TITLE = 0.4
_OF_A_FILE = re.compile(r'<metadata>.*?</metadata>|<style.*?</style>|<g id="[^"]*"/>', re.DOTALL)
_SIZE = re.compile(r' (?:width|height|version)="[^"]*"')
_GROUP = re.compile(r'<g id="([^"]*)">')
"""Nothing refers to the ids of groups; all other ids are hashes."""
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?=[^<>]*>)")
"""Within a tag."""


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
    return _template().render(
        report=report,
        account=report.account,
        changes=changes,
        tuned=tuned,
        outlook=outlook,
        disruptions=by_kind(report.disruptions),
        version=version,
        period=_period(report),
        cards=list(_cards(report, changes)),
        step_times=list(_step_times(report)),
        figure=_svg(timeline),
        estimate=estimate_text(report.estimated) if report.estimated else "",
        left_out=" ".join(timeline.left_out()),
        paper_mm=max(_BELOW_THE_HEADLINE_MM, _LEAST_LETTERS / LETTERS * _INCH_MM * timeline.height),
    )


def picture(report: Report, changes: Sequence[TunerChange], title: str) -> bytes:
    """Return the figure as a PNG."""
    timeline, out = TimelineFigure(report, changes), io.BytesIO()
    with mpl.rc_context(LIGHT.settings()):
        figure = Figure(figsize=(WIDTH, timeline.height + _TITLE))
        ratios = [_TITLE, timeline.height]
        heading, body = figure.subfigures(2, 1, height_ratios=ratios, hspace=0, squeeze=False)[:, 0]
        heading.text(0.015, 0.35, title, fontsize=12, fontweight="bold")
        timeline.draw(Canvas(body, LIGHT))
        figure.savefig(out, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": "scrtune"})
    return out.getvalue()


def _template() -> Template:
    environment = page_environment()
    environment.globals.update(nodes=nodes)
    environment.globals.update(
        CUSTOM=CUSTOM,
        LEVER=LEVER,
        TUNING=TUNING,
        LEAST_S=_LEAST_S,
        colour_of=colour_of,
        group_of=group_of,
        nodes=nodes,
    )
    environment.filters.update(
        seconds=lambda value_s: f"{value_s:,.3f}",
        percent=lambda share, digits: f"{share:.{digits}%}",
        about=rounded_duration_text,
        value=value_text,
    )
    return environment.get_template("page.html.j2")


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
        yield ("Steps", f"{counted_steps(account.steps, summary):,}", ideal)
    else:
        yield ("Work between outputs", f"{account.steps:,}", "times: the application reports no steps")
    mean = f"{duration_text(sum(report.cost_parts.values()) / count)} each" if count else ""
    yield ("Checkpoints", f"{account.checkpoints:,}", mean)
    yield ("Disruptions", f"{len(report.disruptions):,}", count_text(account.runs, "run"))
    if changes:
        kept = sum(change.word == "kept" for change in changes)
        found, saved = [change.gain for change in changes if change.gain is not None], ""
        if found:
            total_s = sum(each.total_s for each in found)
            saved = f"{total_s:,.1f} s saved so far, against the user's own settings"
        yield ("Changes kept", f"{kept} of {len(changes)}", saved)


def _step_times(report: Report) -> Iterator[tuple[str, float]]:
    """Yield what the table of step times has, in seconds."""
    if (steps := report.steps) is None:
        return
    summary = steps.summary
    yield from (("ideal", summary.ideal_s), ("mean", summary.mean_s))
    yield from ((f"{share} % took at most", took_s) for share, took_s in steps.percentiles_s.items())
    yield from (("longest", steps.most_s), ("mean distance from the ideal", summary.deviation_s))
    for each in summary.stragglers:
        yield f"straggler {each.writer}: {each.ratio:.2f} x the others", each.took_s


def _svg(timeline: TimelineFigure) -> str:
    """Return the figure as an element of the page, with its tooltips and in its colours."""
    out = io.BytesIO()
    with mpl.rc_context({**PAGE.settings(), "svg.hashsalt": "scrtune"}):
        figure = Figure(figsize=(WIDTH, timeline.height))
        canvas = Canvas(figure, PAGE)
        timeline.draw(canvas)
        figure.savefig(out, format="svg", metadata={"Date": None})
    _, tag, svg = out.getvalue().decode().partition("<svg")
    svg = f'{tag} role="img" aria-label="Over time"' + _OF_A_FILE.sub("", svg)
    svg = _SIZE.sub("", svg, count=3)
    svg = _GROUP.sub(lambda group: "<g>" + canvas.tooltip(group[1]), svg)
    svg = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), svg)
    for placeholder, variable in VARIABLES.items():
        svg = svg.replace(placeholder, f"var({variable})")
    return re.sub(r"\s*\n\s*", "\n", svg)
