"""The page of `scrtune study --html`: tables, bars, and a time line a run, in one file without scripts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple, TypeVar

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...goodput import buckets as of
from ...goodput.report_lanes import BACKGROUND_FLUSH
from ...intents.events import Operation
from ...replay.study_rows import ActivityRow, CheckpointRow, RunRow, Study
from ...replay.what_if.rows import PredictedValue, WhatIf
from ...units import bytes_text
from ..blocks import Block, Figure
from ..format import seconds_column
from ..tables import study as tables
from .canvas import Canvas, legend, name_rows, svg
from .templates import rendered
from .theme import GROUPS, colour_of

_MOST_FILE_CLASSES = 60
_LEFT, _RIGHT, _AROUND = 0.15, 0.93, 0.75
"""Where the axes of a figure are, as shares of its width, and inches above and below them."""
_PARTS = ("write", "encode", "serialise", "flush", "wait", "contention")
_COLOURS = {
    "checkpoint": GROUPS["checkpoints"].colour,
    "cache": GROUPS["data loading"].colour,
    "prefix": GROUPS["wasted progress"].colour,
    "flush": colour_of(BACKGROUND_FLUSH),
    "write": colour_of(of.CHECKPOINT_WRITE),
    "encode": colour_of(of.CHECKPOINT_ENCODE),
    "serialise": colour_of(of.CHECKPOINT_OTHER),
    "wait": colour_of(of.CHECKPOINT_WAIT),
    "contention": colour_of(of.FLUSH_SLOWDOWN),
}
"""The colour of each thing, in all figures."""
Row = TypeVar("Row", CheckpointRow, ActivityRow)


def study_page(found: Study, *, version: str) -> str:
    """Return all of `found` as one HTML document."""
    count = len(found.runs)
    return rendered(
        "document.html.j2",
        title=f"Study of {count} {'run' if count == 1 else 'runs'}",
        about=f"Compared to {found.base}. scrtune {version}",
        kind="study",
        blocks=[
            *(f"{note}." for note in found.notes),
            tables.runs(found),
            *tables.settings(found),
            _seconds(found),
            *([_costs(found)] if found.checkpoints else []),
            *([_timeline(found)] if found.checkpoints or found.activity else []),
            *tables.differences(found),
            *(_what_if(found.what_if) if found.what_if else ()),
            tables.file_classes(found, _MOST_FILE_CLASSES),
            tables.reading(found),
        ],
    )


def _what_if(found: WhatIf) -> Sequence[Block]:
    """Return what is predicted, what mattered, and how good predictions are."""
    every = tables.predictions(found, leading=False)._replace(
        title=f"All {len(found.predictions)} predictions"
    )
    held_out: list[Block] = [_held_out(found), tables.held_out(found)] if found.held_out else []
    return [
        tables.predictions(found),
        tables.below(found),
        _predictions(found),
        *([every._replace(kind="folded")] if tables.hidden(found) else []),
        *(f"{note}." for note in found.notes),
        tables.importances(found),
        *held_out,
        tables.rates(found),
    ]


def _figure(
    about: tuple[str, str],
    names: Sequence[str],
    lane: float,
    series: Sequence[str],
    draw: Callable[[Canvas, Axes], None],
) -> Figure:
    """Return a figure of seconds: title and note, and a lane for each of `names`, `lane` inches high."""
    (title, note), height = about, lane * len(names) + _AROUND

    def draw_all(canvas: Canvas) -> None:
        axes = canvas.figure.add_axes((_LEFT, 0.45 / height, _RIGHT - _LEFT, 1 - _AROUND / height))
        axes.grid(visible=True, axis="x")
        draw(canvas, axes)
        axes.autoscale_view()
        name_rows(axes, names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds")
        for name in series:
            axes.add_patch(Rectangle((0, 0), 0, 0, color=_COLOURS[name], label=name))
        legend(axes, len(series), above=True)

    return Figure(title, note, svg(height, draw_all, title))


class _Box(NamedTuple):
    """A rectangle: from when to when (s), and its edges in lanes."""

    start_s: float
    end_s: float
    top: float
    bottom: float


def _bar(canvas: Canvas, axes: Axes, box: _Box, colour: str, note: str) -> None:
    """Draw a bar with its tooltip."""
    corner, size = (box.start_s, box.top), (box.end_s - box.start_s, box.bottom - box.top)
    canvas.note(axes.add_patch(Rectangle(corner, *size, fc=colour, linewidth=0)), note)


def _seconds(found: Study) -> Figure:
    """Draw the seconds of each run in checkpoints, in the cache and below the prefix directory."""
    series = ("checkpoint", "cache", "prefix")

    def draw(canvas: Canvas, axes: Axes) -> None:
        for number, row in enumerate(found.runs):
            values_s = (row.checkpoint_s, row.cache.seconds, row.prefix.seconds)
            for index, (name, value_s) in enumerate(zip(series, values_s, strict=True)):
                if value_s > 0:
                    top = number - 0.42 + 0.28 * index
                    about = f"{row.name}, {name}: {value_s:,.3f} s"
                    _bar(canvas, axes, _Box(0, value_s, top, top + 0.25), _COLOURS[name], about)
                    at = (value_s, top + 0.13)
                    axes.annotate(f" {seconds_column(value_s)}", at, va="center", color=canvas.theme.muted)

    note = f"{found.grouping[0].upper()}{found.grouping[1:]}."
    return _figure(("Seconds of each run", note), [row.name for row in found.runs], 0.45, series, draw)


def _costs(found: Study) -> Figure:
    """Draw each checkpoint as a mark at its seconds, and the mean."""
    by_run = _of_runs(found.checkpoints)

    def draw(canvas: Canvas, axes: Axes) -> None:
        for number, run in enumerate(found.runs):
            if took_s := [row.seconds for row in by_run[run.name]]:
                ends, colour = (number - 0.3, number + 0.3), _COLOURS["checkpoint"]
                mean_s, least_s, most_s = fmean(took_s), min(took_s), max(took_s)
                lines = axes.vlines(took_s, *ends, color=colour, alpha=0.55, linewidth=2.5)
                canvas.note(lines, f"{run.name}: {least_s:,.3f} to {most_s:,.3f} s, mean {mean_s:,.3f} s")
                axes.vlines(mean_s, number - 0.45, number + 0.45, color=canvas.theme.ink, linewidth=0.8)

    note = "A mark for each checkpoint, of the thread that took longest; the thin line is their mean."
    return _figure(("Checkpoints one by one", note), [run.name for run in found.runs], 0.25, (), draw)


def _timeline(found: Study) -> Figure:
    """Draw checkpoints, flushes and bytes a second below each run's directories on one axis of time."""
    checkpoints, activity = _of_runs(found.checkpoints), _of_runs(found.activity)

    def draw(canvas: Canvas, axes: Axes) -> None:
        for number, run in enumerate(found.runs):
            for row in checkpoints[run.name]:
                start_s = row.start_s - run.start_s
                box = _Box(start_s, start_s + row.wall_s, number - 0.42, number - 0.27)
                about = f"checkpoint {row.number}: {row.seconds:,.3f} s"
                _bar(canvas, axes, box, _COLOURS["checkpoint"], about)
                if row.flush_s is not None and row.flush_end_s is not None:
                    end_s = row.flush_end_s - run.start_s
                    box = _Box(end_s - row.flush_s, end_s, number - 0.25, number - 0.17)
                    about = f"flush of {row.number}: {row.flush_s:,.3f} s"
                    _bar(canvas, axes, box, _COLOURS["flush"], about)
            _draw_activity(canvas, axes, number, run, activity[run.name])

    note = (
        "From the first event of each run. Upper edge: checkpoints, and flushes behind them; below: bytes a"
        " second written in the cache and below the prefix directory, each run to its own highest."
    )
    series = ("checkpoint", "cache", "prefix", "flush")
    return _figure(("Over time", note), [run.name for run in found.runs], 0.6, series, draw)


