"""What a daemon can be told."""

from dataclasses import dataclass
from pathlib import Path

from ..client.paths import JobPaths


@dataclass(frozen=True)
class DaemonOptions:
    """Options of one daemon. The first three have a flag of `scrtune daemon`."""

    paths: JobPaths
    """The job's run directory on this node."""

    scr_conf: Path
    """The SCR config file to rewrite."""

    user_conf: Path | None = None
    """The user's own SCR config file: what it says and advice does not is carried over."""

    tick_s: float = 0.1
    """Seconds between two digests of the trace, in the first seconds; they become rarer."""

    look_s: float = 1.0
    """Seconds between two looks at the node, likewise."""

    drain_limit: int = 64
    """Messages taken in before questions are looked at and the tick may run."""
