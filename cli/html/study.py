"""The page of `scrtune study --html`: tables, bars, and a time line a run, in one file without scripts."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from ...intents.events import Operation
from ...replay.study_rows import ActivityRow, CheckpointRow, RunRow, Study
from ...replay.what_if.rows import HeldOut, PredictedValue, WhatIf
from ...units import bytes_text
from ..format import seconds_column
from ..views import study as tables
from ..views.table import TextTable
from .figures import SERIES, WIDTH, Chart
from .templates import page_environment

_MOST_FILE_CLASSES = 60
_LANE = 34.0
_INK = "var(--ink)"
_PARTS = ("write", "encode", "serialise", "flush", "wait", "contention")
Row = TypeVar("Row", CheckpointRow, ActivityRow)


def study_page(found: Study, *, version: str) -> str:
    """Return all of `found` as one HTML document."""
    environment = page_environment()
    environment.globals.update(SERIES=SERIES, WIDTH=WIDTH, tables=tables)
    predicted = [_predictions(found.what_if), _held_out(found.what_if)] if found.what_if else []
    return environment.get_template("study.html.j2").render(
        study=found,
        figures=[figure for figure in (_seconds(found), _costs(found), _timeline(found)) if figure.bars],
        settings=TextTable(("run", "settings"), tuple(found.differing_settings.items())),
        predicted=predicted,
        file_classes=tables.file_classes(found, _MOST_FILE_CLASSES),
        version=version,
    )


def _seconds(found: Study) -> Chart:
    """Draw the seconds of each run in checkpoints, in the cache and below the prefix directory."""
    values = [
        {"checkpoint": row.checkpoint_s, "cache": row.cache.seconds, "prefix": row.prefix.seconds}
        for row in found.runs
    ]
    names, longest = [row.name for row in found.runs], max(max(each.values()) for each in values)
    note = f"{found.grouping[0].upper()}{found.grouping[1:]}."
    chart = Chart("Seconds of each run", note, names, _LANE + 6, longest, tuple(values[0]), _LANE / 2)
    for number, run in enumerate(names):
        for index, (name, value_s) in enumerate(values[number].items()):
            if value_s > 0:
                top, text = number * chart.lane + index * _LANE / 3, seconds_column(value_s)
                about = f"{run}, {name}: {value_s:,.3f} s"
                chart.bar((0, top), (value_s, _LANE / 3 - 1.5), SERIES[name], about, text=text)
    return chart


def _costs(found: Study) -> Chart:
    """Draw each checkpoint as a mark at its seconds, and the mean."""
    names = [run.name for run in found.runs]
    longest = max((row.seconds for row in found.checkpoints), default=0.0)
    note = "A mark for each checkpoint, of the thread that took longest; the thin line is their mean."
    chart, by_run = (
        Chart("Checkpoints one by one", note, names, _LANE * 0.7, longest),
        _of_runs(found.checkpoints),
    )
    for number, run in enumerate(names):
        top, rows = number * chart.lane, by_run[run]
        for row in rows:
            about = f"{run}, checkpoint {row.number}: {row.seconds:,.3f} s"
            chart.mark(
                (row.seconds, top + 5), (3, chart.lane - 10), SERIES["checkpoint"], about, opacity=0.55
            )
        if rows:
            mean_s = sum(row.seconds for row in rows) / len(rows)
            chart.mark((mean_s, top + 1), (1, chart.lane - 2), _INK, f"mean {mean_s:,.3f} s")
    return chart


def _timeline(found: Study) -> Chart:
    """Draw checkpoints, flushes and bytes a second below each run's directories on one axis of time."""
    note = (
        "From the first event of each run. Upper edge: checkpoints, and flushes behind them; below: bytes a"
        " second written in the cache and below the prefix directory, each run to its own highest."
    )
    names, longest = [run.name for run in found.runs], max((row.span_s for row in found.runs), default=0.0)
    series = ("checkpoint", "cache", "prefix", "flush")
    chart = Chart("Over time", note, names, _LANE * 1.6, longest, series)
    checkpoints, activity = _of_runs(found.checkpoints), _of_runs(found.activity)
    for number, run in enumerate(found.runs):
        _draw_activity(chart, number * chart.lane, run, activity[run.name])
        _draw_checkpoints(chart, number * chart.lane, run, checkpoints[run.name])
    return chart


