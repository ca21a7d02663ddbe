"""The comparison of two settings, as it is believed."""

from typing import TYPE_CHECKING

import msgspec

from ...units import count_text

if TYPE_CHECKING:  # what only shows a comparison needs no numpy
    from .belief.model import Array


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Costs after a change against those before: `ratio` is after / before, `p_better` that after is cheaper.

    Of the posterior: `before_s` and `after_s` are medians, `low` and `high` the 90 % interval of the ratio.
    `checkpoints` were measured under the change.
    """

    checkpoints: int
    before_s: float
    after_s: float
    ratio: float
    low: float
    high: float
    p_better: float

    @property
    def text(self) -> str:
        """The ratio, its interval and the number of checkpoints, for people."""
        between = f"{self.low:.2f} to {self.high:.2f} with 90 %"
        seen = count_text(self.checkpoints, "checkpoint")
        ratio = f"{self.ratio:.2f} times the cost before ({between}) after {seen}"
        return f"{ratio}, cheaper with {self.p_better:.2f}"


def compare(before: "Array", after: "Array", checkpoints: int) -> Comparison:
    """Return the comparison of two believed costs, in seconds, an array over the ensemble each."""
    import numpy as np  # noqa: PLC0415 - see above

    low, ratio, high = (float(each) for each in np.quantile(after / before, (0.05, 0.5, 0.95)))
    return Comparison(
        checkpoints=checkpoints,
        before_s=float(np.median(before)),
        after_s=float(np.median(after)),
        ratio=ratio,
        low=low,
        high=high,
        p_better=float(np.mean(after < before)),
    )
