"""The figure of a report that has everything on one axis of time."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Rectangle

from ...goodput.report import CostPoint, Report, Steps
from ...goodput.report_lanes import BARS, RUNS, Lane
from ...units import duration_text, seconds_text
from ..text.show import printable
from .changes import Change
from .drawing import (
    LEAST_SHARE,
    WIDTH,
    Axis,
    Notes,
    edge_name,
    legend,
    name_rows,
    seconds_axis,
)
from .labels import SIZE, Bar, Label, placed
from .theme import GROUP_COLOURS, GROUPS, VERDICTS, Theme, colour_of, group_of

_LANES = 12
_LANE = 0.165
_LEVEL = 0.165
_LEFT, _RIGHT = 0.15, 0.985
_TOP, _BOTTOM = 0.3, 0.42
_GAP = 0.1
_LEAST_PERCENT = 0.5
_PAUSE = 5


def lanes_shown(report: Report) -> Sequence[Lane]:
    """The lanes there is room for, without those in which next to nothing was spent."""
    least_s = 2e-4 * report.account.wall_s
    lanes = [lane for lane in report.lanes if sum(bar.busy_s for bar in lane.bars) >= least_s]
    return lanes[: _LANES - bool(report.disruptions)]


class Timeline:
    """What there is to draw: `report` and `changes`, with the changes' labels where there is room."""

    def __init__(self, report: Report, changes: Sequence[Change]) -> None:
        self.report, self.axis = report, Axis(report)
        self.changes = [change for change in changes if change.is_made]
        self.labels = _labels(self.changes, self.axis)
        self.lanes = lanes_shown(report)
        self.heights = self._heights()

    def _heights(self) -> dict[str, float]:
        """Of each row, in inches: all of them fit on a page of A4 across, whatever there is."""
        rows = {"account": 1.0}
        if self.changes:
            rows["changes"] = 0.12 + _LEVEL * max(2, 1 + max(label.level for label in self.labels))
        rows["lanes"] = _LANE * (len(self.lanes) + bool(self.report.disruptions)) + 0.05
        if self.report.costs:
            rows["costs"] = 1.0
        if self.report.steps is not None:
            rows["steps"] = 0.9
        return rows

    @property
    def height(self) -> float:
        """Of the figure, in inches."""
        return sum(self.heights.values()) + _GAP * (len(self.heights) - 1) + _TOP + _BOTTOM

    @property
    def is_abridged(self) -> bool:
        """Whether there is no room for all that the labels of the changes might say."""
        labelled = zip(self.labels, self.changes, strict=True)
        return any(label.text != _label(change) for label, change in labelled)

    def draw(self, figure: FigureBase, notes: Notes, theme: Theme) -> None:
        """Everything on one axis of time."""
        draw: dict[str, Callable[[Axes], None]] = {
            "account": lambda axes: _account(axes, self.report, self.axis),
            "changes": lambda axes: _changes(axes, self, notes, theme),
            "lanes": lambda axes: _lanes(axes, self, notes, theme),
            "costs": lambda axes: _costs(axes, self.report.costs, self.axis, notes),
            "steps": lambda axes: _step_times(axes, self.report.steps, self.axis, theme),
        }
        rows: dict[str, Axes] = {}
        top = self.height - _TOP
        for name, height in self.heights.items():
            place = (_LEFT, (top - height) / self.height, _RIGHT - _LEFT, height / self.height)
            rows[name] = figure.add_axes(place)
            top -= height + _GAP
        last = list(rows)[-1]
        for name, axes in rows.items():
            draw[name](axes)
            axes.set_xlim(0, self.axis.end)
            axes.tick_params(axis="x", labelbottom=name == last, length=3 if name == last else 0)
            for change in self.changes:
                at = self.axis.at(change.time_s)
                axes.axvline(at, color=theme.muted, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0.5)
        rows[last].set_xlabel(f"{self.axis.unit} since the job began")


