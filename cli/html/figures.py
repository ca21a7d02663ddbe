"""The smaller figures of a report, drawn with matplotlib: each function draws one, on (a part of) a figure.

What a bar stands for is noted by the id of its artist (:class:`.report_drawing.Notes`): SVG shows it as a
tooltip.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ...goodput.buckets import PRODUCTIVE
from ...goodput.report import Report, Steps
from ...units import count_text, duration_text, seconds_text
from .changes import Change
from .drawing import LEAST_SHARE, Notes, edge_name, legend, name_rows, ticks
from .theme import GROUP_COLOURS, VERDICTS, Theme, colour_of

_BUCKETS = 16
_REST = "all the rest"
_STRAGGLERS = 3
_GAINS = 24


def waterfall(figure: FigureBase, notes: Notes, theme: Theme, *, report: Report) -> None:
    """From the wall time down to what was productive, one bucket after the other, largest first."""
    account = report.account
    height = waterfall_height(report)
    axes = figure.add_axes((0.3, 0.3 / height, 0.68, 1 - 0.35 / height))
    wall_s = account.wall_s or 1.0
    names, left_s = ["wall time"], account.wall_s
    _bar(axes, notes, (0.0, left_s), wall_s, fc=theme.grid, ec=theme.muted, linewidth=0.6)
    for name, spent_s in _lost(report):
        left_s -= spent_s
        names.append(edge_name(name))
        colour = theme.muted if name == _REST else colour_of(name)
        _bar(axes, notes, (left_s, spent_s), wall_s, row=len(names) - 1, color=colour, linewidth=0)
    colour = GROUP_COLOURS["productive"]
    _bar(axes, notes, (0.0, account.buckets[PRODUCTIVE]), wall_s, row=len(names), color=colour, linewidth=0)
    name_rows(axes, [*names, PRODUCTIVE])
    axes.set_xlim(0, 136)
    axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(visible=True, axis="x")


def _lost(report: Report) -> list[tuple[str, float]]:
    """The buckets that the waterfall has rows for, and the rest, if it would be seen."""
    account = report.account
    least_s = LEAST_SHARE * account.wall_s
    told = sorted(account.buckets.items(), key=lambda each: -each[1])
    lost = [(name, spent_s) for name, spent_s in told if name != PRODUCTIVE and 0 < spent_s >= least_s]
    lost = lost[:_BUCKETS]
    rest_s = account.wall_s - account.buckets[PRODUCTIVE] - sum(spent_s for _, spent_s in lost)
    return [*lost, (_REST, rest_s)] if rest_s >= least_s > 0 else lost


def _bar(
    axes: Axes, notes: Notes, span_s: tuple[float, float], wall_s: float, *, row: int = 0, **style: Any
) -> None:
    """Where it starts and how long it is, in seconds."""
    start, share = (100 * each / wall_s for each in span_s)
    (bar,) = axes.barh([row], [max(share, 0.1)], 0.7, left=[start], **style)
    text = f"{duration_text(span_s[1])}, {share:.1f} %"
    notes.on(bar, text)
    axes.text(start + share + 1.2, row, text, va="center", fontsize=7)


def waterfall_height(report: Report) -> float:
    """Height of :func:`waterfall` in inches."""
    return max(2.2, 0.45 + 0.22 * (2 + len(_lost(report))))


def distribution(figure: FigureBase, notes: Notes, theme: Theme, *, steps: Steps) -> None:
    """How long steps took."""
    axes = figure.add_axes((0.11, 0.12, 0.86, 0.86))
    for (low, high), height in zip(pairwise(steps.bins), steps.heights, strict=True):
        if height:
            colour = GROUP_COLOURS["productive"]
            patch = Rectangle((low, 0), high - low, height, color=colour, linewidth=0)
            axes.add_patch(patch)
            notes.on(patch, f"{count_text(height, 'step')} of {seconds_text(low)} to {seconds_text(high)}")
    marks = {
        "ideal": (steps.ideal_s, "-"),
        "median": (steps.percentiles_s[50], "--"),
        "95 % below": (steps.percentiles_s[95], ":"),
    }
    for name, (at, dashes) in marks.items():
        label = f"{name}: {seconds_text(at)}"
        axes.axvline(at, color=theme.ink, linestyle=dashes, linewidth=1.0, label=label)
    for each in steps.stragglers[:_STRAGGLERS]:
        text = f"{edge_name(each.writer)}: {each.ratio:.2f} x the others"
        at = min(each.took_s, steps.bins[-1])
        (mark,) = axes.plot([at], [0], "^", color=theme.ink, markersize=8, clip_on=False, label=text)
        notes.on(mark, f"straggler {text}: {seconds_text(each.took_s)} a step")
    if steps.beyond:
        axes.plot([], [], " ", label=f"{steps.beyond:,} longer: up to {duration_text(steps.most_s)}")
    axes.set_xlim(min(steps.bins[0], 0.98 * steps.ideal_s), steps.bins[-1])
    axes.set_ylim(0, 1.15 * max(steps.heights))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(ticks(steps.bins[-1]))
    axes.set_ylabel("steps")
    axes.grid(visible=True, axis="y")
    legend(axes, loc="upper right")


def gains_shown(changes: Sequence[Change]) -> Sequence[Change]:
    """The changes that :func:`gains` has room for: of too many those that saved or cost most."""
    measured = [change for change in changes if change.gain is not None]
    most = sorted(measured, key=lambda change: -abs(change.gain.total_s) if change.gain else 0.0)
    return sorted(most[:_GAINS], key=lambda change: change.number)


def gains(figure: FigureBase, notes: Notes, theme: Theme, *, changes: Sequence[Change]) -> None:
    """What each of `changes` saves a checkpoint, with its 90 % interval."""
    height = gains_height(len(changes))
    axes = figure.add_axes((0.3, 0.45 / height, 0.67, 1 - 0.5 / height))
    for row, change in enumerate(changes):
        found = change.gain
        if found is None:
            continue
        word, shape, is_filled = VERDICTS[change.verdict]
        axes.plot(
            [found.low_s, found.high_s], [row, row], color=theme.muted, linewidth=1.4, solid_capstyle="butt"
        )
        fill = theme.ink if is_filled else theme.paper
        (mark,) = axes.plot([found.saved_s], [row], shape, mec=theme.ink, mfc=fill, markersize=6)
        notes.on(mark, f"{change.text}; {word}")
    axes.axvline(0, color=theme.muted, linewidth=0.8)
    name_rows(axes, [f"{change.name}, {VERDICTS[change.verdict][0]}" for change in changes])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    axes.set_xlabel("saved a checkpoint (left of 0: lost), with the 90 % interval")
    axes.grid(visible=True, axis="x")


def gains_height(changes: int) -> float:
    """Height of :func:`gains` in inches."""
    return 0.65 + 0.22 * changes
