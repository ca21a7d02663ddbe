"""Colours of the report: those of Okabe and Ito, which readers tell apart who do not see all colours.

In SVG the colours of ink and paper are placeholders that become CSS variables, so that the page has them
follow the reader's choice of light or dark; a PNG is light.
"""

from typing import Any

import msgspec

from ..goodput import buckets
from ..intents.decisions import Verdict

GROUPS = {
    "productive": (buckets.PRODUCTIVE,),
    "slowdown": (buckets.STEP_SLOWDOWN, buckets.FLUSH_SLOWDOWN),
    "wasted progress": (buckets.WASTED_PROGRESS,),
    "checkpoints": (
        buckets.CHECKPOINT_WRITE,
        buckets.CHECKPOINT_ENCODE,
        buckets.CHECKPOINT_FLUSH,
        buckets.CHECKPOINT_WAIT,
        buckets.CHECKPOINT_OTHER,
    ),
    "restore, recovery": (
        buckets.RESTORE,
        buckets.FETCH,
        buckets.REBUILD,
        buckets.SCAVENGE,
        buckets.RECOVERY,
    ),
    "start-up, queue, scaling": (
        buckets.STARTUP,
        buckets.DEVICE_INIT,
        buckets.TRAINING_PREP,
        buckets.QUEUE_WAIT,
        buckets.ALLOCATION_END,
        buckets.ELASTIC_SCALE_UP,
        buckets.ELASTIC_SLICE_DOWN,
        buckets.ELASTIC_REINIT,
    ),
    "data loading": (buckets.DATA_LOADING,),
    "tuning": (buckets.TUNING,),
    "own intervals": (),
    "other": (),
}
"""Buckets that are shown in one colour; `own intervals` are the user's, `other` all that is in no group."""

GROUP_COLOURS = {
    "productive": "#009e73",
    "slowdown": "#e6c200",
    "wasted progress": "#d55e00",
    "checkpoints": "#0072b2",
    "restore, recovery": "#cc79a7",
    "start-up, queue, scaling": "#56b4e9",
    "data loading": "#e69f00",
    "tuning": "#8c4fb3",
    "own intervals": "#a6761d",
    "other": "#999999",
}

LANE_COLOURS = {
    "runs": "#777777",
    "steps": "#009e73",
    "checkpoint save": "#0072b2",
    "write": "#0072b2",
    "encode": "#56b4e9",
    "blocked on flush": "#d55e00",
    "wait for a flush": "#e69f00",
    "other checkpoint time": "#7b8fb2",
    "tuning": "#8c4fb3",
    "background flush": "#9a8f2e",
    "flush slowdown": "#e6c200",
    "restart": "#cc79a7",
    "rebuild": "#cc79a7",
    "fetch": "#cc79a7",
    "scavenge": "#cc79a7",
}
OTHER_LANE = "#56b4e9"

VERDICTS = {
    Verdict.TRIAL: ("on trial", "o", "#e69f00"),
    Verdict.ACCEPTED: ("kept", "^", "#009e73"),
    Verdict.REVERTED: ("taken back", "v", "#d55e00"),
    Verdict.REQUIRED: ("required", "s", "#0072b2"),
    Verdict.VETOED: ("vetoed", "x", "#777777"),
    Verdict.ANCHOR: ("yours again", "D", "#cc79a7"),
    Verdict.PENDING: ("pending", "P", "#56b4e9"),
}
"""Each verdict in a word, with a shape and a colour: the shape alone tells them apart."""


def group_of(bucket: str) -> str:
    """The group that `bucket` is shown with."""
    if bucket.startswith(buckets.CUSTOM):
        return "own intervals"
    return next((group for group, members in GROUPS.items() if bucket in members), "other")


class Theme(msgspec.Struct, frozen=True):
    """Colours of what is not data."""

    ink: str
    muted: str
    grid: str
    paper: str

    def settings(self) -> Any:  # the keys have a type of their own in each release of matplotlib
        """Settings of matplotlib (rcParams) for a figure in this theme."""
        return {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 8.0,
            "text.color": self.ink,
            "text.parse_math": False,
            "axes.edgecolor": self.grid,
            "axes.facecolor": "none",
            "axes.labelcolor": self.muted,
            "axes.labelsize": 7.5,
            "axes.titlesize": 8.5,
            "axes.titlelocation": "left",
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": self.paper,
            "grid.color": self.grid,
            "grid.linewidth": 0.6,
            "legend.frameon": False,
            "legend.fontsize": 7.0,
            "savefig.facecolor": self.paper,
            "svg.fonttype": "none",
            "xtick.color": self.grid,
            "ytick.color": self.grid,
            "xtick.labelcolor": self.muted,
            "ytick.labelcolor": self.ink,
            "xtick.labelsize": 7.5,
            "ytick.labelsize": 7.5,
        }


LIGHT = Theme(ink="#1b1f24", muted="#57606a", grid="#d8dee4", paper="#ffffff")
VARIABLES = {"#010f01": "--ink", "#010f02": "--muted", "#010f03": "--grid", "#010f04": "--paper"}
"""Placeholders in figures, and the variables of the page that they become."""
PAGE = Theme(*VARIABLES)