def _title_left(axes: Axes, text: str) -> None:
    axes.set_ylabel(text, rotation=0, ha="right", va="center", labelpad=6)
    axes.yaxis.set_label_coords(-0.068, 0.5)


def _account(axes: Axes, report: Report, axis: Axis) -> None:
    edges = [axis.at(window.start_s) for window in report.slices] + [axis.end]
    shares = {name: np.zeros(len(report.slices)) for name in GROUPS}
    for index, window in enumerate(report.slices):
        for bucket, spent_s in window.buckets.items():
            shares[group_of(bucket)][index] += 100 * spent_s / window.wall_s if window.wall_s else 0.0
    floor = np.zeros(len(report.slices))
    for name, share in shares.items():
        if share.max(initial=0.0) >= _LEAST_PERCENT:
            axes.stairs(
                floor + share,
                edges,
                baseline=floor,
                fill=True,
                color=GROUP_COLOURS[name],
                label=f"{name} (estimated, spread over the steps)" if name == "slowdown" else name,
                linewidth=0,
            )
            floor = floor + share
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    _title_left(axes, "where the\ntime went")
    legend(
        axes, loc="lower left", bbox_to_anchor=(-0.005, 0.99), ncols=10, handlelength=1.0, columnspacing=1.2
    )


def _label(change: Change) -> str:
    return f"{change.short}, {VERDICTS[change.verdict][0]}"


def _labels(changes: Sequence[Change], axis: Axis) -> list[Label]:
    """Where the changes' labels stand, in inches."""
    inches = (_RIGHT - _LEFT) * WIDTH

    def at(time_s: float) -> float:
        return inches * axis.at(time_s) / axis.end

    bars = [
        Bar(
            at(change.time_s),
            at(change.time_s if change.until_s is None else change.until_s),
            (_label(change), change.name, f"{change.number}."),
        )
        for change in changes
    ]
    return placed(bars, inches)


def _changes(axes: Axes, timeline: Timeline, notes: Notes, theme: Theme) -> None:
    axis, inches = timeline.axis, (_RIGHT - _LEFT) * WIDTH
    axes.set_ylim(timeline.heights["changes"] / _LEVEL - 0.6, -0.6)
    axes.set_yticks([])
    _title_left(axes, "changes of\nthe tuner")
    for change, label in zip(timeline.changes, timeline.labels, strict=True):
        _, shape, is_filled = VERDICTS[change.verdict]
        at, level = axis.at(change.time_s), label.level
        if change.until_s is not None:
            end = axis.at(change.until_s)
            (line,) = axes.plot([at, end], [level, level], color=theme.muted, linewidth=2.5, alpha=0.45)
            notes.on(line, change.text)
        fill = theme.ink if is_filled else theme.paper
        (marker,) = axes.plot(
            [at], [level], shape, mec=theme.ink, mfc=fill, mew=0.9, markersize=5, clip_on=False
        )
        notes.on(marker, change.text)
        if label.text:
            axes.text(
                label.begin / inches * axis.end,
                level,
                label.text,
                va="center_baseline",
                fontsize=SIZE,
                bbox={"boxstyle": "square,pad=0.1", "fc": theme.paper, "ec": "none", "alpha": 0.8},
            )
    axes.spines[:].set_visible(False)


