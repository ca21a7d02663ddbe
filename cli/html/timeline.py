"""The figure of a report that shows everything on one axis of time."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ...goodput.buckets import PRODUCTIVE
from ...goodput.report import Report, Steps
from ...goodput.report_lanes import BARS, RUNS
from ...units import count_text, duration_text, seconds_text
from ..views.tuner_changes import TunerChange
from .canvas import Canvas, legend, name_rows
from .theme import GROUPS, colour_of, group_of

_LEAST_SHARE = 0.0005
"""A smaller part of a whole would not be visible."""
_LANES = 12
_LANE = _LEVEL = 0.165
_LEVELS = 8
"""Most lines of changes: with more, the figure would not fit on a page."""
_LEFT, _RIGHT = 0.15, 0.985
_TOP, _BOTTOM, _GAP = 0.3, 0.42, 0.1
_LEAST_PERCENT = 0.5
_LEAST_BUSY = 2e-4
"""Of the wall time: a lane with less is left out."""
_PAUSE = 5
_UNITS = ((2 * 86_400.0, 86_400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"))


_Row = tuple[str, float, Callable[[Canvas, Axes], None]]
"""Title, height in inches, and what draws it."""


class TimelineFigure:
    """The timeline of `report` and `changes`."""

    def __init__(self, report: Report, changes: Sequence[TunerChange]) -> None:
        self.report, self.changes = report, [change for change in changes if change.is_made]
        wall_s = max(report.account.wall_s, 1e-9)
        self._unit_s, self._unit = next(
            ((unit_s, unit) for least_s, unit_s, unit in _UNITS if wall_s >= least_s), (1.0, "seconds")
        )
        self._end = wall_s / self._unit_s
        lanes = [lane for lane in report.lanes if lane.busy_s >= _LEAST_BUSY * wall_s]
        self.lanes = lanes[: _LANES - bool(report.disruptions)]
        self._levels = min(_LEVELS, max(2, len(self.changes)))
        self._rows = self._rows_shown()
        self.height = sum(height + _GAP for _, height, _ in self._rows) - _GAP + _TOP + _BOTTOM

    def left_out(self) -> Iterator[str]:
        """Yield sentences on what the figure does not show."""
        report = self.report
        if len(self.changes) > _LEVELS:
            yield "Changes have the numbers that they have in the table."
        thin = (lane for lane in self.lanes if lane.is_thinned)
        thinned = [f"{lane.events:,} {lane.name} as {count_text(len(lane.bars), 'bar')}" for lane in thin]
        points = report.steps.points if report.steps is not None else ()
        if (times := sum(point.count for point in points)) > len(points):
            thinned.append(f"{times:,} step times as {len(points)} medians")
        if report.checkpoints > len(report.costs):
            thinned.append(f"{report.checkpoints:,} checkpoints as {len(report.costs)} means")
        if thinned:
            yield (
                f"Thinned out: {'; '.join(thinned)}; what is closer together than"
                f" {duration_text(report.account.wall_s / BARS)} may be one bar. The tables count everything."
            )
        if left := len(report.lanes) - len(self.lanes):
            yield f"The table of events has {count_text(left, 'more kind')}."

    def _rows_shown(self) -> list[_Row]:
        """Return the rows from top to bottom; all of them fit on a page (A4 landscape)."""
        report, lanes = self.report, len(self.lanes) + bool(self.report.disruptions)
        rows: list[tuple[bool, _Row]] = [
            (True, ("where the\ntime went", 1.0, self._draw_account)),
            (bool(self.changes), ("changes of\nthe tuner", _LEVEL * self._levels + 0.12, self._draw_changes)),
            (True, ("", _LANE * lanes + 0.05, self._draw_lanes)),
            (bool(report.costs), ("cost of each\ncheckpoint", 1.0, self._draw_costs)),
            (report.steps is not None, ("what a\nstep took", 0.9, self._draw_steps)),
        ]
        return [row for is_shown, row in rows if is_shown]

    def draw(self, canvas: Canvas) -> None:
        """Draw all rows on one axis of time."""
        top = self.height - _TOP
        for number, (title, height, draw) in enumerate(self._rows, start=1):
            place = (_LEFT, (top - height) / self.height, _RIGHT - _LEFT, height / self.height)
            axes = canvas.figure.add_axes(place)
            top -= height + _GAP
            axes.set_xlim(0, self._end)  # first: labels are placed by it
            draw(canvas, axes)
            axes.set_ylabel(title, rotation=0, ha="right", va="center")
            axes.yaxis.set_label_coords(-0.068, 0.5)
            is_last = number == len(self._rows)
            axes.tick_params(axis="x", labelbottom=is_last, length=3 if is_last else 0)
            for change in self.changes:
                at, _ = self._span(change)
                axes.axvline(at, color=canvas.theme.muted, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0.5)
        axes.set_xlabel(f"{self._unit} since the job began")

    def _at(self, time_s: float) -> float:
        """Return the place of `time_s` (epoch seconds) on the axis."""
        return (time_s - self.report.account.start_s) / self._unit_s

    def _span(self, change: TunerChange) -> tuple[float, float]:
        begin_s = change.decision.time_s
        return self._at(begin_s), self._at(change.ended.time_s if change.ended else begin_s)

    def _since(self, time_s: float) -> str:
        return f"at {duration_text(time_s - self.report.account.start_s)}"

    def _draw_account(self, _canvas: Canvas, axes: Axes) -> None:
        slices = self.report.slices
        edges = [*(self._at(window.start_s) for window in slices), self._end]
        shares = {name: np.zeros(len(slices)) for name in GROUPS}
        for index, window in enumerate(slices):
            for bucket, spent_s in window.buckets.items():
                shares[group_of(bucket)][index] += 100 * spent_s / window.wall_s if window.wall_s else 0.0
        floor = np.zeros(len(slices))
        for name, share in shares.items():
            if share.max(initial=0.0) >= _LEAST_PERCENT:
                top, colour = floor + share, GROUPS[name].colour
                axes.stairs(top, edges, baseline=floor, fill=True, color=colour, label=name, linewidth=0)
                floor = top
        axes.set_ylim(0, 100)
        axes.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
        legend(axes, 10, above=True)

    def _draw_changes(self, canvas: Canvas, axes: Axes) -> None:
        axes.set_ylim(self._levels + 0.12 / _LEVEL - 0.6, -0.6)
        axes.set_yticks([])
        box: dict[str, object] = {
            "boxstyle": "square,pad=0.1",
            "fc": canvas.theme.paper,
            "ec": "none",
            "alpha": 0.8,
        }
        have_room = len(self.changes) <= _LEVELS
        for index, change in enumerate(self.changes):
            (begin, end), level, half = self._span(change), index % self._levels, self._end / 2
            (line,) = axes.plot(
                [begin, end], [level, level], color=canvas.theme.muted, linewidth=2.5, alpha=0.45
            )
            canvas.note(line, change.text)
            canvas.note(canvas.mark(axes, (begin, level), change), change.text)
            side = 1 if begin < half else -1  # the label is beside the span, where there is more room
            label = axes.annotate(
                f"{change.short}, {change.word}" if have_room else f"{change.number}.",
                (end if have_room and end < half else begin, level),
                (6 * side, 0),
                textcoords="offset points",
                ha="left" if side > 0 else "right",
                va="center",
                bbox=box,
            )
            extent = label.get_window_extent()
            if extent.x0 < axes.bbox.x0 or extent.x1 > axes.bbox.x1:  # across its span, up to the edge
                label.xy, label.xyann = (self._end if side > 0 else 0.0, level), (0, 0)
                label.set_horizontalalignment("right" if side > 0 else "left")
        axes.spines[:].set_visible(False)

    def _draw_lanes(self, canvas: Canvas, axes: Axes) -> None:
        names = [lane.name for lane in self.lanes]
        for row, lane in enumerate(self.lanes):
            colour, edge = colour_of(lane.name), "none"
            if lane.name == RUNS:  # a run comprises all other kinds of time
                colour, edge = canvas.theme.grid, canvas.theme.muted
            for bar in lane.bars:
                width = max((bar.end_s - bar.start_s) / self._unit_s, 0.0012 * self._end)  # is visible
                corner = self._at(bar.start_s), row - 0.36
                patch = axes.add_patch(Rectangle(corner, width, 0.72, fc=colour, ec=edge, linewidth=0.6))
                what = bar.label or (f"{bar.count} x {lane.name}" if bar.count > 1 else "")
                text = f"{duration_text(bar.busy_s)} {self._since(bar.start_s)}"
                canvas.note(patch, f"{what}: {text}" if what else text)
        if self.report.disruptions:
            names.append("disruptions")
        for each in self.report.disruptions[:BARS]:
            at = self._at(each.time_s), len(names) - 1
            (mark,) = axes.plot(*at, "X", color=canvas.theme.ink, markersize=6, clip_on=False)
            canvas.note(mark, f"{each.what}, {self._since(each.time_s)}")
        for row in range(0, len(names), 2):
            axes.axhspan(row - 0.5, row + 0.5, color=canvas.theme.grid, alpha=0.35, linewidth=0, zorder=0)
        name_rows(axes, names)

    def _draw_costs(self, canvas: Canvas, axes: Axes) -> None:
        """Draw a bar for each checkpoint where it began, by part."""
        costs = self.report.costs
        ats = np.array([self._at(cost.time_s) for cost in costs])
        gaps = np.diff(ats)
        gap = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else self._end / 20
        width = min(0.7 * gap, self._end / 40)
        floor = np.zeros(len(costs))
        least_s = _LEAST_SHARE * sum(cost.cost_s for cost in costs)
        for part in costs[0].parts:
            heights = np.array([cost.parts[part] for cost in costs])
            if heights.sum() < least_s:
                continue
            colour = colour_of(part)
            bars = axes.bar(
                ats, heights, width, bottom=floor, color=colour, label=part, align="edge", linewidth=0
            )
            for bar, cost, height in zip(bars, costs, heights, strict=True):
                if height > 0:
                    which = f"checkpoint {cost.dataset}"
                    which += f" and {cost.count - 1} more, each" if cost.count > 1 else ""
                    text = f"{part} {duration_text(height)} of {duration_text(cost.cost_s)}"
                    canvas.note(bar, f"{which}: {text}")
            floor = floor + heights
        _duration_axis(axes, 1.35 * float(floor.max() or 1.0))
        legend(axes, 6)

    def _draw_steps(self, canvas: Canvas, axes: Axes) -> None:
        steps, colour = self.report.steps, colour_of(PRODUCTIVE)
        if steps is None:
            return
        top_s = 1.5 * max(*(point.high_s for point in steps.points), steps.summary.ideal_s, 1e-9)
        ats = np.array([self._at(point.time_s) for point in steps.points])
        most = np.minimum([point.most_s for point in steps.points], top_s)
        if any(point.count > 1 for point in steps.points):
            _draw_quantiles(axes, steps, ats)
            label = "longest, as far as it fits"
            axes.plot(ats, most, ".", color=canvas.theme.muted, markersize=1.6, label=label)
        else:
            axes.plot(ats, most, ".", color=colour, markersize=2.5, label="a step")
        ideal = f"ideal: {seconds_text(steps.summary.ideal_s)}"
        axes.axhline(steps.summary.ideal_s, color=canvas.theme.ink, linewidth=0.8, label=ideal)
        _duration_axis(axes, 1.3 * top_s)
        legend(axes, 4)


def _ticks(most_s: float) -> Callable[[float, float], str]:
    """Return the formatter of an axis of durations up to `most_s`."""
    if most_s < 1:
        return lambda value, _: f"{1000 * value:g} ms"
    return lambda value, _: f"{value:g} s"


def _draw_quantiles(axes: Axes, steps: Steps, ats: NDArray[np.float64]) -> None:
    colour = colour_of(PRODUCTIVE)
    low, middle, high = np.array([(each.low_s, each.median_s, each.high_s) for each in steps.points]).T
    gap = np.diff(ats, append=ats[-1])
    pause = gap > _PAUSE * float(np.median(gap))  # no line from one run to the next
    label = "5 to 95 % of neighbours"
    axes.fill_between(ats, low, high, where=~pause, color=colour, alpha=0.3, linewidth=0, label=label)
    axes.plot(ats, np.where(pause, np.nan, middle), color=colour, linewidth=0.9, label="median")


def _duration_axis(axes: Axes, most_s: float) -> None:
    axes.set_ylim(0, most_s)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(_ticks(most_s))
    axes.grid(visible=True, axis="y")
