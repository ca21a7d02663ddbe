"""A figure of matplotlib with tooltips, as an element of a page."""

import io
import re
from collections.abc import Callable, Sequence
from html import escape

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from ..format import VERDICTS, printable
from ..views.tuner_changes import TunerChange
from .theme import PAGE, VARIABLES, Theme

WIDTH = 11.6
"""Of figures, in inches."""
_LETTERS = 26
"""Most letters of a name at the edge."""
_OF_A_FILE = re.compile(r'<metadata>.*?</metadata>|<style.*?</style>|<g id="[^"]*"/>', re.DOTALL)
_SIZE = re.compile(r' (?:width|height|version)="[^"]*"')
_GROUP = re.compile(r'<g id="([^"]*)">')
"""Nothing refers to the ids of groups; all other ids are hashes."""
_TAG = re.compile(r"<[^<>]*>")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


class Canvas:
    """A figure in the colours of `theme`; `notes` are tooltips by the ids of artists."""

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

    def mark(self, axes: Axes, at: tuple[float, float], change: TunerChange) -> Artist:
        """Draw the mark of a change's verdict."""
        form, ink = VERDICTS[change.verdict], self.theme.ink
        fill = ink if form.is_filled else self.theme.paper
        return axes.plot(*at, form.mark, mec=ink, mfc=fill, markersize=5, clip_on=False)[0]


def svg(height: float, draw: Callable[[Canvas], None], label: str) -> Markup:
    """Return what `draw` draws, `height` inches high, as an element in the colours of the page."""
    out = io.BytesIO()
    with mpl.rc_context({**PAGE.settings(), "svg.hashsalt": label}):
        figure = Figure(figsize=(WIDTH, height))
        canvas = Canvas(figure, PAGE)
        draw(canvas)
        figure.savefig(out, format="svg", metadata={"Date": None})
    _, tag, text = out.getvalue().decode().partition("<svg")
    text = f'{tag} role="img" aria-label="{escape(label)}"' + _OF_A_FILE.sub("", text)
    text = _SIZE.sub("", text, count=3)
    text = _GROUP.sub(lambda group: "<g>" + canvas.tooltip(group[1]), text)
    text = _TAG.sub(lambda tag: _LONG_NUMBER.sub(_rounded, tag[0]), text)
    for placeholder, variable in VARIABLES.items():
        text = text.replace(placeholder, f"var({variable})")
    return Markup(re.sub(r"\s*\n\s*", "\n", text))  # noqa: S704 - matplotlib has escaped all texts


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Set the rows from top to bottom, with their names at the edge and no frame."""
    axes.set_yticks(range(len(names)), [_edge_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)


def legend(axes: Axes, columns: int, *, above: bool = False) -> None:
    """Draw a legend in the upper right corner, or above the figure, if there is anything to explain."""
    if axes.get_legend_handles_labels()[0]:
        drawn = axes.legend(loc="upper right", ncols=columns, handlelength=1.0, columnspacing=1.2)
        if above:
            drawn.set(loc="lower left", bbox_to_anchor=(-0.005, 0.99))


def _edge_name(text: str) -> str:
    """Return a name for the edge of a figure, shortened if need be."""
    text = printable(text)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
