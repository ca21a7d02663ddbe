"""How often a job fails: what was believed before, what was seen, and how sure that makes us.

The rate r, in units of which the median is the expectation, has the density r^(a - 1) / (1 + r)^(2 a + 1), a
Gamma distribution with an uncertain scale; with n failures in T seconds that times r^n exp(-r T), summed over
log r, where it has one peak. The share that the cache survives has a Beta distribution. `docs/interval.md`
has the reasons.
"""

from collections.abc import Sequence
from math import log, sqrt
from typing import TYPE_CHECKING

import msgspec

from .failures import Failures
from .model import IntervalError, require

# numpy and scipy are slow to load: who never asks shall not pay for them
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NODE_MTBF_S = 54 * 86_400 * (16_384 / 8) / 419
"""Llama 3 (Meta 2024): 419 unexpected interruptions in 54 days on 16,384 accelerators, 8 in a node."""
RATE_WEIGHT = 1.0
"""Less says next to nothing, more takes many failures to correct (`docs/interval.md`)."""
NODE_LOSS_SHARE = 0.85
"""Share of the failures that levels cheaper than the prefix directory recovered (A. Moody et al., SC'10)."""
PROCESS_SHARE = 0.16
"""Share that plausibly ends only the process, of Llama 3's: all that a cache without redundancy survives."""
SHARE_WEIGHT = 4.0
"""Failures that either share counts as: there is less between machines than in their rates."""
_SURELY = 1e-9
_SOONEST = 1e-12
_NEGLIGIBLE = 40.0
_POINTS = 2001
_FIRST_REACH, _FURTHER = 1e-4, 1.25


class FailurePrior(msgspec.Struct, frozen=True, kw_only=True):
    """The job's median MTBF as believed, and how sure; caches survive `cache_share`. Raises IntervalError."""

    mtbf_s: float
    weight: float = RATE_WEIGHT
    cache_share: float = NODE_LOSS_SHARE
    share_weight: float = SHARE_WEIGHT
    source: str = "your own"

    def __post_init__(self) -> None:
        for name in ("mtbf_s", "weight", "share_weight"):
            require(**{f"prior: {name}": getattr(self, name)})
        if not 0 < self.cache_share < 1:
            raise IntervalError(f"prior: cache_share is {self.cache_share}: it must lie between 0 and 1")

    @property
    def unit_s(self) -> float:
        """One over the unit of rates, chosen so that `mtbf_s` is the median."""
        if self.weight == RATE_WEIGHT:  # the same without scipy, which takes the daemon half a second
            return self.mtbf_s * (sqrt(2) - 1)
        from scipy.special import betaincinv  # type: ignore[import-untyped] # noqa: PLC0415

        median = float(betaincinv(self.weight, self.weight + 1, 0.5))
        return self.mtbf_s * median / (1 - median)


def typical(nodes: int, *, survives_node: bool = True) -> FailurePrior:
    """Return the prior of nodes that fail as in Llama 3's training; the cache may survive the loss of one."""
    if nodes < 1:
        raise IntervalError(f"nodes is {nodes}: a job has at least one")
    many = "a node that fails" if nodes == 1 else f"{nodes} nodes that fail"
    return FailurePrior(
        mtbf_s=NODE_MTBF_S / nodes,
        cache_share=NODE_LOSS_SHARE if survives_node else PROCESS_SHARE,
        source=f"{many} as often as those of Llama 3's training, every {NODE_MTBF_S / 3600:,.0f} h each",
    )


class Posterior(msgspec.Struct, frozen=True, kw_only=True):
    """The rate, by `failures` in `time_s` and the `prior`, and the share that the cache survives (Beta)."""

    failures: int
    time_s: float
    prior: FailurePrior
    cache: float
    prefix: float

    @property
    def mtbf_s(self) -> float:
        """One over the mean rate, to decide by: to first order, costs are linear in the rate."""
        import numpy as np  # noqa: PLC0415

        logs, shares = self._log_rates()
        return self.prior.unit_s / float(np.sum(np.exp(logs) * shares))

    @property
    def half_within(self) -> float:
        """The factor from the median within which the MTBF lies with a probability of one half."""
        low_s, high_s = self.mtbfs_s([0.25, 0.75])
        return sqrt(high_s / low_s)

    def mtbfs_s(self, probabilities: Sequence[float]) -> list[float]:
        """The MTBFs below which it lies with these probabilities, each above 0 and below 1."""
        import numpy as np  # noqa: PLC0415

        logs, shares = self._log_rates()
        found = np.interp([1 - each for each in probabilities], np.cumsum(shares) - shares / 2, logs)
        return [self.prior.unit_s * float(time) for time in np.exp(-found)]

    @property
    def cache_share(self) -> float:
        """The mean share of failures that the cache survives."""
        return self.cache / (self.cache + self.prefix)

    def cache_shares(self, probabilities: Sequence[float]) -> list[float]:
        """The shares below which it lies with these probabilities; neither 0 nor 1."""
        from scipy.special import betaincinv  # noqa: PLC0415

        shares = betaincinv(self.cache, self.prefix, probabilities)
        return [min(1 - _SURELY, max(_SURELY, float(share))) for share in shares]

    def _log_rates(self) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """The logs of rates in units, evenly spaced over all that matter, and the share of each."""
        import numpy as np  # noqa: PLC0415

        seen, watched = self.failures + self.prior.weight, max(_SOONEST, self.time_s / self.prior.unit_s)
        slope = 2 * self.prior.weight + 1

        def log_density(x: "NDArray[np.float64] | float") -> "NDArray[np.float64]":
            return np.asarray(seen * x - watched * np.exp(x) - slope * np.logaddexp(0, x))

        def reach(side: int) -> float:
            """Where, on that side of the peak, the density is negligible."""
            reach = _FIRST_REACH
            while log_density(peak + side * reach) > least:
                reach *= _FURTHER
            return peak + side * reach

        half = self.prior.weight + 1 + watched - self.failures  # the peak is the root of a quadratic equation
        root = sqrt(half * half + 4 * watched * seen)
        peak = log(2 * seen / (half + root) if half > 0 else (root - half) / (2 * watched))
        least = float(log_density(peak)) - _NEGLIGIBLE
        logs = np.linspace(reach(-1), reach(1), _POINTS)
        shares = np.exp(log_density(logs) - least - _NEGLIGIBLE)
        return logs, shares / shares.sum()


def posterior(failures: Failures, prior: FailurePrior) -> Posterior:
    """What the prior and the failures seen come to."""
    return Posterior(
        failures=failures.total,
        time_s=failures.observed_s,
        prior=prior,
        cache=prior.share_weight * prior.cache_share + failures.cache,
        prefix=prior.share_weight * (1 - prior.cache_share) + failures.prefix,
    )
