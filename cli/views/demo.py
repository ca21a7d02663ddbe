"""What a demo has measured: the job alone, tuned, and with what was found, from each start."""

from statistics import fmean

import msgspec

from ...daemon.views import ExplainView, StatusView
from ...intents.events import TextEnum

_LEAST_NOISE = 0.02


class DemoOutcome(TextEnum):
    """What tuning made of the time of the whole job; `same` is within what two runs without it differ by."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"


class DemoRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: seconds of the whole command, and of each step and each checkpoint by rank 0's clock."""

    step_s: tuple[float, ...]
    checkpoint_s: tuple[float, ...]
    whole_s: float = 0.0

    @property
    def rest_s(self) -> float:
        """Seconds of the command beside steps and checkpoints: start, end, the last flush."""
        return self.whole_s - sum(self.step_s) - sum(self.checkpoint_s)


class DemoComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The job from one start: `alone` before and after it ran `tuned`, and alone with what that `found`.

    `ratio` is the whole job's time to the mean of the two alone, `noise` what these differ by (as a share, at
    least 2 %).
    """

    start: str
    alone: tuple[DemoRun, DemoRun]
    tuned: DemoRun
    found: DemoRun | None
    ratio: float
    noise: float
    outcome: DemoOutcome
    status: StatusView
    explain: ExplainView


class DemoView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole demo, which took `seconds`."""

    comparisons: tuple[DemoComparison, ...]
    seconds: float


def judged(before_s: float, tuned_s: float, after_s: float) -> tuple[float, float, DemoOutcome]:
    """Return the ratio of the tuned job's time to that of the two alone, their noise, and the outcome."""
    alone_s = fmean((before_s, after_s))
    ratio, noise = tuned_s / alone_s, max(_LEAST_NOISE, abs(before_s - after_s) / alone_s)
    if abs(ratio - 1) <= noise:
        return ratio, noise, DemoOutcome.SAME
    return ratio, noise, DemoOutcome.FASTER if ratio < 1 else DemoOutcome.SLOWER
