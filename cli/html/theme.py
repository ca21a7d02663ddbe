"""Colours of the report, each with one meaning.

Most are those of Okabe and Ito, which readers tell apart who do not see all colours.

In SVG the colours of ink and paper are placeholders that become CSS variables, so that the page has them
follow the reader's choice of light or dark; a PNG is light.
"""

from typing import Any

import msgspec

from ...goodput import buckets
from ...goodput.report import WORK
from ...goodput.report_lanes import BACKGROUND_FLUSH, STEPS
from ...intents.tune.decisions import Verdict

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
    "data loading": (buckets.DATA_LOADING, buckets.ASYNC_LOADING),
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
    "start-up, queue, scaling": "#56627c",
    "data loading": "#e69f00",
    "tuning": "#8c4fb3",
    "own intervals": "#96613d",
    "other": "#a8a8a8",
}

_SHADES = {
    buckets.CHECKPOINT_WRITE: "#06558c",
    buckets.CHECKPOINT_ENCODE: "#2b8cc9",
    buckets.CHECKPOINT_FLUSH: "#6cbcea",
    buckets.CHECKPOINT_WAIT: "#8b9ad4",
    buckets.CHECKPOINT_OTHER: "#b3cde0",
}
"""The parts of a checkpoint: shades of their group, light enough and dark enough for either paper."""

_LANES = {STEPS: GROUP_COLOURS["productive"], WORK: GROUP_COLOURS["productive"], BACKGROUND_FLUSH: "#a3a86b"}
"""Lanes that are no buckets."""

VERDICTS = {
    Verdict.TRIAL: ("on trial", "o", False),
    Verdict.ACCEPTED: ("kept", "^", True),
    Verdict.REVERTED: ("taken back", "v", False),
    Verdict.REQUIRED: ("required", "s", True),
    Verdict.VETOED: ("vetoed", "x", False),
    Verdict.BASELINE: ("yours again", "D", True),
    Verdict.PENDING: ("pending", "P", False),
}
"""Each verdict in a word, with a shape, and whether it stays in force: then it is drawn filled. All are in
ink, for colours say what the time went into, and nothing else."""


def colour_of(name: str) -> str:
    """The colour of a bucket or a lane: the same wherever it is drawn."""
    return _SHADES.get(name) or _LANES.get(name) or GROUP_COLOURS[group_of(name)]


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
            "legend.frameon": True,
            "legend.facecolor": self.paper,
            "legend.edgecolor": "none",
            "legend.framealpha": 0.85,
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