def _draw_activity(canvas: Canvas, axes: Axes, number: int, run: RunRow, rows: Iterable[ActivityRow]) -> None:
    def from_start(time_s: float) -> float:
        return min(max(0.0, time_s - run.start_s), run.span_s)  # bins are whole seconds

    written = [row for row in rows if row.operation == Operation.WRITE and row.tier in _COLOURS]
    highest, floor = max((row.bytes for row in written), default=1), number + 0.45
    for tier in dict.fromkeys(row.tier for row in written):
        of_tier = [row for row in written if row.tier == tier]
        edges = [(from_start(row.start_s), from_start(row.start_s + row.width_s)) for row in of_tier]
        xs = [x for start, end in edges for x in (start, start, end, end)]
        ys = [y for row in of_tier for y in (0, row.bytes, row.bytes, 0)]
        tops = [floor - 0.55 * y / highest for y in ys]
        area = axes.fill_between(xs, tops, floor, color=_COLOURS[tier], alpha=0.75, linewidth=0.3)
        most = max(row.bytes / row.width_s for row in of_tier)
        canvas.note(area, f"{tier}: {bytes_text(most)}/s at most")


def _of_runs(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    by_run = defaultdict(list)
    for row in rows:
        by_run[row.run].append(row)
    return by_run


def _predictions(found: WhatIf) -> Figure:
    """Draw the parts of each predicted checkpoint one after the other, and the interval of their sum."""

    def draw(canvas: Canvas, axes: Axes) -> None:
        for number, row in enumerate(found.leading):
            at_s, whole_s = 0.0, sum(row.parts_s.values()) or 1.0
            for name in _PARTS:
                # medians of parts do not add up to that of their sum
                seconds = row.parts_s.get(name, 0.0) / whole_s * row.checkpoint_s.value
                if seconds > 0:
                    about = f"{name}: {row.parts_s[name]:,.3f} s"
                    _bar(
                        canvas, axes, _Box(at_s, at_s + seconds, number - 0.4, number), _COLOURS[name], about
                    )
                    at_s += seconds
            _draw_interval(canvas, axes, number - 0.2, f"number {row.rank}", row.checkpoint_s)
            axes.annotate(tables.changes_text(row.changes), (0, number + 0.2), va="center")

    note = (
        f"For a job like {found.like}, the cheapest of each way to write. The line is the"
        f" {found.confidence:.0%} interval."
    )
    names = [f"number {row.rank}" for row in found.leading]
    return _figure(("What a checkpoint would cost", note), names, 0.38, _PARTS, draw)


def _draw_interval(canvas: Canvas, axes: Axes, y: float, what: str, seconds: PredictedValue) -> None:
    line = axes.hlines(y, seconds.low, seconds.high, color=canvas.theme.ink, linewidth=1.6)
    canvas.note(line, f"{what}: {seconds.value:,.3f} s ({seconds.low:,.3f} to {seconds.high:,.3f})")


def _held_out(found: WhatIf) -> Figure:
    """Draw what was measured of each run as a bar, and what the others predict of it as a line."""

    def draw(canvas: Canvas, axes: Axes) -> None:
        for number, row in enumerate(found.held_out):
            what, colour = f"{row.run}, {row.measure}", _COLOURS[row.measure]
            about = f"{what}: {seconds_column(row.measured_s)} s"
            _bar(canvas, axes, _Box(0, row.measured_s, number - 0.3, number + 0.3), colour, about)
            _draw_interval(canvas, axes, number, f"{what}, predicted", row.predicted_s)
            axes.plot(row.predicted_s.value, number, "|", color=canvas.theme.ink, markersize=9)

    note = (
        "Bars: as measured. Lines: the interval that a model fitted to all other runs predicts, its middle a"
        " mark."
    )
    names, series = [row.run for row in found.held_out], ("checkpoint", "flush")
    return _figure(("Runs as predicted from all others", note), names, 0.25, series, draw)
