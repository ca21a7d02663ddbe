"""The expected rework: seconds of computation that a failure destroys because a checkpoint was not safe yet.

Failures take a node with the rate of Llama 3's training (419 unexpected interruptions in 54 days on 16,384
GPUs, 8 to a node: 1.97e-5 a GPU-hour). Until its flush has ended a checkpoint is lost with a node whose loss
its scheme does not survive; of those that it does, 15 % take more (cheap levels recover 85 % of failures:
LLNL, SC'10). What is lost then is the time since the newest checkpoint in the prefix directory.
"""

from ..events import Values
from ..observe.redundancy import SURVIVES, effective
from ..settings import flush_every, is_asynchronous, is_cached

NODE_FAILURES_PER_S = 1.97e-5 * 8 / 3600
BEYOND_REDUNDANCY = 0.15
USUAL_LOAD = 0.5
"""Share of the interval that an asynchronous flush is taken to last, where candidates are compared."""


def exposure_s(settings: Values, between_s: float, flush_s: float) -> float:
    """Return the mean seconds of computation that only the cache holds, beyond the present interval's."""
    if not is_cached(settings):
        return 0.0
    waiting_s = (flush_every(settings) - 1) / 2 * between_s
    return waiting_s + (min(flush_s, between_s) if is_asynchronous(settings) else 0.0)


def expected_rework_s(settings: Values, nodes: int, between_s: float, flush_s: float) -> float:
    """Return the seconds that failures are expected to cost a checkpoint, beyond those of a safe one."""
    lost = SURVIVES.get(effective(str(settings["SCR_COPY_TYPE"]), nodes), 0)
    share = BEYOND_REDUNDANCY if lost else 1.0
    return share * NODE_FAILURES_PER_S * nodes * between_s * exposure_s(settings, between_s, flush_s)
