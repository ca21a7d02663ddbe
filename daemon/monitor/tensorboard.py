"""Snapshots as scalars for TensorBoard."""

from collections.abc import Iterator
from pathlib import Path

from ...goodput.buckets import CUSTOM, PRODUCTIVE
from ...goodput.ledger.ledger import Account, Window
from ...goodput.log.tensorboard import TensorBoard
from .snapshot import Snapshot

_PERCENT = 100.0


class TensorBoardScalars:
    """Goodput, badput and step deviations under ml-goodput-measurement's names, with our buckets, and more.

    Shares are in percent of the wall time, or of the window; the rest is in seconds. Raises ImportError where
    tensorboardX, or the protobuf that it needs, is not installed.
    """

    def __init__(self, directory: Path) -> None:
        self.name = f"scalars in {directory}"
        try:
            self._board = TensorBoard(directory)
        except Exception as error:  # not only ImportError: protobuf refuses generated code of another age
            raise ImportError(str(error)) from error

    def write(self, snapshot: Snapshot) -> None:
        """Add what `snapshot` says, once the job has begun. Raises OSError."""
        if not snapshot.is_begun:
            return
        for tag, value in _scalars(snapshot):
            self._board.add_scalar(tag, value, snapshot.progress, snapshot.time_s)
        for step, deviation_s in snapshot.deviations:
            self._board.add_scalar("step_deviation", deviation_s, step, snapshot.time_s)
        self._board.flush()


def _scalars(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    account = snapshot.account
    yield "goodput/goodput", _PERCENT * account.goodput
    yield "goodput/total_elapsed_time", account.wall_s
    yield "goodput/disruptions", max(0, account.runs - 1)
    yield "goodput/checkpoints", account.checkpoints
    if snapshot.ideal_step_s is not None:
        yield "goodput/max_productive_step", snapshot.last_step
        yield "goodput/ideal_step_time", snapshot.ideal_step_s
    if snapshot.status.checkpoint_cost_s:
        yield "checkpoint/cost_seconds", snapshot.status.checkpoint_cost_s
    yield "scrtune/settings_generation", snapshot.status.generation
    yield from _badput("badput", account)
    for window_s, window in snapshot.windows.items():
        yield f"rolling_goodput/{window_s}s", _PERCENT * window.goodput
        yield from _badput(f"rolling_badput/{window_s}s", window)


def _badput(label: str, account: Account | Window) -> Iterator[tuple[str, float]]:
    for bucket, spent_s in account.buckets.items():
        if bucket != PRODUCTIVE and account.wall_s > 0:
            yield f"{label}/{bucket.replace(CUSTOM, 'custom/').lower()}", _PERCENT * spent_s / account.wall_s
