"""Options of a daemon."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..client.paths import JobPaths

OFF = "off"
READY = b"ready\n"
"""What a daemon says to its parent once it can be asked."""
LOST = b"lost "
"""What it says, with a number, where it cannot leave its last status: the journal misses so many events."""

STEP_NAME = "scrtune"
"""The name of the Slurm step of a job's daemons, by which they are found from other nodes."""

_LOOPBACK = "127.0.0.1"
_LAST_PORT = 65_535
_ADDRESS = re.compile(r"(?:(\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\[\]:\s]+):)?(\d{1,5})", re.ASCII)


class Monitoring(msgspec.Struct, frozen=True, kw_only=True):
    """Who may watch a job's goodput, and where it is written (`docs/monitoring.md`); by default neither."""

    metrics: str = OFF
    """Where OpenMetrics are served (:func:`address_of`), or :data:`OFF`."""

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
        """Return whether anything is to be shown or written."""
        return self.metrics != OFF or self.tensorboard is not None or self.csv is not None

    def options(self) -> list[str]:
        """Return the same as `scrtune run`, `scrtune daemon` and `scrtune node` take it."""
        if not self.is_wanted:
            return []
        given = [("--metrics", self.metrics), ("--tensorboard", self.tensorboard), ("--csv", self.csv)]
        timing = [("--monitor-every", self.every_s), *(("--monitor-window", each) for each in self.windows_s)]
        return [part for name, value in (*given, *timing) if value for part in (name, str(value))]


def address_of(text: str) -> tuple[str, int]:
    """Return the host and port of ``PORT`` (of loopback) or ``HOST:PORT``. Port 0 is any that is free.

    Raises ValueError, with what to write instead.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > _LAST_PORT:
        raise ValueError(
            f"{text!r} is no address; write PORT or {_LOOPBACK}:PORT for this node alone, 0.0.0.0:PORT for"
            f" every interface, or {OFF}"
        )
    return (match[1] or _LOOPBACK).strip("[]"), int(match[2])


@dataclass(frozen=True)
class ClusterOptions:
    """How a daemon finds the others of its job (`docs/cluster.md`)."""

    directory: Path
    """For the job's user alone (0700): its keys, and, where all nodes see it, the name of each node."""

    peers: tuple[str, ...] = ()
    """``HOST:PORT`` of each node in the job's order, where they do not."""


@dataclass(frozen=True)
class DaemonOptions:
    """Options of one daemon."""

    paths: JobPaths
    """The job's run directory on this node."""

    scr_conf: Path
    """The SCR config file to rewrite."""

    user_conf: Path | None = None
    """The user's own SCR config file: what it says and advice does not is carried over."""

    application: str = ""
    """The name under which is kept what the job teaches (:mod:`.memory`); empty: nothing is kept."""

    monitoring: Monitoring = field(default_factory=Monitoring)
    """Who may watch."""

    probe: bool = True
    """Whether the storage of this node is measured once (:mod:`scrtune.daemon.node.measure`)."""

    cluster: ClusterOptions | None = None
    """The daemons of the other nodes; None: the job has none."""

    parent: int | None = None
    """A descriptor: a line from it is the application's end (JobEnded as JSON), its end ends the daemon."""
