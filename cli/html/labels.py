"""Where labels of what happened stand beside each other, so that none lies on another."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

SIZE = 7.0
"""Of the labels, in points."""
LEVELS = 8
"""Most lines that labels may stand on: with more, a figure would not fit on a page."""
_POINTS_PER_INCH = 72.0
_HINTED = 1.06
"""A renderer rounds the width of each letter to whole dots."""
_MARKER = 0.05
_GAP = 0.08


class Bar(NamedTuple):
    """What a label is about, in inches from the left edge; and its texts, best first, shortest last."""

    begin: float
    end: float
    texts: tuple[str, ...]


class Label(NamedTuple):
    """A text (none, where there is no room), on which level, and how many inches from the left it begins."""

    level: int
    begin: float
    text: str


def width_of(text: str) -> float:
    """How wide `text` is at most, in inches."""
    font = FontProperties(family="DejaVu Sans", size=SIZE)
    points, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return _HINTED * float(points) / _POINTS_PER_INCH


def placed(bars: Sequence[Bar], width: float) -> list[Label]:
    """A label for each bar, in a figure `width` inches wide.

    It stands behind its bar, or else before it, on the first level that is free there. Where the best texts
    take more than :data:`LEVELS`, all have shorter ones; where these do so, too, there are none.
    """
    for texts in zip(*(bar.texts for bar in bars), strict=True):
        labels = _placed(bars, texts, width)
        if all(label.level < LEVELS for label in labels):
            return labels
    return [Label(index % LEVELS, bar.end, "") for index, bar in enumerate(bars)]


def _placed(bars: Sequence[Bar], texts: Sequence[str], width: float) -> list[Label]:
    taken: list[list[tuple[float, float]]] = []
    labels = []
    for bar, text in zip(bars, texts, strict=True):
        length = width_of(text)
        begins = _begins(bar, length, width)
        level, begin = next(
            (
                (level, begin)
                for level, there in enumerate(taken)
                for begin in begins
                if not any(_meet(_extent(bar, begin, length), other) for other in there)
            ),
            (len(taken), begins[0]),
        )
        if level == len(taken):
            taken.append([])
        taken[level].append(_extent(bar, begin, length))
        labels.append(Label(level, begin, text))
    return labels


def _begins(bar: Bar, length: float, width: float) -> list[float]:
    """Where its label may begin, the best place first; over the bar, where there is no room beside it."""
    behind, before = bar.end + _GAP, bar.begin - _GAP - length
    beside = [begin for begin in (behind, before) if begin >= 0 and begin + length <= width]
    return beside or [max(0.0, width - length)]


def _extent(bar: Bar, begin: float, length: float) -> tuple[float, float]:
    return min(bar.begin - _MARKER, begin), max(bar.end + _MARKER, begin + length)


def _meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] + _GAP and other[0] < one[1] + _GAP
