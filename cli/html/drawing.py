"""What the figures of a report have in common: the axis of time, names, durations, tooltips."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ...goodput.report import Report
from ..text.show import printable

WIDTH = 11.6
"""Of the page, in inches."""
NAME = 26
"""Most letters of a name at the edge of a figure."""
LEAST_SHARE = 0.0005
"""Of a whole: a smaller part would not be seen."""
_UNITS = ((2 * 86_400.0, 86_400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"))


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


def edge_name(text: str) -> str:
    """A name of ours or the user's, for the edge of a figure."""
    text = printable(text)
    return text if len(text) <= NAME else text[: NAME - 1] + "…"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Rows from top to bottom, with their names at the edge and nothing round them."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)


def seconds_axis(axes: Axes) -> None:
    """A vertical axis of durations, whose limits are set."""
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(ticks(axes.get_ylim()[1]))
    axes.grid(visible=True, axis="y")


def ticks(most_s: float) -> Callable[[float, float], str]:
    """How durations up to `most_s` are written at an axis."""
    if most_s < 1:
        return lambda value, _: f"{1000 * value:g} ms"
    return lambda value, _: f"{value:g} s"


def legend(axes: Axes, **where: Any) -> None:
    """A legend, if there is anything to explain."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**where)
