"""The page that `scrtune goodput --html` writes: one job in figures and tables, one file, no scripts."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from html import escape

from ...goodput.buckets import PRODUCTIVE
from ...goodput.report import Report
from ...intents.tune.gains import together
from ...units import count_text, duration_text
from ..text.show import printable
from . import svg as report_svg
from . import tables as report_tables
from .changes import Change
from .drawing import LEAST_SHARE, WIDTH
from .figures import gains_shown
from .style import STYLE
from .theme import GROUP_COLOURS, VERDICTS, group_of
from .timeline import Timeline

_HINT = "The figure is wider than the screen: move it sideways to see the rest."
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report, changes: Sequence[Change], *, version: str) -> str:
    """All of `report` as one HTML document."""
    name = escape(printable(report.job_name) or "(no name)")
    told = f"{when(report)}; {count_text(report.events, 'event')} read; scrtune {version}"
    body = [
        f"<header><h1>Where the time of {name} went</h1>",
        f'<p class="note">{escape(told)}</p>',
        _cards(report, changes),
        _strip(report),
        "</header><main>",
        *(_row(panels, report, changes) for panels in report_svg.rows(report, changes)),
        report_tables.changes(report, changes),
        f'<div class="tables">{report_tables.all_else(report)}</div>',
        "</main>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Goodput of {name}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(filter(None, body))
        + "\n</body></html>\n"
    )


def when(report: Report) -> str:
    """From when to when, in UTC."""
    start_s, wall_s = report.start_s, report.account.wall_s
    try:
        first, last = (datetime.fromtimestamp(each, timezone.utc) for each in (start_s, start_s + wall_s))
    except (OverflowError, ValueError, OSError):  # the clock of a simulation
        return f"{start_s:.3f} to {start_s + wall_s:.3f} s"
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"


def _cards(report: Report, changes: Sequence[Change]) -> str:
    account = report.account
    kept = sum(VERDICTS[change.verdict][0] == "kept" for change in changes)
    runs = count_text(account.runs, "run")
    cards = [
        ("Goodput", f"{account.goodput:.1%}", "of the wall time was productive"),
        (
            "Wall time",
            duration_text(account.wall_s),
            f"{duration_text(account.buckets[PRODUCTIVE])} productive",
        ),
        _steps_card(report),
        ("Checkpoints", f"{account.checkpoints:,}", _mean_cost(report)),
        ("Disruptions", f"{len(report.disruptions):,}", runs),
    ]
    if changes:
        cards.append(("Changes kept", f"{kept} of {len(changes)}", _saved_so_far(changes)))
    shown = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in cards
    )
    return f'<dl class="cards">{"".join(shown)}</dl>'


def _steps_card(report: Report) -> tuple[str, str, str]:
    count = f"{report.account.steps:,}"
    if not report.tells_steps:
        return "Work between outputs", count, "times: the application tells of no steps"
    return "Steps", count, f"{duration_text(report.steps.ideal_s)} ideally" if report.steps else ""


def _saved_so_far(changes: Sequence[Change]) -> str:
    found = [change.gain for change in changes if change.gain is not None]
    if not found:
        return ""
    total_s, low_s, high_s = together(found)
    return f"{total_s:,.1f} s saved so far ({low_s:,.1f} to {high_s:,.1f} with 90 %)"


def _mean_cost(report: Report) -> str:
    if not report.checkpoints:
        return ""
    total_s = sum(point.cost_s * point.count for point in report.costs)
    return f"{duration_text(total_s / report.checkpoints)} each"


def _strip(report: Report) -> str:
    """The whole account as one line of colours, with its key."""
    wall_s = report.account.wall_s
    parts: dict[str, float] = dict.fromkeys(GROUP_COLOURS, 0.0)
    for bucket, spent_s in report.account.buckets.items():
        parts[group_of(bucket)] += spent_s / wall_s if wall_s else 0.0
    shown = {name: share for name, share in parts.items() if share >= LEAST_SHARE}
    bar = "".join(
        f'<span style="width:{100 * share:.2f}%;background:{GROUP_COLOURS[name]}"></span>'
        for name, share in shown.items()
    )
    key = "".join(
        f"<li>{report_tables.swatch(GROUP_COLOURS[name])}{name} {share:.1%}</li>"
        for name, share in shown.items()
    )
    return f'<div class="bar" role="presentation">{bar}</div><ul class="key note">{key}</ul>' if shown else ""


def _row(panels: Sequence[report_svg.Panel], report: Report, changes: Sequence[Change]) -> str:
    sections = (_section(panel, _notes(panel.name, report, changes)) for panel in panels)
    return f'<div class="row">{"".join(sections)}</div>'


def _section(panel: report_svg.Panel, notes: Sequence[str]) -> str:
    kind = f"{panel.name} wide" if panel.width >= WIDTH else panel.name
    told = f'<p class="note">{escape(" ".join(notes))}</p>' if notes else ""
    hint = f'<p class="note hint">{_HINT}</p>' if panel.width >= WIDTH else ""
    heading = f"<h2>{escape(panel.heading)}</h2>"
    return f'<section class="{kind}">{heading}{told}{hint}<figure>{report_svg.svg(panel)}</figure></section>'


def _notes(panel: str, report: Report, changes: Sequence[Change]) -> list[str]:
    """What the figure does not show."""
    if panel == "timeline":
        return list(_left_out(report, changes))
    measured = sum(change.gain is not None for change in changes)
    if panel == "gains" and (left := measured - len(gains_shown(changes))):
        return [f"Those that saved or cost most; {left} more in the table."]
    return []


def _left_out(report: Report, changes: Sequence[Change]) -> Iterator[str]:
    timeline = Timeline(report, changes)
    if timeline.is_abridged:
        yield "Changes have the numbers that they have in the table."
    told = [
        f"{lane.events:,} {printable(lane.name)} as {len(lane.bars)} bars"
        for lane in timeline.lanes
        if lane.is_thinned
    ]
    if report.steps is not None and any(point.count > 1 for point in report.steps.points):
        times = sum(point.count for point in report.steps.points)
        told.append(f"{times:,} step times as {len(report.steps.points)} medians")
    if report.checkpoints > len(report.costs):
        told.append(f"{report.checkpoints:,} checkpoints as {len(report.costs)} means")
    if told:
        yield (
            f"Thinned out: {'; '.join(told)}; what is closer together than"
            f" {duration_text(report.resolution_s)} may be one bar. The tables count everything."
        )
    if left := len(report.lanes) - len(timeline.lanes):
        yield f"The table of what happened has {count_text(left, 'more kind')} of events."
