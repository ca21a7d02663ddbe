"""Figures of the page of a study, as rectangles and texts of an SVG."""

from math import floor, log10

import msgspec

from ...goodput import buckets as of
from ...goodput.report_lanes import BACKGROUND_FLUSH
from .theme import GROUPS, colour_of

WIDTH, LEFT, RIGHT = 1000.0, 150.0, 70.0
"""Of figures, in units of SVG; the names and the numbers at their edges."""
PLOT = WIDTH - LEFT - RIGHT
LANE = 34.0
_TICKS = 5
_ROOM = 1.03
_NICE = (1, 2, 5, 10)
_NAME_LENGTH = 18

SERIES = {
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


class Bar(msgspec.Struct, frozen=True):
    """A rectangle of a figure with its tooltip, and a text behind it if need be."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    note: str
    text: str = ""
    opacity: float = 1.0


class Label(msgspec.Struct, frozen=True):
    """A text of a figure; `note` is its tooltip."""

    x: float
    y: float
    text: str
    note: str = ""


class StudyFigure(msgspec.Struct, frozen=True):
    """What a figure is drawn from; `ticks` are on the axis at its foot, `series` in its key."""

    title: str
    note: str
    series: tuple[str, ...]
    height: float
    bars: tuple[Bar, ...]
    labels: tuple[Label, ...]
    ticks: tuple[Label, ...]


def axis(longest: float, height: float, unit: str = "s") -> tuple[float, tuple[Label, ...]]:
    """Return what an axis ends at, and its ticks."""
    longest = longest or 1.0
    power = 10.0 ** floor(log10(longest / _TICKS))
    step = next(nice * power for nice in _NICE if nice * power * _TICKS >= longest)
    end = longest * _ROOM
    ticks = [step * number for number in range(_TICKS + 1) if step * number <= end]
    return end, tuple(Label(LEFT + each / end * PLOT, height, f"{each:g} {unit}") for each in ticks)


def lane_name(text: str, middle: float) -> Label:
    """Return the name of a run at the left edge, cut to what has room there."""
    shown = text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
    return Label(LEFT - 8, middle + 4, shown, text)