def _of_runs(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    by_run = defaultdict(list)
    for row in rows:
        by_run[row.run].append(row)
    return by_run


def _draw_checkpoints(chart: Chart, top: float, run: RunRow, rows: Iterable[CheckpointRow]) -> None:
    for row in rows:
        about, start_s = f"checkpoint {row.number}: {row.seconds:,.3f} s", row.start_s - run.start_s
        chart.bar((start_s, top + 2), (max(chart.unit_s, row.wall_s), 9), SERIES["checkpoint"], about)
        if row.flush_s is not None and row.flush_end_s is not None:
            about, took_s = f"flush of {row.number}: {row.flush_s:,.3f} s", max(chart.unit_s, row.flush_s)
            at_s = row.flush_end_s - run.start_s - took_s
            chart.bar((at_s, top + 12), (took_s, 5), SERIES["flush"], about)


def _draw_activity(chart: Chart, top: float, run: RunRow, rows: Iterable[ActivityRow]) -> None:
    written = [row for row in rows if row.operation == Operation.WRITE]
    highest, room = max((row.bytes for row in written), default=1), chart.lane - 24
    for row in written:
        height, at_s = room * row.bytes / highest, row.start_s - run.start_s
        about = f"{row.tier}: {bytes_text(row.bytes / row.width_s)}/s at {at_s:,.0f} s"
        colour, took_s = SERIES.get(row.tier, "var(--muted)"), max(0.8 * chart.unit_s, row.width_s)
        at = max(0.0, at_s), top + 19 + room - height
        chart.bar(at, (took_s, height), colour, about, opacity=0.75)


def _predictions(found: WhatIf) -> Chart:
    """Draw the parts of each predicted checkpoint one after the other, and the interval of their sum."""
    note = (
        f"For a job like {found.like}, the cheapest of each way to write. The line is the"
        f" {found.confidence:.0%} interval."
    )
    names = [f"number {row.rank}" for row in found.leading]
    longest = max(row.checkpoint_s.high for row in found.leading)
    chart = Chart("What a checkpoint would cost", note, names, _LANE, longest, _PARTS, 8)
    for number, row in enumerate(found.leading):
        top, at_s, whole_s = number * _LANE, 0.0, sum(row.parts_s.values()) or 1.0
        for name in _PARTS:
            # medians of parts do not add up to that of their sum
            seconds = row.parts_s.get(name, 0.0) / whole_s * row.checkpoint_s.value
            if seconds > 0:
                about = f"{name}: {row.parts_s[name]:,.3f} s"
                chart.bar((at_s, top + 2), (seconds, 12), SERIES[name], about)
                at_s += seconds
        _draw_interval(chart, top + 7, names[number], row.checkpoint_s)
        text = tables.changes_text(row.changes)
        # without any width: its text stands below the bar, where the bar begins
        chart.bar((-4 * chart.unit_s, top + 16), (0, 10), _INK, text, text=text)
    return chart


def _draw_interval(chart: Chart, y: float, what: str, seconds: PredictedValue) -> str:
    """Draw a line from the lower bound to the upper, and return its tooltip."""
    about = f"{what}: {seconds.value:,.3f} s ({seconds.low:,.3f} to {seconds.high:,.3f})"
    chart.bar((seconds.low, y), (seconds.high - seconds.low, 2), _INK, about)
    return about


def _held_out(found: WhatIf) -> Chart:
    """Draw what was measured of each run as a bar, and what the others predict of it as a line."""
    rows: tuple[HeldOut, ...] = found.held_out
    note = (
        "Bars: as measured. Lines: the interval that a model fitted to all other runs predicts, its middle a"
        " mark."
    )
    longest = max((max(row.measured_s, row.predicted_s.high) for row in rows), default=0.0)
    names, title = [row.run for row in rows], "Runs as predicted from all others"
    chart = Chart(title, note, names, _LANE * 0.6, longest, ("checkpoint", "flush"))
    for number, row in enumerate(rows):
        what, y, height = f"{row.run}, {row.measure}", number * chart.lane + 3, chart.lane - 6
        about = f"{what}: {seconds_column(row.measured_s)} s"
        chart.bar((0, y), (row.measured_s, height), SERIES[row.measure], about, opacity=0.6)
        about = _draw_interval(chart, y + height / 2 - 1, f"{what}, predicted", row.predicted_s)
        chart.mark((row.predicted_s.value, y), (3, height), _INK, about)
    return chart
