"""What earlier jobs taught: a prior for the next one, never a command."""

import msgspec

from ..events import Values


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What was learnt in `jobs` with `checkpoints` observed in all."""

    jobs: int = 0
    checkpoints: int = 0
    settings: Values = {}
    baseline_s: float = 0.0
    cost_s: float = 0.0
    rates: dict[str, tuple[float, float]] = {}
    time_s: float = 0.0
