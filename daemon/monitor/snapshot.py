"""What the daemon's monitors see of a job: one immutable value, made by the loop's thread."""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.ledger.ledger import Account, Window
from ..views import StatusView

_NAMED = 100
OTHERS = "others"

Deviations: TypeAlias = tuple[tuple[int, float], ...]
"""Steps, each with its distance (s) from the ideal one."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one moment; nothing in it changes any more."""

    time_s: float
    status: StatusView
    """What `scrtune status` shows at this moment."""
    account: Account
    windows: dict[int, Window] = {}
    """The last so many seconds, as far as the job lay in them."""
    decisions: dict[str, int] = {}
    """How many there are of each verdict."""
    last_checkpoint: CheckpointCost | None = None
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


def immutable(status: StatusView) -> StatusView:
    """Return `status` with counts that change no more, and not too many names."""
    counters = msgspec.structs.replace(
        status.counters, dropped=bounded(status.counters.dropped), lost=bounded(status.counters.lost)
    )
    return msgspec.structs.replace(status, counters=counters, rejected=bounded(status.rejected))


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Return a copy in which everything after the first hundred names is counted together."""
    if len(counts) <= _NAMED:
        return dict(counts)
    items = list(counts.items())
    return {**dict(items[:_NAMED]), OTHERS: sum(count for _, count in items[_NAMED:])}
