"""What a daemon can be told."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..client.paths import JobPaths

OFF = "off"


class Monitoring(msgspec.Struct, frozen=True, kw_only=True):
    """Who may watch a job's goodput, and where it is written (`docs/monitoring.md`).

    By default its user alone, at a socket in the run directory, and nothing is written.
    """

    metrics: str = ""
    """Where the OpenMetrics endpoint listens (:mod:`scrtune.daemon.monitor.address`), or :data:`OFF`.

    Empty: in the run directory, if it can, with nothing loaded before the first scrape.
    """

    tensorboard: Path | None = None
    """The directory for TensorBoard's scalars."""

    csv: Path | None = None
    """The file that rows are appended to."""

    every_s: float = 30.0
    """Seconds between two writes of scalars and rows."""

    windows_s: tuple[int, ...] = (60, 300, 900)
    """The rolling windows, in seconds."""

    @property
    def is_wanted(self) -> bool:
        """Whether anybody is known to watch."""
        return self.metrics not in {"", OFF} or self.tensorboard is not None or self.csv is not None

    def options(self) -> list[str]:
        """The same, as `scrtune run`, `scrtune daemon` and `scrtune node` take it."""
        if not self.is_wanted:
            return ["--metrics", OFF] if self.metrics else []
        given = {"--metrics": self.metrics, "--tensorboard": self.tensorboard, "--csv": self.csv}
        places = [part for name, value in given.items() if value for part in (name, str(value))]
        windows = [part for window in self.windows_s for part in ("--monitor-window", str(window))]
        return [*places, "--monitor-every", str(self.every_s), *windows]


@dataclass(frozen=True)
class DaemonOptions:
    """Options of one daemon. The first four have flags of `scrtune daemon`."""

    paths: JobPaths
    """The job's run directory on this node."""

    scr_conf: Path
    """The SCR config file to rewrite."""

    user_conf: Path | None = None
    """The user's own SCR config file: what it says and advice does not is carried over."""

    monitoring: Monitoring = field(default_factory=Monitoring)
    """Who may watch."""

    tick_s: float = 0.1
    """Seconds between two digests of the trace, in the first seconds; they become rarer."""

    look_s: float = 1.0
    """Seconds between two looks at the node, likewise."""

    drain_limit: int = 64
    """Messages taken in before questions are looked at and the tick may run."""
