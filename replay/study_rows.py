"""The rows of a study: runs, their checkpoints, differences, files and activity, with every column.

Every number of seconds is of one thread (a pid and tid of a host) unless its name says that it is a sum over
all; :data:`GROUPING` says so in each output. `docs/study.md` defines each column.
"""

from collections.abc import Mapping

import msgspec

from .table import Reading
from .what_if.rows import WhatIf

GROUPING = "largest of a thread (host, pid, tid): its durations summed"
"""How seconds come about, in all columns that are compared."""

CONFIDENCE = 0.95


class TierTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The calls below a tier's directory: seconds by :data:`GROUPING`, and summed over all threads."""

    seconds: float = 0.0
    sum_s: float = 0.0
    calls: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint of a run. `seconds` are of the thread that took longest; `wall_s` from first to last.

    `flush_s` is how long the rank that took longest wrote below the prefix directory after its part of the
    checkpoint had ended; None where none did.
    """

    run: str
    number: int
    start_s: float
    seconds: float
    wall_s: float
    epoch: int | None = None
    step: int | None = None
    flush_s: float | None = None
    flush_end_s: float | None = None


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Seconds of checkpoints, loads and tiers are by :data:`GROUPING`, ``sum_s`` of all threads.

    `unseen` says that the trace lacks writes, so that bytes are not the job's; empty where none are known of.
    """

    name: str
    reading: Reading
    start_s: float
    span_s: float
    hosts: int
    processes: int
    saving_threads: int
    checkpoints: int
    checkpoints_from: str
    checkpoint_s: float
    checkpoint_sum_s: float
    loads: int
    load_s: float
    cache: TierTotals
    prefix: TierTotals
    bytes_per_s: float | None
    flush_s: float | None
    flushes: int
    unseen: str = ""
    settings: Mapping[str, str] = {}


class FileClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one operation on files of one class in a tier; seconds are by :data:`GROUPING`."""

    run: str
    tier: str
    file_class: str
    operation: str
    calls: int
    bytes: int
    seconds: float
    sum_s: float


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """By how many seconds the mean of a measure over checkpoints differs from the base's, with its interval.

    The interval (Welch's t) is None with fewer than two checkpoints in either run.
    """

    run: str
    base: str
    measure: str
    base_mean_s: float
    mean_s: float
    difference_s: float
    low_s: float | None = None
    high_s: float | None = None
    base_checkpoints: int = 0
    checkpoints: int = 0

    @property
    def is_clear(self) -> bool:
        """Whether the interval has no zero in it."""
        return self.low_s is not None and self.high_s is not None and not self.low_s <= 0 <= self.high_s


class ActivityRow(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes and seconds of all threads that read or wrote in a tier, in one bin of time."""

    run: str
    tier: str
    operation: str
    start_s: float
    width_s: float
    bytes: int
    seconds: float


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What traces of several runs say, and what is predicted from them if that was asked for."""

    base: str
    runs: tuple[RunRow, ...]
    differences: tuple[RunDifference, ...]
    checkpoints: tuple[CheckpointRow, ...]
    file_classes: tuple[FileClassRow, ...]
    activity: tuple[ActivityRow, ...]
    notes: tuple[str, ...]
    grouping: str = GROUPING
    confidence: float = CONFIDENCE
    what_if: WhatIf | None = None

    @property
    def differing_settings(self) -> dict[str, str]:
        """The settings of each run that are not said alike of all of them."""
        names = dict.fromkeys(name for row in self.runs for name in row.settings)
        differing = [name for name in names if len({row.settings.get(name) for row in self.runs}) > 1]
        texts = {
            row.name: " ".join(f"{name}={row.settings[name]}" for name in differing if name in row.settings)
            for row in self.runs
        }
        return {name: text for name, text in texts.items() if text}
