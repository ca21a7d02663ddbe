"""The last steps of a running job: the ideal step, and how far each was from it."""

from ..events import GoodputEvent, JobStarted, StepCompleted, StepStarted

_REMEMBERED = 1024
_WRITERS = 1024


class RecentSteps:
    """The last 1,024 steps by number, as in :func:`.table.step_table`; the slowest rank counts."""

    def __init__(self) -> None:
        self.last = 0
        """The number of the last step that was heard of."""
        self._steps: dict[int, tuple[float, int]] = {}
        """Seconds of one number, and how many there are up to the next."""
        self._begun: dict[str, tuple[int, float]] = {}
        self._new: set[int] = set()

    def handle(self, event: GoodputEvent) -> None:
        """Take an event in; all but steps and starts of a run are passed over. Times must be finite."""
        match event:
            case JobStarted():
                self._begun.clear()
            case StepStarted(step=step, time_s=time_s):
                before, before_s = self._begun.get(event.writer, (step, time_s))
                self._begun[event.writer] = (step, time_s)
                if len(self._begun) > _WRITERS:
                    del self._begun[next(iter(self._begun))]
                if (count := step - before) > 0:
                    self._add(before, (time_s - before_s) / count, count)
                self.last = step
            case StepCompleted(step=step):
                self._add(step, event.end_s - event.start_s, 1)
                self.last = step
            case _:
                pass

    @property
    def ideal_s(self) -> float | None:
        """What a step should take, in seconds (:func:`.table.ideal_s`); None before there is one."""
        return self._distances_s()[0]

    @property
    def deviation_s(self) -> float:
        """The mean distance of the remembered steps from the ideal one; 0 before there is a step."""
        found = self._distances_s()[1]
        return sum(found.values()) / len(found) if found else 0.0

    def take_deviations(self) -> tuple[tuple[int, float], ...]:
        """Number and distance from the ideal (s) of each step since this was asked last, by number."""
        new, self._new = sorted(self._new), set()
        found = self._distances_s()[1] if new else {}
        return tuple((step, found[step]) for step in new)

    def _distances_s(self) -> tuple[float | None, dict[int, float]]:
        from .table import ideal_s, usual_stride  # noqa: PLC0415 - numpy: only if asked

        if not self._steps:
            return None, {}
        times_s, counts = zip(*self._steps.values(), strict=True)
        stride = usual_stride(counts)
        took_s = [time_s * stride for time_s in times_s]
        ideal = ideal_s(took_s) or 0.0
        return ideal, {step: abs(each_s - ideal) for step, each_s in zip(self._steps, took_s, strict=True)}

    def _add(self, step: int, time_s: float, count: int) -> None:
        if time_s < 0:
            return
        known_s = self._steps.pop(step, (0.0, 1))[0]
        self._steps[step] = max(known_s if step in self._new else 0.0, time_s), count
        self._new.add(step)
        if len(self._steps) > _REMEMBERED:
            oldest = next(iter(self._steps))
            del self._steps[oldest]
            self._new.discard(oldest)
