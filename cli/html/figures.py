"""The figures of a report, drawn with matplotlib, and what they have in common; :mod:`.timeline` has its own.

The tooltip of an artist is noted by its id (:class:`Canvas`); SVG shows it.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from ...goodput.buckets import PRODUCTIVE
from ...goodput.report import Report
from ...units import duration_text
from ..format import VERDICTS, printable
from ..views.tuner_changes import TunerChange
from .theme import Theme, colour_of

WIDTH = 11.6
"""Of all figures, in inches."""
LEAST_SHARE = 0.0005
"""A smaller part of a whole would not be visible."""
_LETTERS = 26
"""Most letters of a name at the edge of a figure."""
_WALL_TIME, _REST = "wall time", "all the rest"
_BUCKETS = 16


class Canvas:
    """A figure, or a part of one, in the colours of `theme`; `notes` are tooltips by the ids of artists."""

    def __init__(self, figure: FigureBase, theme: Theme) -> None:
        self.figure, self.theme = figure, theme
        self.notes: dict[str, str] = {}

    def note(self, artist: Artist, text: str) -> None:
        """Set the tooltip of `artist`."""
        artist.set_gid(name := f"n{len(self.notes)}")
        self.notes[name] = printable(text)

    def tooltip(self, name: str) -> str:
        """Return the tooltip of the artist with the id `name` as an element of SVG, if it has one."""
        return f"<title>{escape(self.notes[name], quote=False)}</title>" if name in self.notes else ""

    def mark(self, axes: Axes, at: tuple[float, float], change: TunerChange, size: float) -> Artist:
        """Draw the mark of a change's verdict."""
        form, ink = VERDICTS[change.verdict], self.theme.ink
        fill = ink if form.is_filled else self.theme.paper
        return axes.plot(*at, form.mark, mec=ink, mfc=fill, markersize=size, clip_on=False)[0]


class Panel(NamedTuple):
    """A figure of `height` inches; `note` says what is left out."""

    name: str
    heading: str
    height: float
    draw: Callable[[Canvas], None]
    note: str = ""


def waterfall(report: Report) -> Panel:
    """Return the figure from the wall time down to the productive time, one bucket a row, largest first."""
    account = report.account
    whole_s = account.wall_s or 1.0
    rows, left_s = [(_WALL_TIME, 0.0, account.wall_s)], account.wall_s
    for name, spent_s in _lost(report):
        left_s -= spent_s
        rows.append((name, left_s, spent_s))
    rows.append((PRODUCTIVE, 0.0, account.buckets[PRODUCTIVE]))
    height = max(2.2, 0.45 + 0.22 * len(rows))

    def draw(canvas: Canvas) -> None:
        axes = canvas.figure.add_axes((0.2, 0.3 / height, 0.78, 1 - 0.35 / height))
        fills = {_WALL_TIME: canvas.theme.grid, _REST: canvas.theme.muted}
        for row, (name, start_s, spent_s) in enumerate(rows):
            start, share = 100 * start_s / whole_s, 100 * spent_s / whole_s
            colour = fills.get(name) or colour_of(name)
            (bar,) = axes.barh([row], [max(share, 0.1)], 0.7, left=[start], color=colour, linewidth=0)
            text = f"{duration_text(spent_s)}, {share:.1f} %"
            canvas.note(bar, text)
            axes.text(start + share + 1.2, row, text, va="center", fontsize=7)
        name_rows(axes, [edge_name(name) for name, _, _ in rows])
        axes.set_xlim(0, 118)
        axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.grid(visible=True, axis="x")

    return Panel("waterfall", "From wall time to productive", height, draw)


def _lost(report: Report) -> list[tuple[str, float]]:
    """Return the buckets of the waterfall, and the rest if it would be visible."""
    account = report.account
    least_s = LEAST_SHARE * account.wall_s
    lost = [
        (name, spent_s) for name, spent_s in report.spent if name != PRODUCTIVE and 0 < spent_s >= least_s
    ]
    lost = lost[:_BUCKETS]
    rest_s = account.wall_s - account.buckets[PRODUCTIVE] - sum(spent_s for _, spent_s in lost)
    return [*lost, (_REST, rest_s)] if rest_s >= least_s > 0 else lost


def edge_name(text: str) -> str:
    """Return a name for the edge of a figure, shortened if need be."""
    text = printable(text)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Set the rows from top to bottom, with their names at the edge and no frame."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)


def ticks(most_s: float) -> Callable[[float, float], str]:
    """Return the formatter of an axis of durations up to `most_s`."""
    if most_s < 1:
        return lambda value, _: f"{1000 * value:g} ms"
    return lambda value, _: f"{value:g} s"


def legend(axes: Axes, columns: int, *, above: bool = False) -> None:
    """Draw a legend in the upper right corner, or above the figure, if there is anything to explain."""
    if axes.get_legend_handles_labels()[0]:
        drawn = axes.legend(loc="upper right", ncols=columns, handlelength=1.0, columnspacing=1.2)
        if above:
            drawn.set(loc="lower left", bbox_to_anchor=(-0.005, 0.99))
