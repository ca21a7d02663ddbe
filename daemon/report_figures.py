"""The figures of a report, drawn with matplotlib: each function draws one, on a figure or a part of one.

What a bar stands for is noted by the id of its artist (:class:`Notes`): SVG shows it as a tooltip.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ..goodput.report import CostPoint, Report, Steps
from ..goodput.report_lanes import BARS, Lane
from . import show
from .check_command import printable
from .report_changes import Change
from .report_theme import GROUP_COLOURS, GROUPS, LANE_COLOURS, OTHER_LANE, VERDICTS, Theme, group_of

_UNITS = ((2 * 86_400.0, 86_400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"))
_LANES = 20
_LABELLED = 14
_LEAST_SHARE = 0.0005
_LEVELS = 3
_PAUSE = 5
_NAME = 24
_LEAST_PERCENT = 0.5
_STRAGGLERS = 3


class Notes:
    """Tooltips by the id of what they are about."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def on(self, artist: Any, text: str) -> None:
        """Note `text` on `artist`."""
        artist.set_gid(name := f"n{len(self.texts)}")
        self.texts[name] = text


class Axis:
    """Seconds since the job began, in the unit that suits its length."""

    def __init__(self, report: Report) -> None:
        self.start_s, self.wall_s = report.start_s, max(report.account.wall_s, 1e-9)
        self.unit_s, self.unit = next(
            ((unit_s, unit) for least_s, unit_s, unit in _UNITS if self.wall_s >= least_s), (1.0, "seconds")
        )

    def at(self, time_s: float) -> float:
        """Where `time_s` (epoch seconds) lies."""
        return (time_s - self.start_s) / self.unit_s

    def length(self, seconds: float) -> float:
        """How long `seconds` are."""
        return seconds / self.unit_s

    @property
    def end(self) -> float:
        """Where the job ends."""
        return self.wall_s / self.unit_s


