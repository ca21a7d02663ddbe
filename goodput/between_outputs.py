"""What rank 0's thread does between outputs: for how long it runs, and for how long it waits for a core."""

from typing import NamedTuple

import msgspec

from .events import OutputCompleted

_REMEMBERED = 12
_NEARLY_ALL = 0.8


class _Gap(NamedTuple):
    """From the end of an output to the start of the next."""

    start_s: float
    end_s: float
    cpu_s: float
    run_delay_s: float


class BetweenOutputs(msgspec.Struct):
    """The last 12 times between two outputs of which the application told both."""

    gaps: list[_Gap] = []
    ended_s: float | None = None
    """When the last output did."""

    def add(self, output: OutputCompleted) -> None:
        """Take an output in, of whatever kind."""
        is_told = output.cpu_s + output.run_delay_s > 0
        if is_told and self.ended_s is not None and output.start_s > self.ended_s:
            self.gaps.append(_Gap(self.ended_s, output.start_s, output.cpu_s, output.run_delay_s))
            del self.gaps[:-_REMEMBERED]
        self.ended_s = output.end_s

    def waited_s(self, start_s: float, end_s: float) -> float | None:
        """Return how long it waited for a core in the gaps beside these times; None: not all are known."""
        beside = [each for each in self.gaps if each.end_s > start_s and each.start_s < end_s]
        known_s = sum(min(each.end_s, end_s) - max(each.start_s, start_s) for each in beside)
        is_known = bool(beside) and known_s > _NEARLY_ALL * (end_s - start_s)
        return sum(each.run_delay_s for each in beside) if is_known else None

    @property
    def busy_share(self) -> float:
        """The share of that time in which the thread ran or waited for a core; 0: not known."""
        return self._share(sum(each.cpu_s + each.run_delay_s for each in self.gaps))

    @property
    def waiting_share(self) -> float:
        """The share of it in which it waited for a core."""
        return self._share(sum(each.run_delay_s for each in self.gaps))

    def _share(self, seconds: float) -> float:
        """Return a share of 1 at most: the clocks differ a little."""
        whole_s = sum(each.end_s - each.start_s for each in self.gaps)
        return min(1.0, seconds / whole_s) if whole_s > 0 else 0.0
