"""The last steps of a running job: what a step should take, and how far each was from that."""

from statistics import fmean, median

from .events import GoodputEvent, JobStarted, StepCompleted, StepStarted
from .sanity import span

_REMEMBERED = 1024
_WRITERS = 1024
_DEVIATIONS = 3


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
        """The mean of the steps up to median + 3 median absolute deviations; None before there is one.

        It is the estimator of ml-goodput-measurement without its floor of a second a step.
        """
        if not self._times_s:
            return None
        times_s = list(self._times_s.values())
        middle_s = median(times_s)
        limit_s = middle_s + _DEVIATIONS * median(abs(each - middle_s) for each in times_s)
        return fmean(each for each in times_s if each <= limit_s)

    @property
    def deviation_s(self) -> float:
        """The mean distance of the remembered steps from the ideal one; 0 before there is a step."""
        ideal_s = self.ideal_s
        return 0.0 if ideal_s is None else fmean(abs(each - ideal_s) for each in self._times_s.values())

    def take_deviations(self) -> tuple[tuple[int, float], ...]:
        """Number and distance from the ideal (s) of each step since this was asked last, by number."""
        ideal_s = self.ideal_s
        if ideal_s is None:
            return ()
        taken = tuple((step, abs(self._times_s[step] - ideal_s)) for step in sorted(self._new))
        self._new.clear()
        return taken

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
