"""An application's steps, when it reports none: what lies between SCR's calls is its work.

A step lasts from the end of SCR_Need_checkpoint (or of SCR_Complete_output after it, or of SCR_Init before
the first) to the next SCR_Need_checkpoint; for an application that never asks, from the end of
SCR_Complete_output to the next SCR_Start_output. Its number is its checkpoint's dataset number, times 2**20,
plus its place behind that checkpoint: the first step after a restart shows how much work was lost.
"""

from ..goodput.events import RestartCompleted, StepCompleted

_STEPS_BETWEEN_CHECKPOINTS = 1 << 20
_WAITING_LIMIT = 65_536


class ImplicitSteps:
    """Notes SCR's calls in a run that began at `now_s`; times are epoch seconds.

    `dataset` is the one that the run goes on from. None: its first output says, and steps wait for that.
    """

    def __init__(self, now_s: float, dataset: int | None = 0) -> None:
        self.has_explicit = False
        """Set when the application reports its own steps: then nothing else is one."""
        self._since_s = now_s
        self._dataset = dataset
        self._count = 0
        self._asks = False
        self._waiting: list[tuple[float, float]] = []

    def resumed(self, dataset: int, now_s: float) -> None:
        """The application is where it was after `dataset`: it wrote that checkpoint just now, or read it."""
        self._dataset, self._count, self._since_s = dataset, 0, now_s
        self._waiting.clear()

    def resumed_at(self, restart: RestartCompleted) -> None:
        """The application has read a checkpoint, if `restart` is valid and says which."""
        if restart.valid and restart.dataset:
            self.resumed(restart.dataset, restart.end_s)

    def paused(self, now_s: float) -> None:
        """A call of SCR's that says nothing of where the application is has ended."""
        self._since_s = now_s

    def asked(self, start_s: float, end_s: float) -> list[StepCompleted]:
        """SCR_Need_checkpoint; return the step that it ended."""
        self._asks = True
        steps = self._step(self._since_s, start_s)
        self._since_s = end_s
        return steps

    def output_started(self, now_s: float) -> list[StepCompleted]:
        """SCR_Start_output was entered; what lies between a question and the output is no step."""
        return [] if self._asks else self._step(self._since_s, now_s)

    def output(self, dataset: int, start_s: float, end_s: float, *, resumable: bool) -> list[StepCompleted]:
        """A whole output; return the steps before it. SCR counts datasets on from the one of a restart."""
        self._dataset = dataset - 1 if self._dataset is None else self._dataset
        steps = [step for times in self._waiting for step in self._step(*times)]
        self._waiting.clear()
        steps += self.output_started(start_s)
        if resumable:
            self.resumed(dataset, end_s)
        else:
            self.paused(end_s)
        return steps

    def _step(self, start_s: float, end_s: float) -> list[StepCompleted]:
        if self.has_explicit or end_s <= start_s:
            return []
        if self._dataset is None:
            if len(self._waiting) < _WAITING_LIMIT:
                self._waiting.append((start_s, end_s))
            return []
        self._count += 1
        number = self._dataset * _STEPS_BETWEEN_CHECKPOINTS + self._count
        return [StepCompleted(step=number, start_s=start_s, end_s=end_s)]
