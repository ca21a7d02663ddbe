"""How long a step takes by itself, and how much longer while a flush runs beside it."""

from collections import deque
from statistics import median

from .events import FlushCompleted, StepCompleted

_REMEMBERED_STEPS = 1024
_REFERENCE_STEPS = 64


class StepTimes:
    """The recent steps of one job, told apart by whether a flush was under way.

    A flush is announced when it starts (:meth:`flush_started`) and measured when it ends
    (:meth:`flush_completed`), because its true end is only known later.
    """

    def __init__(self) -> None:
        self._steps: deque[StepCompleted] = deque(maxlen=_REMEMBERED_STEPS)
        self._undisturbed: deque[float] = deque(maxlen=_REFERENCE_STEPS)
        self._unjudged: list[StepCompleted] = []
        self._running: dict[int, float] = {}

    def add(self, step: StepCompleted) -> None:
        """Take a step in. While a flush may be running it waits for that flush's verdict."""
        self._steps.append(step)
        if self._running:
            self._unjudged.append(step)
            del self._unjudged[:-_REMEMBERED_STEPS]
        else:
            self._undisturbed.append(step.end_s - step.start_s)

    @property
    def reference_s(self) -> float | None:
        """Median of the last steps without a flush beside them; None when there were none."""
        return median(self._undisturbed) if self._undisturbed else None

    def flush_started(self, dataset: int, start_s: float) -> None:
        """From now on steps may be disturbed by the flush of `dataset`.

        SCR runs one flush at a time: an earlier one that was never reported as ended has ended unheard.
        """
        self._running = {dataset: start_s}

    def flush_completed(self, flush: FlushCompleted) -> float:
        """Seconds that the steps beside this flush took longer than the reference, never negative.

        A step's excess is charged to the flush up to the time both ran together.
        """
        self._running.pop(flush.dataset, None)
        reference_s = self.reference_s
        slowdown_s = 0.0
        if reference_s is not None:
            slowdown_s = sum(_excess_s(step, flush, reference_s) for step in self._steps)
        self._judge(flush)
        return max(0.0, slowdown_s)

    def _judge(self, flush: FlushCompleted) -> None:
        """Steps that waited for `flush` and turn out undisturbed count for the reference again."""
        waiting: list[StepCompleted] = []
        for step in self._unjudged:
            if _overlap_s(step, flush.start_s, flush.end_s) > 0:
                continue
            if any(step.end_s > start_s for start_s in self._running.values()):
                waiting.append(step)
            else:
                self._undisturbed.append(step.end_s - step.start_s)
        self._unjudged = waiting


def _overlap_s(step: StepCompleted, start_s: float, end_s: float) -> float:
    return max(0.0, min(step.end_s, end_s) - max(step.start_s, start_s))


def _excess_s(step: StepCompleted, flush: FlushCompleted, reference_s: float) -> float:
    """A step faster than the reference gives credit: noise must cancel out over the steps of a flush."""
    together_s = _overlap_s(step, flush.start_s, flush.end_s)
    excess_s = step.end_s - step.start_s - reference_s
    return max(-together_s, min(together_s, excess_s)) if together_s > 0 else 0.0
