"""When the embedded engine says that a checkpoint is due."""

from dataclasses import dataclass

from .settings import Levers


@dataclass
class CheckpointClock:
    """Decides when a checkpoint is due, as ``SCR_Need_checkpoint`` does (scr.c:3059-3140).

    `ended_s` is the end of the last checkpoint's encoding, or the start of the run.
    """

    ended_s: float
    calls: int = 0
    checkpoints: int = 0
    cost_s: float = 0.0

    def note(self, start_s: float, end_s: float) -> None:
        """Add a checkpoint, from its start to the end of its encoding; as in SCR without its flush."""
        self.checkpoints += 1
        self.cost_s += max(0.0, end_s - start_s)
        self.ended_s = end_s

    def is_due(self, levers: Levers, now_s: float) -> bool:
        """Return whether to checkpoint now: always, when none of the three parameters is set."""
        self.calls += 1
        since_s = max(0.0, now_s - self.ended_s)
        mean_s = self.cost_s / max(1, self.checkpoints)
        overhead_percent = 100.0 * mean_s / (since_s + mean_s) if mean_s else 0.0
        return (
            max(levers.interval, levers.seconds, levers.overhead_percent) <= 0
            or (levers.interval > 0 and self.calls % levers.interval == 0)
            or (levers.seconds > 0 and since_s >= levers.seconds)
            or (levers.overhead_percent > 0 and overhead_percent < levers.overhead_percent)
        )