def _lanes(axes: Axes, timeline: Timeline, notes: Notes, theme: Theme) -> None:
    report, axis = timeline.report, timeline.axis
    names = [edge_name(lane.name) for lane in timeline.lanes]
    least = 0.0012 * axis.end  # what is shorter would not be seen
    for row, lane in enumerate(timeline.lanes):
        colour, edge = colour_of(lane.name), "none"
        if lane.name == RUNS:  # all of the time, whatever it went into
            colour, edge = theme.grid, theme.muted
        for bar in lane.bars:
            width = max(axis.length(bar.end_s - bar.start_s), least)
            patch = Rectangle(
                (axis.at(bar.start_s), row - 0.36), width, 0.72, fc=colour, ec=edge, linewidth=0.6
            )
            axes.add_patch(patch)
            what = f"{bar.label}: " if bar.label else f"{bar.count} x {lane.name}: " if bar.count > 1 else ""
            notes.on(
                patch,
                f"{printable(what)}{duration_text(bar.busy_s)} at "
                f"{duration_text(bar.start_s - report.start_s)}",
            )
    if report.disruptions:
        names.append("disruptions")
        for each in report.disruptions[:BARS]:
            at = [axis.at(each.time_s)]
            (mark,) = axes.plot(at, [len(names) - 1], "X", color=theme.ink, markersize=6, clip_on=False)
            notes.on(mark, f"{printable(each.what)}, at {duration_text(each.time_s - report.start_s)}")
    for row in range(0, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color=theme.grid, alpha=0.35, linewidth=0, zorder=0)
    name_rows(axes, names)


def _costs(axes: Axes, costs: Sequence[CostPoint], axis: Axis, notes: Notes) -> None:
    """A bar for each checkpoint, where it was done, by level."""
    ats = np.array([axis.at(cost.time_s) for cost in costs])
    gaps = np.diff(ats)
    gap = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else axis.end / 20
    width = min(0.7 * gap, axis.end / 40)
    floor = np.zeros(len(costs))
    all_s = sum(cost.cost_s for cost in costs)
    for part in costs[0].parts:
        heights = np.array([cost.parts[part] for cost in costs])
        if heights.sum() < LEAST_SHARE * all_s:
            continue
        bars = axes.bar(
            ats, heights, width, bottom=floor, color=colour_of(part), label=part, align="edge", linewidth=0
        )
        for bar, cost, height in zip(bars, costs, heights, strict=True):
            if height > 0:
                which = f"checkpoint {cost.dataset}"
                which += f" and {cost.count - 1} more, each" if cost.count > 1 else ""
                notes.on(bar, f"{which}: {part} {duration_text(height)} of {duration_text(cost.cost_s)}")
        floor = floor + heights
    axes.set_ylim(0, 1.35 * float(floor.max() or 1.0))
    seconds_axis(axes)
    _title_left(axes, "what a\ncheckpoint\ncosts")
    legend(axes, loc="upper right", ncols=6, handlelength=1.0, columnspacing=1.2)


def _step_times(axes: Axes, steps: Steps | None, axis: Axis, theme: Theme) -> None:
    if steps is None:
        return
    colour = GROUP_COLOURS["productive"]
    top_s = 1.5 * max(*(point.high_s for point in steps.points), steps.ideal_s, 1e-9)
    ats = np.array([axis.at(point.time_s) for point in steps.points])
    most = np.minimum([point.most_s for point in steps.points], top_s)
    if any(point.count > 1 for point in steps.points):
        low, middle, high = (
            np.array([getattr(point, name) for point in steps.points])
            for name in ("low_s", "median_s", "high_s")
        )
        gap = np.diff(ats, append=ats[-1])
        pause = gap > _PAUSE * float(np.median(gap))  # no line from one run to the next
        band = axes.fill_between(ats, low, high, where=~pause, color=colour, alpha=0.3, linewidth=0)
        band.set_label("5 to 95 % of neighbours")
        axes.plot(ats, np.where(pause, np.nan, middle), color=colour, linewidth=0.9, label="median")
        axes.plot(ats, most, ".", color=theme.muted, markersize=1.6, label="longest, as far as it fits")
    else:
        axes.plot(ats, most, ".", color=colour, markersize=2.5, label="a step")
    ideal = f"ideal: {seconds_text(steps.ideal_s)}"
    axes.axhline(steps.ideal_s, color=theme.ink, linewidth=0.8, label=ideal)
    axes.set_ylim(0, 1.3 * top_s)
    seconds_axis(axes)
    _title_left(axes, "what a\nstep took")
    legend(axes, loc="upper right", ncols=4, handlelength=1.2, columnspacing=1.2)
