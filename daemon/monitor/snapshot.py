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
    """What is told of a job at one moment; nothing in it changes any more.

    `windows` are the last so many seconds, as far as the job lay in them. `deviations` are the steps since
    the last snapshot that was to be written down, by `ideal_step_s`.
    """

    time_s: float
    job_id: str
    host: str
    account: Account
    windows: dict[int, Window] = {}
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

    @property
    def is_begun(self) -> bool:
        """Whether the job has told this daemon anything of its time: on other nodes it never does."""
        account = self.account
        return account.wall_s > 0 and bool(account.runs or account.steps or account.checkpoints)

    @property
    def progress(self) -> int:
        """TensorBoard's step: the job's own last one, or its checkpoints when it tells of no steps."""
        return self.last_step if self.account.steps else self.account.checkpoints


class Sink(Protocol):
    """Who gets snapshots. Nothing here raises, and nothing takes time but `join`, which has a limit."""

    name: str
    """What it is and where, as `scrtune status` says it."""

    @property
    def failure(self) -> str:
        """Why nobody sees anything there now; empty when all is well."""

    def give(self, snapshot: Snapshot) -> None:
        """Have this one shown, or written down."""

    def finish(self) -> None:
        """Be told that the last snapshot has been given."""

    def join(self, timeout_s: float) -> bool:
        """Whether everything is done within `timeout_s`."""


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """A copy, in which what comes behind the first hundred names is counted together."""
    if len(counts) <= _NAMED:
        return dict(counts)
    items = list(counts.items())
    return {**dict(items[:_NAMED]), OTHERS: sum(count for _, count in items[_NAMED:])}
