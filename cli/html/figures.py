"""Figures of the page of a study, as rectangles and texts of an SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import NamedTuple

from ...goodput import buckets as of
from ...goodput.report_lanes import BACKGROUND_FLUSH
from .theme import GROUPS, colour_of

WIDTH, _LEFT, _RIGHT = 1000.0, 150.0, 70.0
"""Of figures, in units of SVG; the names and the numbers at their edges."""
_PLOT = WIDTH - _LEFT - _RIGHT
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


class Bar(NamedTuple):
    """A rectangle of a figure with its tooltip, and a text behind it if need be."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    note: str
    text: str
    opacity: float


class Label(NamedTuple):
    """A text of a figure; `note` is its tooltip."""

    x: float
    y: float
    text: str
    note: str = ""


@dataclass
class Chart:
    """A figure with a lane for each of `names`, `lane` high, on an axis of seconds up to `longest`.

    `series` are in its key. Names stand `middle` below the upper edge of their lanes. A unit of SVG is
    `unit_s` wide.
    """

    title: str
    note: str
    names: Sequence[str]
    lane: float
    longest: float
    series: Sequence[str] = ()
    middle: float | None = None

    def __post_init__(self) -> None:
        self.height = self.lane * len(self.names)
        below = self.lane / 2 if self.middle is None else self.middle
        self.labels = [_lane_name(name, n * self.lane + below) for n, name in enumerate(self.names)]
        self.bars: list[Bar] = []
        longest = self.longest or 1.0
        power = 10.0 ** floor(log10(longest / _TICKS))
        step = next(nice * power for nice in _NICE if nice * power * _TICKS >= longest)
        self.unit_s = longest * _ROOM / _PLOT
        ticks = [step * number for number in range(_TICKS + 1) if step * number <= longest * _ROOM]
        self.ticks = [Label(_LEFT + each / self.unit_s, self.height, f"{each:g} s") for each in ticks]

    def bar(  # noqa: PLR0913 - as a rectangle has them
        self,
        at: tuple[float, float],
        size: tuple[float, float],
        colour: str,
        note: str,
        *,
        text: str = "",
        opacity: float = 1.0,
    ) -> None:
        """Add a bar: where it begins (s) and its upper edge; how long it is (s), and how high."""
        (start_s, y), (width_s, height) = at, size
        x, width = _LEFT + start_s / self.unit_s, width_s / self.unit_s
        self.bars.append(Bar(x, y, width, height, colour, note, text, opacity))

    def mark(
        self, at: tuple[float, float], size: tuple[float, float], colour: str, note: str, opacity: float = 1.0
    ) -> None:
        """Add a mark: around when (s), and its upper edge; width and height in units."""
        width_s = size[0] * self.unit_s
        self.bar((at[0] - width_s / 2, at[1]), (width_s, size[1]), colour, note, opacity=opacity)


def _lane_name(text: str, middle: float) -> Label:
    """Return the name of a run at the left edge, cut to what has room there."""
    shown = text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
    return Label(_LEFT - 8, middle + 4, shown, text)
