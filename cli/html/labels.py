"""Places for labels beside spans of time, so that no label lies on another label or span."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

SIZE = 7.0
"""Of the labels, in points."""
LEVELS = 8
"""Most lines of labels: with more, the figure would not fit on a page."""
_POINTS_PER_INCH = 72.0
_HINTED = 1.06
"""A renderer rounds the width of each letter to whole dots."""
_MARKER = 0.05
_GAP = 0.08


class LabelledSpan(NamedTuple):
    """A span in inches from the left edge, and its possible labels, best first, shortest last."""

    begin: float
    end: float
    texts: tuple[str, ...]


class Label(NamedTuple):
    """A text (empty if there is no room), its level, and where it begins, in inches from the left edge."""

    level: int
    begin: float
    text: str


def width_of(text: str) -> float:
    """Return the greatest width of `text` in inches."""
    font = FontProperties(family="DejaVu Sans", size=SIZE)
    points, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return _HINTED * float(points) / _POINTS_PER_INCH


def placed(spans: Sequence[LabelledSpan], width: float) -> list[Label]:
    """Return a label for each span, in a figure `width` inches wide.

    A label stands behind its span or before it, on the first level with room. If the best texts need more
    than :data:`LEVELS`, all labels are shortened; if the shortest do so, too, there are none.
    """
    for texts in zip(*(span.texts for span in spans), strict=True):
        taken: list[list[tuple[float, float]]] = [[] for _ in range(LEVELS)]
        labels = [_place(span, text, width, taken) for span, text in zip(spans, texts, strict=True)]
        if all(labels):
            return [label for label in labels if label]
    return [Label(index % LEVELS, span.end, "") for index, span in enumerate(spans)]


def _place(
    span: LabelledSpan, text: str, width: float, taken: Sequence[list[tuple[float, float]]]
) -> Label | None:
    """Return the first free place and mark it as `taken`, a list of extents for each level."""
    length = width_of(text)
    begins = [
        begin
        for begin in (span.end + _GAP, span.begin - _GAP - length)
        if begin >= 0 and begin + length <= width
    ] or [max(0.0, width - length)]  # over the span, if there is no room beside it
    for level, extents in enumerate(taken):
        for begin in begins:
            low, high = min(span.begin - _MARKER, begin), max(span.end + _MARKER, begin + length)
            if all(low >= last + _GAP or first >= high + _GAP for first, last in extents):
                extents.append((low, high))
                return Label(level, begin, text)
    return None
