"""Checkpoints of different sizes, made comparable: what is seen of one is a rate, not a number of seconds."""

from collections import deque
from statistics import median_low

from msgspec.structs import replace

from ....goodput.checkpoint_cost import CheckpointCost

_LAST = 5
_ANOTHER = 1.25
PROPORTIONAL = (
    "blocking_s",
    "write_s",
    "encode_s",
    "flush_s",
    "flush_cpu_s",
    "flush_delay_s",
    "wait_s",
    "slowdown_s",
    "slowdown_error_s",
    "reference_error_s",
)
"""To the bytes of a checkpoint, as far as is known."""


class UsualSize:
    """The size to which the seconds of a job's checkpoints are scaled: the median of the last five.

    It moves when that has become another by a quarter.
    """

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_LAST)
        self._bytes = 0

    def add(self, size_bytes: int) -> float:
        """Take in a checkpoint; return how many times as large the usual one is from now on."""
        if size_bytes <= 0:
            return 1.0
        self._last.append(size_bytes)
        usual, before = median_low(self._last), self._bytes or size_bytes
        if not self._bytes or not 1 / _ANOTHER < usual / before < _ANOTHER:
            self._bytes = usual
        return self._bytes / before

    def share(self, size_bytes: int) -> float:
        """Return how many times as large as the usual one a checkpoint is; 1 where its size is not known."""
        return size_bytes / self._bytes if size_bytes > 0 and self._bytes else 1.0


def scaled(cost: CheckpointCost, by: float) -> CheckpointCost:
    """Return what a checkpoint `by` times as large would have cost, after as much computation."""
    if by == 1:
        return cost
    return replace(
        cost,
        bytes=round(cost.bytes * by),
        blocked_on_flush_s=cost.blocked_on_flush_s * by,
        **{name: by * getattr(cost, name) for name in PROPORTIONAL},
    )
