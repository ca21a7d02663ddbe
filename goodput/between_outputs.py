"""What rank 0's thread does between outputs: for how long it runs, and for how long it waits for a core."""

from math import hypot
from typing import NamedTuple

import msgspec

from .events import OutputCompleted

_REMEMBERED = 12
_OF_THE_SYSTEM = 0.005
"""Share of any time for which rank 0 waits for what the operating system does: 0.1 to 1 % is usual."""
WAITING_DOUBT, _OF_OTHERS = 0.5, 1.25
"""Of what rank 0 waited for cores: others than the flush use them, too, and other ranks may wait longer."""
_COPYING, _INTERFERENCE, _INTERFERENCE_DOUBT = 1 / 3, 0.06, 0.15
"""Of a flush, where nobody tells, the share in which its threads copy; of that, what it takes by memory,
which no core tells."""


class _Gap(NamedTuple):
    """From the end of an output to the start of the next."""

    start_s: float
    end_s: float
    cpu_s: float
    run_delay_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


class Waits(NamedTuple):
    """For how long the application computed beside something, and rank 0 waited for a core meanwhile.

    That is known of a whole gap: give or take `doubt_s` where something else filled a part of it, in which
    the rank may have waited, too. For `copying_s` of the time beside them the threads of a flush copied,
    however long they then waited for storage.
    """

    beside_s: float
    waited_s: float
    doubt_s: float
    copying_s: float

    @property
    def slowdown_s(self) -> float:
        """By how much the computation took longer."""
        return min(self.beside_s, _OF_OTHERS * self.waited_s + _INTERFERENCE * self.copying_s)

    @property
    def error_s(self) -> float:
        """The SD of that."""
        return hypot(self.doubt_s, WAITING_DOUBT * self.waited_s, _INTERFERENCE_DOUBT * self.copying_s)


class BetweenOutputs(msgspec.Struct):
    """The last 12 times between two outputs of which the application told both."""

    gaps: list[_Gap] = []
    ended_s: float | None = None
    """When the last output did."""
    told_from_s: float = 0.0
    """From then on all gaps are told, and remembered."""

    def add(self, output: OutputCompleted) -> None:
        """Take an output in, of whatever kind."""
        is_told = output.cpu_s + output.run_delay_s > 0
        if is_told and self.ended_s is not None and output.start_s > self.ended_s:
            self.gaps.append(_Gap(self.ended_s, output.start_s, output.cpu_s, output.run_delay_s))
            for forgotten in self.gaps[:-_REMEMBERED]:
                self.told_from_s = forgotten.end_s
            del self.gaps[:-_REMEMBERED]
        else:
            self.told_from_s = output.start_s
        self.ended_s = output.end_s

    def waits(self, start_s: float, end_s: float, cpu_s: float = 0.0) -> Waits | None:
        """Return the waits beside a flush between these times, whose threads had a core for `cpu_s` together.

        None where not all are told. A flush of which that is not known (0) is taken to copy for a third.
        """
        if start_s < self.told_from_s or not self.is_told(end_s):
            return None
        overlaps = ((each, min(each.end_s, end_s) - max(each.start_s, start_s)) for each in self.gaps)
        beside = [(gap, overlap_s) for gap, overlap_s in overlaps if overlap_s > 0]
        if not beside:
            return None
        beside_s = sum(overlap_s for _, overlap_s in beside)
        had_core_s = min(cpu_s or beside_s, beside_s)
        least_s = sum(min(1.0, gap.run_delay_s / gap.length_s) * overlap_s for gap, overlap_s in beside)
        most_s = max(least_s, min(had_core_s, sum(min(gap.run_delay_s, own_s) for gap, own_s in beside)))
        usual_s = sum(_OF_THE_SYSTEM * (gap.length_s - overlap_s) for gap, overlap_s in beside)
        waited_s = max(least_s, min(most_s, sum(gap.run_delay_s for gap, _ in beside) - usual_s))
        copying_s = min(cpu_s or _COPYING * beside_s, beside_s)
        return Waits(beside_s, (waited_s + least_s) / 2, (most_s - least_s) / 2, copying_s)

    def is_told(self, end_s: float) -> bool:
        """Return whether an output has ended since, which told what there was to tell."""
        return self.ended_s is not None and end_s <= self.ended_s

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
        whole_s = sum(each.length_s for each in self.gaps)
        return min(1.0, seconds / whole_s) if whole_s > 0 else 0.0
