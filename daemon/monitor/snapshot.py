"""What the daemon's monitors see of a job: one immutable value, made by the loop's thread."""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.ledger.ledger import Account, Window

_NAMED = 100
OTHERS = "others"

Deviations: TypeAlias = tuple[tuple[int, float], ...]
"""Steps, each with its distance (s) from the ideal one."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one moment; nothing in it changes any more."""

    time_s: float
    job_id: str
    host: str
    account: Account
    windows: dict[int, Window] = {}
    """The last so many seconds, as far as the job lay in them."""
    engine: str = ""
    generation: int = 0
    tuning: bool = True
    decisions: dict[str, int] = {}
    checkpoint_cost_s: float = 0.0
    baseline_cost_s: float = 0.0
    last_checkpoint: CheckpointCost | None = None
    events: int = 0
    dropped: dict[str, int] = {}
    lost: dict[str, int] = {}
    rejected: dict[str, int] = {}
    journal_lost: int = 0
    last_step: int = 0
    ideal_step_s: float | None = None
    step_deviation_s: float = 0.0
    deviations: Deviations = ()
    """The steps since the last snapshot that was to be written down, measured against `ideal_step_s`."""

    @property
    def is_begun(self) -> bool:
        """Return whether this daemon knows anything of the job's time: on other nodes it never does."""
        account = self.account
        return account.wall_s > 0 and bool(account.runs or account.steps or account.checkpoints)

    @property
    def progress(self) -> int:
        """Return TensorBoard's step: the job's last one, or its checkpoints if it reports no steps."""
        return self.last_step if self.account.steps else self.account.checkpoints


class Sink(Protocol):
    """Somewhere that snapshots are shown or recorded; only its own thread calls it."""

    name: str
    """What it is and where, as `scrtune status` shows it."""

    def write(self, snapshot: Snapshot) -> None:
        """Show or record `snapshot`. Raises whatever prevents it; the next snapshot is tried all the same."""


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Return a copy in which everything after the first hundred names is counted together."""
    if len(counts) <= _NAMED:
        return dict(counts)
    items = list(counts.items())
    return {**dict(items[:_NAMED]), OTHERS: sum(count for _, count in items[_NAMED:])}
