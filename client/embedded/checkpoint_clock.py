"""When a checkpoint is due: ``SCR_Need_checkpoint`` (scr.c:3059-3140). Pure; rank 0 decides for all."""

from dataclasses import dataclass

from .settings import Levers


@dataclass
class CheckpointClock:
    """What decides; `ended_s` is the end of the last checkpoint's encoding, or the start of the run."""

    ended_s: float
    calls: int = 0
    checkpoints: int = 0
    cost_s: float = 0.0

    def note(self, start_s: float, end_s: float) -> None:
        """A checkpoint went from `start_s` to the end of its encoding; as in SCR the flush does not count."""
        self.checkpoints += 1
        self.cost_s += max(0.0, end_s - start_s)
        self.ended_s = end_s

    def is_due(self, levers: Levers, now_s: float) -> bool:
        """Whether to checkpoint now. Without any of the three parameters the answer is always yes."""
        self.calls += 1
        if levers.interval <= 0 and levers.seconds <= 0 and levers.overhead_percent <= 0:
            return True
        if levers.interval > 0 and self.calls % levers.interval == 0:
            return True
        since_s = max(0.0, now_s - self.ended_s)
        if levers.seconds > 0 and since_s >= levers.seconds:
            return True
        return levers.overhead_percent > 0 and self._overhead_percent(since_s) < levers.overhead_percent

    def _overhead_percent(self, since_s: float) -> float:
        """The share of time a checkpoint would take now, by the mean cost; 0 while none is known."""
        if not self.checkpoints:
            return 0.0
        mean_s = self.cost_s / self.checkpoints
        total_s = since_s + mean_s
        return 100.0 * mean_s / total_s if total_s > 0 else 0.0
