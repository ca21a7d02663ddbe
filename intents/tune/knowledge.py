"""What earlier jobs taught: a prior for the next one of its kind, never a command."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ...units import count_text


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of one user, application, scale and machine taught under the same settings of the user's.

    `settings` are the cheapest that were found, only what differs from the user's own. `rates` has the mean
    and the standard deviation of the natural logarithm of each rate of the cost model, by its name.
    """

    jobs: int
    checkpoints: int
    """Observed in all of them."""
    settings: dict[str, int | float | str] = {}
    baseline_s: float = 0.0
    """Mean cost of a checkpoint under the user's own settings."""
    cost_s: float = 0.0
    """The same under `settings`."""
    rates: dict[str, tuple[float, float]] = {}
    time_s: float = 0.0
    """When the last of it was learnt, epoch seconds."""

    failures: Annotated[int, Meta(ge=0, le=2**32)] = 0
    """Of all these jobs, in `node_s` node-seconds."""
    node_s: Annotated[float, Meta(ge=0)] = 0.0

    def sentence(self) -> str:
        """Return it in one line for people."""
        own = f"{self.baseline_s:.3f} s each" if self.baseline_s > 0 else "not known what each cost"
        best = " ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        return (
            f"{count_text(self.jobs, 'earlier job')} with {count_text(self.checkpoints, 'checkpoint')}:"
            f" {own} under your settings, {self.cost_s:.3f} s with"
            f" {best or 'the best, which were yours'}"
        )
