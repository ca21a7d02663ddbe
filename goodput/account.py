"""What a ledger answers: where the time of a job, or of a window of it, went."""

import msgspec

from .buckets import PRODUCTIVE


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What the time from `start_s` to `end_s` (epoch seconds) was spent on; `buckets` sums to `wall_s`."""

    start_s: float
    end_s: float
    wall_s: float
    buckets: dict[str, float]

    @property
    def goodput(self) -> float:
        """Productive time as a share of the window, 0 to 1."""
        return self.buckets[PRODUCTIVE] / self.wall_s if self.wall_s > 0 else 0.0


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a ledger at one moment; `buckets` sums to `wall_s`. No bucket is ever negative.

    The account begins at `start_s` (epoch seconds). `steps` counts the steps made, each once, however
    often it was computed. `checkpoints` counts SCR's valid ones; where no output of SCR was reported, the
    saves with both ends recorded (those that overlap, as of several ranks, are one). `recoveries`
    counts the datasets that SCR brought back, `node_failures` what its scripts said of nodes.
    `data_loading_async_s` is no bucket: it ran beside the steps. `skew_s` is how far the clocks of those who
    report steps are apart: every border between two buckets may be off by so much.
    """

    wall_s: float
    buckets: dict[str, float]
    steps: int = 0
    checkpoints: int = 0
    runs: int = 0
    recoveries: int = 0
    node_failures: int = 0
    start_s: float = 0.0
    data_loading_async_s: float = 0.0
    skew_s: float = 0.0

    @property
    def goodput(self) -> float:
        """Productive time as a share of the wall time, 0 to 1."""
        return self.buckets[PRODUCTIVE] / self.wall_s if self.wall_s > 0 else 0.0
