"""The figures of `scrtune study --what-if --html`: what is predicted, and how good that is."""

from collections.abc import Iterator

from ...replay.what_if.rows import HeldOut, PredictedValue, Prediction, WhatIf
from ..format import seconds_column
from ..views.what_if import changes_text
from .figures import LANE, LEFT, PLOT, SERIES, Bar, Label, StudyFigure, axis, lane_name

_INK = "var(--ink)"
_PARTS = ("write", "encode", "serialise", "flush", "wait", "contention")


def figures(found: WhatIf) -> list[StudyFigure]:
    """Return the figures: one for predictions, one for runs that were held out."""
    return [_predictions(found), _held_out(found)]


def _predictions(found: WhatIf) -> StudyFigure:
    """Draw the parts of each predicted checkpoint one after the other, and the interval of their sum."""
    height = LANE * len(found.leading)
    end, ticks = axis(max(row.checkpoint_s.high for row in found.leading), height)
    bars: list[Bar] = []
    labels: list[Label] = []
    for number, row in enumerate(found.leading):
        top = number * LANE
        text = changes_text(row.changes)
        labels.append(lane_name(f"number {row.rank}", top + 8))
        bars += _parts(row, top + 2, PLOT / end)
        bars.append(_line(row.checkpoint_s, top + 7, PLOT / end, f"number {row.rank}"))
        # without any width: its text stands below the bar, where the bar begins
        bars.append(Bar(LEFT - 4, top + 16, 0, 10, _INK, text, text))
    note = (
        f"For a job like {found.like}, the cheapest of each way to write. The line is the"
        f" {found.confidence:.0%} interval."
    )
    return StudyFigure(
        "What a checkpoint would cost", note, _PARTS, height, tuple(bars), tuple(labels), ticks
    )


def _parts(row: Prediction, y: float, scale: float) -> Iterator[Bar]:
    x = LEFT
    whole_s = sum(row.parts_s.values()) or 1.0
    for name in _PARTS:
        # medians of parts do not add up to that of their sum
        seconds = row.parts_s.get(name, 0.0) / whole_s * row.checkpoint_s.value
        if seconds > 0:
            note = f"{name}: {row.parts_s[name]:,.3f} s"
            yield Bar(x, y, seconds * scale, 12, SERIES[name], note)
            x += seconds * scale


def _line(seconds: PredictedValue, y: float, scale: float, what: str) -> Bar:
    note = f"{what}: {seconds.value:,.3f} s ({seconds.low:,.3f} to {seconds.high:,.3f})"
    return Bar(LEFT + seconds.low * scale, y, (seconds.high - seconds.low) * scale, 2, _INK, note)


def _held_out(found: WhatIf) -> StudyFigure:
    """Draw what was measured of each run as a bar, and what the others predict of it as a line."""
    lane = LANE * 0.6
    height = lane * len(found.held_out)
    end, ticks = axis(
        max((max(row.measured_s, row.predicted_s.high) for row in found.held_out), default=0.0), height
    )
    bars: list[Bar] = []
    for number, row in enumerate(found.held_out):
        bars += _one_held_out(row, number * lane + 3, lane - 6, PLOT / end)
    labels = [lane_name(row.run, number * lane + lane / 2) for number, row in enumerate(found.held_out)]
    note = (
        "Bars: as measured. Lines: the interval that a model fitted to all other runs predicts, its middle a"
        " mark."
    )
    series = ("checkpoint", "flush")
    title = "Runs as predicted from all others"
    return StudyFigure(title, note, series, height, tuple(bars), tuple(labels), ticks)


def _one_held_out(row: HeldOut, y: float, height: float, scale: float) -> Iterator[Bar]:
    what = f"{row.run}, {row.measure}"
    note = f"{what}: {seconds_column(row.measured_s)} s"
    yield Bar(LEFT, y, row.measured_s * scale, height, SERIES[row.measure], note, opacity=0.6)
    line = _line(row.predicted_s, y + height / 2 - 1, scale, f"{what}, predicted")
    yield line
    yield Bar(LEFT + row.predicted_s.value * scale - 1.5, y, 3, height, _INK, line.note)
