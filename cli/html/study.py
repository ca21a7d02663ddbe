"""The page of `scrtune study --html`: tables, bars, and a time line a run, in one file without scripts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...goodput.report_lanes import BACKGROUND_FLUSH
from ...intents.events import Operation
from ...replay.study_rows import ActivityRow, CheckpointRow, RunRow, Study
from ...replay.what_if.rows import WhatIf
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
_COLOURS = {
    "checkpoint": GROUPS["checkpoints"].colour,
    "cache": GROUPS["data loading"].colour,
    "prefix": GROUPS["wasted progress"].colour,
    "flush": colour_of(BACKGROUND_FLUSH),
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
    return [
        tables.predictions(found),
        tables.below(found),
        *([every._replace(kind="folded")] if tables.hidden(found) else []),
        *(f"{note}." for note in found.notes),
        tables.importances(found),
        *([tables.held_out(found)] if found.held_out else []),
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


_Ends = tuple[float, float]


def _bar(canvas: Canvas, axes: Axes, times_s: _Ends, lanes: _Ends, of: str, note: str) -> None:  # noqa: PLR0913, PLR0917
    """Draw a bar from one time to another, within parts of lanes, with its tooltip."""
    (start_s, end_s), (top, bottom) = times_s, lanes
    patch = Rectangle((start_s, top), end_s - start_s, bottom - top, fc=_COLOURS[of], linewidth=0)
    canvas.note(axes.add_patch(patch), note)


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
                    _bar(canvas, axes, (0, value_s), (top, top + 0.25), name, about)
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
                about = f"checkpoint {row.number}: {row.seconds:,.3f} s"
                lanes = number - 0.42, number - 0.27
                _bar(canvas, axes, (start_s, start_s + row.wall_s), lanes, "checkpoint", about)
                if row.flush_s is not None and row.flush_end_s is not None:
                    end_s = row.flush_end_s - run.start_s
                    about = f"flush of {row.number}: {row.flush_s:,.3f} s"
                    lanes = number - 0.25, number - 0.17
                    _bar(canvas, axes, (end_s - row.flush_s, end_s), lanes, "flush", about)
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
