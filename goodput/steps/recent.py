"""The last steps of a running job: what a step should take, and how far each was from that."""

from ..events import GoodputEvent, JobStarted, StepCompleted, StepStarted
from ..validation import span

_REMEMBERED = 1024
_WRITERS = 1024


class RecentSteps:
    """The last 1,024 steps by number; of several ranks' word on one step the slowest counts.

    A step whose end was not told lasts to the next start that its writer tells of: with sparse numbers each
    of the steps between has its share. What does not go upwards, or begins a run, ends no step.
    """

    def __init__(self) -> None:
        self.last = 0
        """The number of the last step that was heard of."""
        self._times_s: dict[int, float] = {}
        self._begun: dict[str, tuple[int, float]] = {}
        self._new: set[int] = set()

    def handle(self, event: GoodputEvent) -> None:
        """Take an event in; all but steps and starts of a run are passed over. Times must be finite."""
        match event:
            case JobStarted():
                self._begun.clear()
            case StepStarted():
                step, before_s = self._begun.get(event.writer, (event.step, event.time_s))
                self._begun[event.writer] = (event.step, event.time_s)
                if len(self._begun) > _WRITERS:
                    del self._begun[next(iter(self._begun))]
                if event.step > step:
                    self._add(step, (event.time_s - before_s) / (event.step - step))
                self.last = event.step
            case StepCompleted():
                start_s, end_s = span(event)
                self._add(event.step, end_s - start_s)
                self.last = event.step
            case _:
                pass

    @property
    def ideal_s(self) -> float | None:
        """What a step should take, in seconds (:func:`.estimators.ideal_s`); None before there is one."""
        from .estimators import ideal_s  # noqa: PLC0415 - numpy: who never asks shall not pay for it

        return ideal_s(list(self._times_s.values()))

    @property
    def deviation_s(self) -> float:
        """The mean distance of the remembered steps from the ideal one; 0 before there is a step."""
        from .estimators import deviations_s  # noqa: PLC0415 - numpy, as above

        ideal_s = self.ideal_s
        if ideal_s is None:
            return 0.0
        return float(deviations_s(list(self._times_s.values()), ideal_s).mean())

    def take_deviations(self) -> tuple[tuple[int, float], ...]:
        """Number and distance from the ideal (s) of each step since this was asked last, by number."""
        if not self._new or (ideal_s := self.ideal_s) is None:
            return ()
        from .estimators import deviations_s  # noqa: PLC0415 - numpy, as above

        steps = sorted(self._new)
        self._new.clear()
        found_s = deviations_s([self._times_s[step] for step in steps], ideal_s)
        return tuple(zip(steps, found_s.tolist(), strict=True))

    def _add(self, step: int, time_s: float) -> None:
        if time_s < 0:
            return
        known_s = self._times_s.get(step, 0.0) if step in self._new else 0.0
        self._times_s.pop(step, None)
        self._times_s[step] = max(known_s, time_s)
        self._new.add(step)
        if len(self._times_s) > _REMEMBERED:
            oldest = next(iter(self._times_s))
            del self._times_s[oldest]
            self._new.discard(oldest)
