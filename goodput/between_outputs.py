"""What rank 0's thread does between outputs: for how long it runs, and for how long it waits for a core."""

from typing import NamedTuple

import msgspec

from .events import OutputCompleted

_REMEMBERED = 12


class _Gap(NamedTuple):
    """From the end of an output to the start of the next."""

    start_s: float
    end_s: float
    cpu_s: float
    run_delay_s: float


class Waits(NamedTuple):
    """For how long outputs were apart beside something, and rank 0 waited for a core in that time."""

    beside_s: float
    waited_s: float


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

    def waits(self, start_s: float, end_s: float) -> Waits | None:
        """Return the waits beside what was under way between these times; None: not all are told yet."""
        beside = [each for each in self.gaps if each.end_s > start_s and each.start_s < end_s]
        if not beside or self.ended_s is None or end_s > self.ended_s:
            return None
        computed_s = sum(min(each.end_s, end_s) - max(each.start_s, start_s) for each in beside)
        return Waits(computed_s, sum(each.run_delay_s for each in beside))

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
