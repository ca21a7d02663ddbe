"""The expected rework: seconds of computation that a failure destroys because a checkpoint was not safe yet.

Failures take a node with the rate of Llama 3's training (419 unexpected interruptions in 54 days on 16,384
GPUs, 8 to a node: 1.97e-5 a GPU-hour). Until its flush has ended a checkpoint is lost with a node whose loss
its scheme does not survive; of those that it does, 15 % take more (cheap levels recover 85 % of failures:
LLNL, SC'10). What is lost then is the time since the newest checkpoint in the prefix directory.
"""

import numpy as np

from ...events import Values
from ...observe.faults.redundancy import SURVIVES, effective
from ...settings import is_cached
from .shape import Array

NODE_FAILURES_PER_S = 1.97e-5 * 8 / 3600
BEYOND_REDUNDANCY = 0.15


def losses_per_s(settings: Values, nodes: int) -> float:
    """Return the rate of failures that destroy what only the cache holds."""
    survived = SURVIVES.get(effective(str(settings["SCR_COPY_TYPE"]), nodes), 0)
    return is_cached(settings) * (BEYOND_REDUNDANCY if survived else 1.0) * NODE_FAILURES_PER_S * nodes


def exposure_s(every: Array | int, beside: Array | bool, between_s: float, flush_s: Array | float) -> Array:
    """Return the mean seconds of computation that only the cache holds, beyond the present interval's.

    Of datasets of which each `every`-th is flushed in `flush_s`, `beside` the computation or before it.
    """
    return np.asarray((every - 1) / 2 * between_s + beside * np.minimum(flush_s, between_s))


def expected_rework_s(losses_per_s: Array | float, between_s: float, exposed_s: Array | float) -> Array:
    """Return the seconds that failures are expected to cost a checkpoint, beyond those of a safe one."""
    return np.asarray(losses_per_s * between_s * exposed_s)
