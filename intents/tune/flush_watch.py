"""The flushes beside a trial: what they show before the cost of its checkpoints is complete."""

from ...goodput.events import FlushCompleted, OutputCompleted


class FlushWatch:
    """Watches the flushes of a trial, and those up to dataset `after`, which are of other settings."""

    def __init__(self, after: int = 0) -> None:
        self._after = after
        self._others_until_s = 0.0
        self._has_flushed = False
        self._since_s: float | None = None
        """Since when a flush of the trial's is under way, or several."""

    def output(self, output: OutputCompleted) -> float:
        """Take in an output of the trial that begins a flush; return the seconds that it took.

        Without those of applying and observing, and without waiting for flushes of other settings.
        """
        waits_from_s = max(output.start_s, self._others_until_s)
        waited_s = max(0.0, output.start_s + output.wait_s - waits_from_s) if self._has_flushed else 0.0
        self._has_flushed = True
        if self._since_s is None:
            self._since_s = output.end_s
        took_s = output.end_s - output.start_s - output.apply_s - output.observe_s
        return took_s - output.wait_s + waited_s

    def flushed(self, flush: FlushCompleted) -> None:
        """Take in that a flush ended."""
        if flush.dataset <= self._after:
            self._others_until_s = flush.end_s
        else:
            self._since_s = None

    def under_way_s(self, time_s: float) -> float:
        """Return how long, at `time_s`, a flush of the trial's has been under way; 0: none is."""
        return 0.0 if self._since_s is None else max(0.0, time_s - self._since_s)
