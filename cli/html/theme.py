"""All colours of the page and of its figures, each with one meaning.

Most are those of Okabe and Ito, which can be distinguished with any kind of colour vision. In SVG the
colours of ink and paper are placeholders for CSS variables, so that the page follows the reader's choice of
light or dark; a PNG is light.
"""

from typing import Any, NamedTuple

import msgspec

from ...goodput import buckets as of
from ...goodput.report_lanes import BACKGROUND_FLUSH, STEPS, WORK

LETTERS = 8.0
"""The size of letters in figures, in points: more than 11 px on a screen of 1400."""


class ColourGroup(NamedTuple):
    """Buckets that share a colour."""

    colour: str
    buckets: tuple[str, ...] = ()


GROUPS = {
    "productive": ColourGroup("#009e73", (of.PRODUCTIVE,)),
    "slowdown": ColourGroup("#e6c200", (of.STEP_SLOWDOWN, of.FLUSH_SLOWDOWN)),
    "wasted progress": ColourGroup("#d55e00", (of.WASTED_PROGRESS,)),
    "checkpoints": ColourGroup(
        "#0072b2", tuple(name for name in of.BUCKETS if name.startswith("checkpoint_"))
    ),
    "restore, recovery": ColourGroup("#cc79a7", (of.RESTORE, of.FETCH, of.REBUILD, of.SCAVENGE, of.RECOVERY)),
    "start-up, queue, scaling": ColourGroup(
        "#56627c",
        (
            *(of.STARTUP, of.DEVICE_INIT, of.TRAINING_PREP, of.QUEUE_WAIT, of.ALLOCATION_END),
            *(of.ELASTIC_SCALE_UP, of.ELASTIC_SLICE_DOWN, of.ELASTIC_REINIT),
        ),
    ),
    "data loading": ColourGroup("#e69f00", (of.DATA_LOADING, of.ASYNC_LOADING)),
    "tuning": ColourGroup("#8c4fb3", (of.TUNING, of.OBSERVATION)),
    "own intervals": ColourGroup("#96613d"),
    "other": ColourGroup("#a8a8a8"),
}
"""`own intervals` are the user's, `other` is whatever is in no group."""

_COLOURS = {
    of.CHECKPOINT_WRITE: "#06558c",
    of.CHECKPOINT_ENCODE: "#2b8cc9",
    of.CHECKPOINT_FLUSH: "#6cbcea",
    of.CHECKPOINT_WAIT: "#8b9ad4",
    of.CHECKPOINT_OTHER: "#b3cde0",
    STEPS: GROUPS["productive"].colour,
    WORK: GROUPS["productive"].colour,
    BACKGROUND_FLUSH: "#a3a86b",
}
"""The parts of a checkpoint, in shades of their group that are visible on light and dark paper, and the lanes
that are no buckets."""


def colour_of(name: str) -> str:
    """Return the colour of a bucket or a lane, the same in all figures."""
    return _COLOURS.get(name) or GROUPS[group_of(name)].colour


def group_of(bucket: str) -> str:
    """Return the group of `bucket`."""
    if bucket.startswith(of.CUSTOM):
        return "own intervals"
    return next((name for name, group in GROUPS.items() if bucket in group.buckets), "other")


_TEXTS = ("font.", "axes.label", "legend.font", "xtick.label", "ytick.label")


class Theme(msgspec.Struct, frozen=True):
    """Colours of everything but data."""

    ink: str
    muted: str
    grid: str
    paper: str
    card: str = ""

    def settings(self) -> Any:  # the type of the keys depends on the release of matplotlib
        """Return the rcParams of matplotlib for a figure in this theme."""
        return {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "text.color": self.ink,
            "text.parse_math": False,
            "axes.edgecolor": self.grid,
            "axes.facecolor": "none",
            "axes.labelcolor": self.muted,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": self.paper,
            "grid.color": self.grid,
            "grid.linewidth": 0.6,
            "legend.facecolor": self.paper,
            "legend.edgecolor": "none",
            "legend.framealpha": 0.85,
            "svg.fonttype": "none",
            "xtick.labelcolor": self.muted,
            "ytick.labelcolor": self.ink,
            **dict.fromkeys(("xtick.color", "ytick.color"), self.grid),
            **dict.fromkeys((f"{what}size" for what in _TEXTS), LETTERS),
        }


LIGHT = Theme(ink="#1b1f24", muted="#57606a", grid="#d8dee4", paper="#ffffff", card="#f6f8fa")
DARK = Theme(ink="#e6edf3", muted="#9ba6b2", grid="#3a424c", paper="#12161b", card="#1b2128")
PAPER = Theme(ink="#000", muted="#444", grid="#bbb", paper="#fff", card="#fff")
VARIABLES = {"#010f01": "--ink", "#010f02": "--muted", "#010f03": "--grid", "#010f04": "--paper"}
"""Placeholders in figures, and the CSS variables that replace them."""
PAGE = Theme(*VARIABLES)
