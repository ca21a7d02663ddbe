"""An application's steps, when it reports none: what lies between SCR's calls is its work.

SCR has no call for a step. Without steps goodput would know of no productive time, and nothing would show how
much an asynchronous flush slows the application down. So this is a step:

- from the end of SCR_Need_checkpoint (or of SCR_Complete_output after it, or of SCR_Init before the first) to
  the next SCR_Need_checkpoint: one turn of the main loop of an application that asks in each;
- for an application that never asks, from the end of SCR_Complete_output to the next SCR_Start_output. Such a
  step is as long as the time between two checkpoints; to see what a flush costs, steps without a flush beside
  them must have been seen, too, such as those from before it became asynchronous.

A step's number is its checkpoint's dataset number, times 2**20, plus its place behind that checkpoint. These
numbers go on from run to run, so that the first step after a restart says how much of the work was lost: that
is what the ledger counts as wasted. An application that reads its old checkpoints without SCR, and does not
name them by SCR_Current, begins anew as far as anybody can know.
"""

from ..goodput.events import StepCompleted

_STEPS_BETWEEN_CHECKPOINTS = 1 << 20


class ImplicitSteps:
    """Notes SCR's calls; times are epoch seconds."""

    def __init__(self, now_s: float) -> None:
        self.has_explicit = False
        """Whether the application reports its own steps: then nothing else is one."""
        self._since_s = now_s
        self._dataset = self._count = 0
        self._asks = False

    def resumed(self, dataset: int, now_s: float) -> None:
        """The application is where it was after `dataset`: it wrote that checkpoint just now, or read it."""
        self._dataset, self._count, self._since_s = dataset, 0, now_s

    def paused(self, now_s: float) -> None:
        """A call of SCR's that says nothing of where the application is has ended."""
        self._since_s = now_s

    def asked(self, start_s: float, end_s: float) -> list[StepCompleted]:
        """SCR_Need_checkpoint; returns the step that it ended."""
        self._asks = True
        steps = self._step(start_s)
        self._since_s = end_s
        return steps

    def output_started(self, now_s: float) -> list[StepCompleted]:
        """SCR_Start_output was entered; what lies between a question and the output is no step."""
        return [] if self._asks else self._step(now_s)

    def _step(self, end_s: float) -> list[StepCompleted]:
        if self.has_explicit or end_s <= self._since_s:
            return []
        self._count += 1
        number = self._dataset * _STEPS_BETWEEN_CHECKPOINTS + self._count
        return [StepCompleted(step=number, start_s=self._since_s, end_s=end_s)]