def duration(seconds: float) -> str:
    """A duration as people read it."""
    if abs(seconds) < 120:  # noqa: PLR2004 - two minutes
        return f"{'-' if seconds < 0 else ''}{show.seconds(abs(seconds))}"
    minutes, rest = divmod(round(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
    return f"-{text}" if seconds < 0 else text


def _name(text: str) -> str:
    """A name of ours or the user's, for the edge of a figure."""
    text = printable(text).replace("_", " ").removeprefix("custom:")
    return text if len(text) <= _NAME else text[: _NAME - 1] + "…"


def lanes_shown(report: Report) -> Sequence[Lane]:
    """The lanes there is room for, without those in which next to nothing was spent."""
    least_s = 2e-4 * report.account.wall_s
    return [lane for lane in report.lanes if sum(bar.busy_s for bar in lane.bars) >= least_s][:_LANES]


def timeline_height(report: Report, changes: Sequence[Change]) -> float:
    """Height of :func:`timeline` in inches."""
    return sum(_heights(report, changes).values()) + 1.0


def _heights(report: Report, changes: Sequence[Change]) -> dict[str, float]:
    rows = {"account": 1.3}
    if changes:
        rows["changes"] = 0.85
    rows["lanes"] = 0.19 * (len(lanes_shown(report)) + bool(report.disruptions)) + 0.1
    if report.costs:
        rows["costs"] = 1.25
    if report.steps is not None:
        rows["steps"] = 1.1
    return rows


def timeline(
    figure: FigureBase, notes: Notes, theme: Theme, *, report: Report, changes: Sequence[Change]
) -> None:
    """Everything on one axis of time."""
    heights = _heights(report, changes)
    axis = Axis(report)
    grid = figure.add_gridspec(
        len(heights), 1, height_ratios=list(heights.values()), left=0.135, right=0.985, hspace=0.16
    )
    total = sum(heights.values()) + 1.0
    grid.update(top=1 - 0.42 / total, bottom=0.42 / total)
    rows = dict(zip(heights, grid.subplots(sharex=True, squeeze=False)[:, 0], strict=True))
    draw = {
        "account": lambda axes: _account(axes, report, axis),
        "changes": lambda axes: _changes(axes, changes, axis, notes, theme),
        "lanes": lambda axes: _lanes(axes, report, axis, notes, theme),
        "costs": lambda axes: _costs(axes, report.costs, axis, notes),
        "steps": lambda axes: _step_times(axes, report.steps, axis),
    }
    for name, axes in rows.items():
        draw[name](axes)
        axes.set_xlim(0, axis.end)
        axes.tick_params(axis="x", labelbottom=name == list(rows)[-1])
        for change in changes:
            if change.is_made:
                axes.axvline(
                    axis.at(change.time_s),
                    color=theme.muted,
                    linewidth=0.5,
                    linestyle=(0, (2, 2)),
                    zorder=0.5,
                )
    list(rows.values())[-1].set_xlabel(f"{axis.unit} since the job began")


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
                label=name,
                linewidth=0,
            )
            floor = floor + share
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    _title_left(axes, "where the\ntime went")
    _legend(
        axes, loc="lower left", bbox_to_anchor=(-0.005, 1.0), ncols=9, handlelength=1.0, columnspacing=1.2
    )


def _legend(axes: Axes, **where: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**where)


def _title_left(axes: Axes, text: str) -> None:
    axes.set_ylabel(text, rotation=0, ha="right", va="center", labelpad=6)
    axes.yaxis.set_label_coords(-0.055, 0.5)


def _changes(axes: Axes, changes: Sequence[Change], axis: Axis, notes: Notes, theme: Theme) -> None:
    axes.set_ylim(_LEVELS - 0.4, -0.6)
    axes.set_yticks([])
    _title_left(axes, "changes of\nthe tuner")
    made = [change for change in changes if change.is_made]
    for number, change in enumerate(made):
        word, shape, colour = VERDICTS[change.verdict]
        level, at = number % _LEVELS, axis.at(change.time_s)
        end = at if change.until_s is None else axis.at(change.until_s)
        if change.until_s is not None:
            (line,) = axes.plot([at, end], [level, level], color=colour, linewidth=3, alpha=0.4)
            notes.on(line, change.text)
        (marker,) = axes.plot([at], [level], shape, color=colour, markersize=5)
        notes.on(marker, change.text)
        if len(made) <= _LABELLED:
            late = end > 0.7 * axis.end  # there the text would leave the figure
            axes.annotate(
                f"{change.short}, {word}",
                (at if late else end, level),
                xytext=(-5 if late else 5, 0),
                textcoords="offset points",
                ha="right" if late else "left",
                va="center",
                fontsize=6.5,
                bbox={"boxstyle": "square,pad=0.1", "fc": theme.paper, "ec": "none", "alpha": 0.75},
            )
    axes.spines[:].set_visible(False)


def _lanes(axes: Axes, report: Report, axis: Axis, notes: Notes, theme: Theme) -> None:
    lanes = lanes_shown(report)
    names = [_name(lane.name) for lane in lanes]
    least = 0.0012 * axis.end  # what is shorter would not be seen
    for row, lane in enumerate(lanes):
        colour = LANE_COLOURS.get(lane.name, OTHER_LANE)
        for bar in lane.bars:
            width = max(axis.length(bar.end_s - bar.start_s), least)
            patch = Rectangle((axis.at(bar.start_s), row - 0.36), width, 0.72, color=colour, linewidth=0)
            axes.add_patch(patch)
            what = f"{bar.label}: " if bar.label else f"{bar.count} x {lane.name}: " if bar.count > 1 else ""
            notes.on(
                patch, f"{printable(what)}{duration(bar.busy_s)} at {duration(bar.start_s - report.start_s)}"
            )
    if report.disruptions:
        names.append("disruptions")
        for each in report.disruptions[:BARS]:
            (mark,) = axes.plot(
                [axis.at(each.time_s)], [len(lanes)], "X", color="#d55e00", markersize=6, clip_on=False
            )
            notes.on(mark, f"{printable(each.what)}, at {duration(each.time_s - report.start_s)}")
    for row in range(0, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color=theme.grid, alpha=0.35, linewidth=0, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)


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
        if heights.sum() < _LEAST_SHARE * all_s:
            continue
        bars = axes.bar(
            ats,
            heights,
            width,
            bottom=floor,
            color=LANE_COLOURS[part],
            label=part,
            align="edge",
            linewidth=0,
        )
        for bar, cost, height in zip(bars, costs, heights, strict=True):
            if height > 0:
                which = f"checkpoint {cost.dataset}" + (
                    f" and {cost.count - 1} more, each" if cost.count > 1 else ""
                )
                notes.on(bar, f"{which}: {part} {duration(height)} of {duration(cost.cost_s)}")
        floor = floor + heights
    axes.set_ylim(0, 1.35 * float(floor.max() or 1.0))
    _seconds_axis(axes)
    _title_left(axes, "what a\ncheckpoint\ncosts")
    _legend(axes, loc="upper right", ncols=6, handlelength=1.0, columnspacing=1.2)


def _seconds_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    axes.grid(visible=True, axis="y")


def _step_times(axes: Axes, steps: Steps | None, axis: Axis) -> None:
    if steps is None:
        return
    colour = LANE_COLOURS["steps"]
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
        axes.fill_between(
            ats,
            low,
            high,
            where=~pause,
            color=colour,
            alpha=0.3,
            linewidth=0,
            label="5 to 95 % of neighbours",
        )
        axes.plot(ats, np.where(pause, np.nan, middle), color=colour, linewidth=0.9, label="median")
        axes.plot(ats, most, ".", color=OTHER_LANE, markersize=1.6, label="longest, as far as it fits")
    else:
        axes.plot(ats, most, ".", color=colour, markersize=2.5, label="a step")
    axes.axhline(steps.ideal_s, color="#d55e00", linewidth=0.8, label=f"ideal: {show.seconds(steps.ideal_s)}")
    axes.set_ylim(0, 1.3 * top_s)
    _seconds_axis(axes)
    _title_left(axes, "what a\nstep took")
    _legend(axes, loc="upper right", ncols=4, handlelength=1.2, columnspacing=1.2)


def waterfall(figure: FigureBase, notes: Notes, _theme: Theme, *, report: Report) -> None:
    """From the wall time down to what was productive, one bucket after the other, largest first."""
    account = report.account
    wall_s = account.wall_s or 1.0
    lost = [(name, spent) for name, spent in account.buckets.items() if name != "productive" and spent > 0]
    lost = sorted((each for each in lost if each[1] >= _LEAST_SHARE * wall_s), key=lambda each: -each[1])
    rest = account.wall_s - account.buckets["productive"] - sum(spent for _, spent in lost)
    if rest >= _LEAST_SHARE * wall_s:
        lost.append(("all the rest", rest))
    axes = figure.add_axes((0.24, 0.1, 0.74, 0.88))
    names = ["wall time", *(name for name, _ in lost), "productive"]
    left_s = account.wall_s
    bars = [(0.0, left_s, LANE_COLOURS["runs"])]
    for name, spent_s in lost:
        left_s -= spent_s
        bars.append((left_s, spent_s, GROUP_COLOURS[group_of(name)]))
    _bars(axes, [*bars, (0.0, account.buckets["productive"], GROUP_COLOURS["productive"])], wall_s, notes)
    axes.set_yticks(range(len(names)), [_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 140)
    axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)


def _bars(axes: Axes, bars: Sequence[tuple[float, float, str]], wall_s: float, notes: Notes) -> None:
    """Start and length in seconds, and colour, of each row."""
    for row, (start_s, length_s, colour) in enumerate(bars):
        start, share = 100 * start_s / wall_s, 100 * length_s / wall_s
        (bar,) = axes.barh([row], [max(share, 0.1)], 0.7, left=[start], color=colour, linewidth=0)
        text = f"{duration(length_s)}, {share:.1f} %"
        notes.on(bar, text)
        axes.text(start + share + 0.8, row, text, va="center", fontsize=7)


def waterfall_height(report: Report) -> float:
    """Height of :func:`waterfall` in inches."""
    wall_s = report.account.wall_s
    return 0.7 + 0.21 * (
        2 + sum(spent >= _LEAST_SHARE * wall_s > 0 for spent in report.account.buckets.values())
    )


def distribution(figure: FigureBase, notes: Notes, _theme: Theme, *, steps: Steps) -> None:
    """How long steps took."""
    axes = figure.add_axes((0.11, 0.1, 0.86, 0.88))
    for (low, high), height in zip(pairwise(steps.bins), steps.heights, strict=True):
        if height:
            patch = Rectangle((low, 0), high - low, height, color=LANE_COLOURS["steps"], linewidth=0)
            axes.add_patch(patch)
            notes.on(patch, f"{height} steps of {show.seconds(low)} to {show.seconds(high)}")
    marks = {
        "ideal": (steps.ideal_s, "-"),
        "median": (steps.percentiles_s[50], "--"),
        "95 % below": (steps.percentiles_s[95], ":"),
    }
    for (name, (at, dashes)), colour in zip(marks.items(), ("#d55e00", "#0072b2", "#8c4fb3"), strict=True):
        axes.axvline(at, color=colour, linestyle=dashes, linewidth=1.2, label=f"{name}: {show.seconds(at)}")
    for each in steps.stragglers[:_STRAGGLERS]:
        at, text = min(each.took_s, steps.bins[-1]), f"{_name(each.writer)}: {each.ratio:.2f} x the others"
        (mark,) = axes.plot([at], [0], "^", color="#d55e00", markersize=8, clip_on=False, label=text)
        notes.on(mark, f"straggler {text}: {show.seconds(each.took_s)} a step")
    if steps.beyond:
        axes.plot([], [], " ", label=f"{steps.beyond:,} longer: up to {duration(steps.most_s)}")
    axes.set_xlim(min(steps.bins[0], 0.98 * steps.ideal_s), steps.bins[-1])
    axes.set_ylim(0, 1.3 * max(steps.heights))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    axes.set_ylabel("steps")
    axes.grid(visible=True, axis="y")
    _legend(axes, loc="upper right")


def gains(figure: FigureBase, notes: Notes, theme: Theme, *, changes: Sequence[Change]) -> None:
    """What each change saves a checkpoint, with its 90 % interval."""
    height = gains_height(len(changes))
    axes = figure.add_axes((0.3, 0.45 / height, 0.67, 1 - 0.5 / height))
    for row, change in enumerate(changes):
        found = change.gain
        if found is None:
            continue
        word, shape, colour = VERDICTS[change.verdict]
        axes.plot([found.low_s, found.high_s], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
        (mark,) = axes.plot([found.saved_s], [row], shape, color=colour, markersize=6)
        notes.on(mark, f"{change.text}; {word}")
    axes.axvline(0, color=theme.muted, linewidth=0.8)
    words = [f"{change.rule} - {VERDICTS[change.verdict][0]}" for change in changes]
    axes.set_yticks(range(len(changes)), words)
    axes.set_ylim(len(changes) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    axes.set_xlabel("saved a checkpoint (left of 0: lost), with the 90 % interval")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)


def gains_height(changes: int) -> float:
    """Height of :func:`gains` in inches."""
    return 0.65 + 0.24 * changes
