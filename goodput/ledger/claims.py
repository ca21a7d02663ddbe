"""Claims to stretches of a job's time, in columns. All times are whole nanoseconds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]

NEVER = 1 << 62

DERIVED = 1 << 16
"""Marks the kind of a claim that was worked out from starts and ends, and can be worked out again."""
OPEN = 1 << 17
"""Marks the kind of a derived claim whose end was not told."""
KINDS = DERIVED - 1
"""What is left of a kind without its marks."""
SPARSE = 18
"""The kind of a step's claim, shifted by so many bits, says for how many more steps than one it stands."""
MOST_SPARSE = 1 << 32


class Doubt(NamedTuple):
    """A step whose end is inferred: `limit` is what its neighbours took; `first` of its run or not.

    It stands for `steps`, if they are sparse.
    """

    start: int
    end: int
    step: int
    limit: int
    first: int
    steps: int = 1


class Claims(NamedTuple):
    """Claims in columns; `kind` is a code of :class:`scrtune.goodput.buckets.Codes`, with its marks."""

    start: Longs
    end: Longs
    kind: Longs
    step: Longs

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int]]) -> "Claims":
        """The same claims from a row for each."""
        made = np.array(rows, np.int64).reshape(-1, 4)
        return cls(made[:, 0], made[:, 1], made[:, 2], made[:, 3])

    def where(self, mask: npt.NDArray[np.bool_]) -> "Claims":
        """Those that `mask` says."""
        if mask.all():
            return self
        return Claims(self.start[mask], self.end[mask], self.kind[mask], self.step[mask])

    def at(self, index: Longs | slice) -> "Claims":
        """Those with these indexes."""
        return Claims(*(column[index] for column in self))

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """A row for each."""
        return zip(*(column.tolist() for column in self), strict=True)

    def split(self, time: int) -> tuple["Claims", "Claims"]:
        """Of claims in order, those that start before `time`, and a copy of the others."""
        at = int(np.searchsorted(self.start, time))
        return Claims(*(column[:at] for column in self)), Claims(*(column[at:].copy() for column in self))


def joined(parts: Sequence[Claims]) -> Claims:
    """All of `parts`, one behind the other."""
    parts = [each for each in parts if len(each.start)] or parts[:1]
    return (
        parts[0] if len(parts) == 1 else Claims(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    )
