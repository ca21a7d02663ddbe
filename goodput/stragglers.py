"""Ranks that hold the others up: who takes longer for the same steps.

Only times that a rank spent itself say so: told with both ends (:class:`StepCompleted`), before it waits for
the others. From start to start all ranks of a synchronous job take the same time, whoever was late.
"""

from collections.abc import Iterable
from statistics import median

import msgspec

from .events import StepCompleted

_ENOUGH_STEPS = 8
_REMEMBERED = 256
_WRITERS = 65_536


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """`writer` took `excess_s` (median, seconds) longer than the median rank, `ratio` times as long.

    It was so in `slow` of the `steps` that it and at least one other rank told of.
    """

    writer: str
    ratio: float
    excess_s: float
    steps: int
    slow: int


class RankSteps:
    """The last 256 steps of each rank, by number."""

    def __init__(self) -> None:
        self._times_s: dict[str, dict[int, float]] = {}

    def add(self, step: StepCompleted) -> None:
        """Take a step of a rank in; the slowest word of a rank on a step counts."""
        if step.writer not in self._times_s and len(self._times_s) >= _WRITERS:
            return
        times_s = self._times_s.setdefault(step.writer, {})
        times_s[step.step] = max(times_s.get(step.step, 0.0), step.end_s - step.start_s)
        if len(times_s) > _REMEMBERED:
            del times_s[min(times_s)]

    def extend(self, steps: Iterable[StepCompleted]) -> None:
        """Take many in."""
        for step in steps:
            self.add(step)

    def stragglers(self, *, ratio: float = 1.1) -> list[Straggler]:
        """Who took `ratio` times the median rank's time or more, in most of eight or more steps; worst first.

        A rank is held against the median of all ranks *at the same step*, so that steps that are slow for all
        are nobody's fault.
        """
        usual_s = self._usual_s()
        found = []
        for writer, times_s in self._times_s.items():
            common = [(times_s[step], usual_s[step]) for step in times_s if usual_s.get(step, 0.0) > 0]
            slow = sum(time_s >= ratio * middle_s for time_s, middle_s in common)
            if len(common) >= _ENOUGH_STEPS and 2 * slow > len(common):
                found.append(
                    Straggler(
                        writer=writer,
                        ratio=median(time_s / middle_s for time_s, middle_s in common),
                        excess_s=median(time_s - middle_s for time_s, middle_s in common),
                        steps=len(common),
                        slow=slow,
                    )
                )
        return sorted(found, key=lambda each: (-each.ratio, each.writer))

    def _usual_s(self) -> dict[int, float]:
        """Of each step that several ranks told of, the time of the median rank."""
        by_step: dict[int, list[float]] = {}
        for times_s in self._times_s.values():
            for step, time_s in times_s.items():
                by_step.setdefault(step, []).append(time_s)
        return {step: median(times_s) for step, times_s in by_step.items() if len(times_s) > 1}
