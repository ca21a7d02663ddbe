"""The figures of a report: as SVG for a page, and all of them as one PNG. Loads matplotlib."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure, FigureBase

from ...goodput.report import Report
from . import figures
from .changes import Change
from .drawing import WIDTH, Notes
from .theme import LIGHT, PAGE, VARIABLES, Theme
from .timeline import Timeline

_FEW = 6
"""Changes for which there is room below the first figures on the first sheet of paper."""
_HALF = WIDTH / 2 - 0.1
_DOTS_PER_INCH = 150
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"#(?=[\w-]+\)|[\w-]+$)")
_COORDINATES = {"d", "x", "y", "points", "transform", "width", "height", "viewBox"}


class Panel(NamedTuple):
    """A figure of `width` x `height` inches; `draw` takes where to, the tooltips, and the theme."""

    name: str
    heading: str
    width: float
    height: float
    draw: Callable[[FigureBase, Notes, Theme], None]


def rows(report: Report, changes: Sequence[Change]) -> list[list[Panel]]:
    """The figures as they stand on the page; there is none of what nothing is known of."""
    lower = figures.waterfall_height(report)
    width = WIDTH if report.steps is None else _HALF
    draw_waterfall = partial(figures.waterfall, report=report)
    made = [[Panel("waterfall", "From wall time to productive", width, lower, draw_waterfall)]]
    if report.steps is not None:
        draw = partial(figures.distribution, steps=report.steps)
        made[0].append(Panel("distribution", "How long steps took", _HALF, lower, draw))
    timeline = Timeline(report, changes)
    made.append([Panel("timeline", "Over time", WIDTH, timeline.height, timeline.draw)])
    if shown := figures.gains_shown(changes):
        draw_gains = partial(figures.gains, changes=shown)
        height = figures.gains_height(len(shown))
        panel = Panel("gains", "What each change of the tuner gained", WIDTH, height, draw_gains)
        made.insert(1 if len(shown) <= _FEW else 2, [panel])
    return made


def svg(panel: Panel) -> str:
    """The panel as an element of a page, in whose colours it is."""
    notes, out = Notes(), io.BytesIO()
    with mpl.rc_context({**PAGE.settings(), "svg.hashsalt": panel.name}):
        figure = Figure(figsize=(panel.width, panel.height))
        panel.draw(figure, notes, PAGE)
        figure.savefig(out, format="svg", metadata={"Date": None})
    return _inline(out.getvalue(), notes, panel)


def png(report: Report, changes: Sequence[Change], title: str) -> bytes:
    """All panels as one picture."""
    parts = rows(report, changes)
    heights = [max(panel.height for panel in row) for row in parts]
    out = io.BytesIO()
    with mpl.rc_context(LIGHT.settings()):
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.3 * len(heights) + 0.4))
        ratios = [0.4, *(each for height in heights for each in (0.3, height))]
        cells = figure.subfigures(len(ratios), 1, height_ratios=ratios, hspace=0, squeeze=False)[:, 0]
        cells[0].text(0.015, 0.35, title, fontsize=12, fontweight="bold")
        for heading, body, row in zip(cells[1::2], cells[2::2], parts, strict=True):
            for index, (place, panel) in enumerate(
                zip(body.subfigures(1, len(row), squeeze=False)[0], row, strict=True)
            ):
                heading.text(0.015 + index / len(row), 0.2, panel.heading, fontsize=9.5, fontweight="bold")
                panel.draw(place, Notes(), LIGHT)
        figure.savefig(out, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": "scrtune"})
    return out.getvalue()


def _inline(text: bytes, notes: Notes, panel: Panel) -> str:
    """`text` without what only a file of its own needs, with tooltips, and with variables for colours."""
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(text)  # noqa: S314 - drawn just now
    for parent in list(root.iter()):
        for child in list(parent):
            is_style = child.find(f"{{{_SVG}}}style") is not None
            if child.tag == f"{{{_SVG}}}metadata" or is_style:
                parent.remove(child)
    referred = {each for element in root.iter() for each in _referred(element)}
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name in referred:
            element.set("id", f"{panel.name}-{name}")
        for key, value in element.attrib.items():
            shorter = _LONG_NUMBER.sub(_shorter, value) if key in _COORDINATES else value
            element.set(key, _REFERENCE.sub(f"#{panel.name}-", shorter) if _refers(key, value) else shorter)
        if name in notes.texts:
            title = ET.Element(f"{{{_SVG}}}title")
            title.text = notes.texts[name]
            element.insert(0, title)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib.update({"role": "img", "aria-label": panel.heading})
    made = ET.tostring(root, encoding="unicode")
    for placeholder, variable in VARIABLES.items():
        made = made.replace(placeholder, f"var({variable})")
    return re.sub(r"\s*\n\s*", "\n", made)


def _refers(key: str, value: str) -> bool:
    return key == f"{{{_XLINK}}}href" or "url(#" in value


def _referred(element: "ET.Element[str]") -> list[str]:
    values = (value for key, value in element.attrib.items() if _refers(key, value))
    return [value.partition("#")[2].partition(")")[0] for value in values]


def _shorter(match: "re.Match[str]") -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
