"""The page that `scrtune goodput --html` writes: one job in figures and tables, one file, no scripts."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from html import escape
from math import hypot

from ..goodput.attribution import Gain
from ..goodput.report import Report
from ..intents.intent import counted
from . import report_svg
from .check_command import printable
from .report_changes import Change
from .report_figures import duration, lanes_shown
from .report_theme import GROUP_COLOURS, VERDICTS, group_of

_ROWS = 200
"""Most rows of a table."""
_PAGE = 12
"""Rows that are printed on one page."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #57606a; --grid: #d8dee4; --paper: #ffffff;
  --card: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9ba6b2; --grid: #3a424c;
  --paper: #12161b; --card: #1b2128; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 1240px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; }
.note { color: var(--muted); font-size: .87rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1rem 0 0; padding: 0; }
.cards div { background: var(--card); border-radius: 8px; padding: .7rem .9rem; }
.cards dt { color: var(--muted); font-size: .8rem; }
.cards dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.cards dd small { display: block; font-size: .78rem; font-weight: 400; color: var(--muted); }
.bar { display: flex; height: 1.1rem; border-radius: 4px; overflow: hidden; margin-top: 1rem; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 0 1.5rem; }
@media (max-width: 34rem) { .row { grid-template-columns: 1fr; } }
.row > * { min-width: 0; }
figure { margin: 0; overflow-x: auto; }
svg { display: block; width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt; }
.wide svg { min-width: 46rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; min-width: 100%; }
.scroll { overflow-x: auto; }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
th { color: var(--muted); font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
tfoot td { font-weight: 600; }
.swatch { display: inline-block; width: .75em; height: .75em; margin-right: .5em; border-radius: 2px; }
@media print {
  :root { color-scheme: light; --ink: #000; --muted: #444; --grid: #bbb; --paper: #fff; --card: #fff; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  .cards { grid-template-columns: none; grid-auto-flow: column; grid-auto-columns: 1fr; }
  .cards { margin-top: 2mm; }
  .cards div { border: 1px solid var(--grid); padding: 1mm 2mm; }
  .cards dd { font-size: 1.1rem; }
  td, th { padding-top: .12rem; padding-bottom: .12rem; }
  .row { grid-template-columns: 1fr 1fr; }
  .row:has(> section:only-child) { grid-template-columns: 1fr; }
  .wide svg { min-width: 0; max-height: 120mm; }
  .bar { height: 4mm; margin-top: 3mm; }
  h2 { margin-top: 3mm; }
  section, tr, .cards { break-inside: avoid; }
  section.long { break-inside: auto; }
  h2, .note { break-after: avoid; }
  .scroll, figure { overflow: visible; }
  @page { size: A4 landscape; margin: 12mm; }
}
"""
_FOOT = "Every second of the job lies in one bucket; docs/goodput.md and docs/report.md have the definitions."
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report, changes: Sequence[Change], *, version: str) -> str:
    """All of `report` as one HTML document."""
    name = escape(printable(report.job_name) or "(no name)")
    body = [
        f"<header><h1>Where the time of {name} went</h1>",
        f'<p class="note">{escape(when(report))}; {counted(report.events, "event")}</p>',
        _cards(report, changes),
        _strip(report),
        "</header><main>",
        *map(_row, report_svg.rows(report, changes)),
        _thinned(report),
        _changes(changes),
        _beside(_account(report), _checkpoints(report) + _steps(report)),
        _beside(_lanes(report), _disruptions(report)),
        f'</main><footer><p class="note">scrtune {escape(version)}. {_FOOT}</p></footer>',
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Goodput of {name}</title><style>{_STYLE}</style></head><body>\n"
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
    runs = counted(account.runs, "run")
    cards = [
        ("Goodput", f"{account.goodput:.1%}", "of the wall time was productive"),
        ("Wall time", duration(account.wall_s), f"{duration(account.buckets['productive'])} productive"),
        ("Steps", f"{account.steps:,}", f"{duration(report.steps.ideal_s)} ideally" if report.steps else ""),
        ("Checkpoints", f"{account.checkpoints or report.checkpoints:,}", _mean_cost(report)),
        ("Disruptions", f"{len(report.disruptions):,}", runs),
    ]
    if changes:
        cards.append(("Changes kept", f"{kept} of {len(changes)}", _saved_so_far(changes)))
    shown = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in cards
    )
    return f'<dl class="cards">{"".join(shown)}</dl>'


def _saved_so_far(changes: Sequence[Change]) -> str:
    """The sum of what the changes gained; their errors are independent."""
    found = [change.gain for change in changes if change.gain is not None]
    if not found:
        return ""
    total_s = sum(gain.total_s for gain in found)
    low_s = total_s - hypot(*(gain.total_s - gain.total_low_s for gain in found))
    high_s = total_s + hypot(*(gain.total_high_s - gain.total_s for gain in found))
    return f"{total_s:,.1f} s saved so far ({low_s:,.1f} to {high_s:,.1f} with 90 %)"


def _mean_cost(report: Report) -> str:
    count = sum(point.count for point in report.costs)
    if not count:
        return ""
    return f"{duration(sum(point.cost_s * point.count for point in report.costs) / count)} each"


def _strip(report: Report) -> str:
    """The whole account as one line of colours."""
    wall_s = report.account.wall_s or 1.0
    parts: dict[str, float] = dict.fromkeys(GROUP_COLOURS, 0.0)
    for bucket, spent_s in report.account.buckets.items():
        parts[group_of(bucket)] += spent_s / wall_s
    shown = (
        f'<span style="width:{100 * share:.2f}%;background:{GROUP_COLOURS[name]}"'
        f' title="{name}: {share:.1%}"></span>'
        for name, share in parts.items()
        if share > 0
    )
    return f'<div class="bar" role="presentation">{"".join(shown)}</div>'


def _row(panels: Sequence[report_svg.Panel]) -> str:
    wide = ' class="wide"' if len(panels) == 1 and panels[0].width >= report_svg.WIDTH else ""
    sections = (
        f"<section{wide}><h2>{escape(panel.heading)}</h2><figure>{report_svg.svg(panel)}</figure></section>"
        for panel in panels
    )
    return f'<div class="row">{"".join(sections)}</div>'


def _beside(left: str, right: str) -> str:
    return f'<div class="row"><div>{left}</div><div>{right}</div></div>' if left and right else left + right


def _thinned(report: Report) -> str:
    """What of the figures is not everything."""
    told = [
        f"{lane.events:,} {lane.name} as {len(lane.bars)} bars" for lane in report.lanes if lane.is_thinned
    ]
    if report.steps is not None and any(point.count > 1 for point in report.steps.points):
        times = sum(point.count for point in report.steps.points)
        told.append(f"{times:,} step times as {len(report.steps.points)} medians")
    if report.checkpoints > len(report.costs):
        told.append(f"{report.checkpoints:,} checkpoints as {len(report.costs)} means")
    notes = []
    if told:
        notes.append(
            f"The figures are thinned out; what is closer together than {duration(report.resolution_s)} may"
            f" be one bar: {'; '.join(told)}. The tables count everything."
        )
    if left := len(report.lanes) - len(lanes_shown(report)):
        notes.append(f"{counted(left, 'kind')} of events with next to no time stand in the table only.")
    return f'<p class="note">{escape(" ".join(notes))}</p>' if notes else ""


def _table(
    heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: int = 0, note: str = ""
) -> str:
    """A table whose last `right` columns are numbers; cells are HTML already. Nothing without rows."""
    rows = list(rows)
    if not rows:
        return ""
    first = len(columns) - right
    css = ["" if index < first else ' class="n"' for index in range(len(columns))]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(columns, css, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, css, strict=True)) + "</tr>\n"
        for row in rows[:_ROWS]
    )
    if len(rows) > _ROWS:
        note = f"{note} The first {_ROWS} of {len(rows):,}.".strip()
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    long = ' class="long"' if len(rows) > _PAGE else ""
    return (
        f'<section{long}><h2>{escape(heading)}</h2>{told}<div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></section>"
    )


def _account(report: Report) -> str:
    account = report.account
    spent = sorted(account.buckets.items(), key=lambda item: -item[1])
    rows = [
        (
            f'<span class="swatch" style="background:{GROUP_COLOURS[group_of(name)]}"></span>'
            + escape(printable(name)),
            escape(group_of(name)),
            f"{spent_s:,.3f}",
            f"{spent_s / account.wall_s:.2%}" if account.wall_s else "-",
        )
        for name, spent_s in spent
        if spent_s > 0
    ]
    rows.append(("<b>wall time</b>", "", f"<b>{account.wall_s:,.3f}</b>", "<b>100.00%</b>"))
    return _table("Where the time went", ("bucket", "shown as", "seconds", "share"), rows, right=2)


def _steps(report: Report) -> str:
    steps = report.steps
    if steps is None:
        return ""
    rows = {
        "ideal": steps.ideal_s,
        "mean": steps.mean_s,
        **{f"{each} % took at most": took_s for each, took_s in steps.percentiles_s.items()},
        "longest": steps.most_s,
        "mean distance from the ideal": steps.deviation_s,
    }
    for each in steps.stragglers:
        rows[escape(f"straggler {printable(each.writer)}: {each.ratio:.2f} x the others")] = each.took_s
    note = f"{steps.count:,} of them: those that were made again in a later run count again."
    if steps.no_stragglers:
        note += f" Stragglers cannot be told: {steps.no_stragglers}."
    shown = [(name, duration(took_s)) for name, took_s in rows.items()]
    return _table("What steps took", ("", "time"), shown, right=1, note=note)


def _checkpoints(report: Report) -> str:
    count = sum(point.count for point in report.costs)
    if not count:
        return ""
    total_s = sum(point.cost_s * point.count for point in report.costs)
    rows: list[tuple[str, ...]] = []
    for part in report.costs[0].parts:
        spent_s = sum(point.parts[part] * point.count for point in report.costs)
        if spent_s > 0:
            rows.append(
                (escape(part), f"{spent_s:,.3f}", duration(spent_s / count), f"{spent_s / total_s:.1%}")
            )
    total = (f"{total_s:,.3f}", duration(total_s / count), "100.0%")
    rows.append(tuple(f"<b>{each}</b>" for each in ("all", *total)))
    note = f"{counted(count, 'checkpoint')}: what they blocked, and what flushes took from the steps."
    columns = ("part", "seconds", "a checkpoint", "share")
    return _table("What checkpoints cost", columns, rows, right=3, note=note)


def _lanes(report: Report) -> str:
    rows = [
        (
            escape(printable(lane.name)),
            f"{lane.events:,}",
            f"{sum(bar.busy_s for bar in lane.bars):,.3f}",
            duration(sum(bar.busy_s for bar in lane.bars) / lane.events),
        )
        for lane in report.lanes
    ]
    note = "By their own times: where they overlap, a second counts for each of them."
    return _table("What happened", ("kind", "events", "seconds", "mean"), rows, right=3, note=note)


def _changes(changes: Sequence[Change]) -> str:
    begin_s = changes[0].time_s if changes else 0.0
    rows = [
        (
            escape(VERDICTS[change.verdict][0].replace(" ", "\u00a0")),
            _change(change),
            str(change.generation),
            f"{change.time_s - begin_s:,.1f} s",
            *_gain(change.gain),
        )
        for change in changes
    ]
    columns = ("became", "change and reason", "gen", "at", "cost before", "saves", "checkpoints", "so far")
    note = (
        "Seconds a checkpoint, as measured in each change's trial against the settings before it, with 90 % "
        "intervals; losses are negative. Times since the first change."
    )
    return _table("Changes of the tuner", columns, rows, right=6, note=note)


def _change(change: Change) -> str:
    what = escape(change.what.replace(" -> ", "\u00a0\u2192\u00a0"))
    because = escape(change.because)
    return f'<b>{escape(change.rule)}</b><br>{what}<br><span class="note">{because}</span>'


def _gain(gain: Gain | None) -> tuple[str, str, str, str]:
    if gain is None:
        return "-", "-", "-", "-"
    return (
        f"{gain.before_s:.3f}",
        f"{gain.saved_s:.3f}<br>{gain.low_s:.3f} to {gain.high_s:.3f}",
        str(gain.checkpoints),
        f"{gain.total_s:.3f}<br>{gain.total_low_s:.3f} to {gain.total_high_s:.3f}",
    )


def _disruptions(report: Report) -> str:
    rows = [
        (escape(printable(each.what)), duration(each.time_s - report.start_s)) for each in report.disruptions
    ]
    return _table("Disruptions", ("what", "after"), rows, right=1)
