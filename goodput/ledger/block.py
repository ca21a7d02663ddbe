"""A piece of a job's time line: claims in columns that grow and shrink, and what they add up to."""

from array import array

import numpy as np

from .claims import NEVER, Claims, Doubt, Longs

Row = tuple[int, int, int, int]
"""A claim: start, end, kind, step."""


class ClaimRows:
    """Claims that can be added and taken out. Those it begins with are shared until then, not copied."""

    __slots__ = ("_columns", "_shared")

    def __init__(self, claims: Claims | None = None) -> None:
        self._shared = claims
        self._columns: tuple[array[int], ...] = (
            () if claims is not None else tuple(array("q") for _ in Claims._fields)
        )

    def __len__(self) -> int:
        return len(self._shared.start if self._shared is not None else self._columns[0])

    def view(self) -> Claims:
        """All of them, to look at only: nothing can be added as long as it is kept."""
        return self._shared or Claims(*(np.frombuffer(column, np.int64) for column in self._columns))

    def copy(self) -> Claims:
        """All of them."""
        return Claims(*(column.copy() for column in self.view()))

    def append(self, claim: Row) -> None:
        """Take a claim in."""
        for column, value in zip(self._own(), claim, strict=True):
            column.append(value)

    def remove(self, claim: Row) -> bool:
        """Take a claim out; returns whether it was there."""
        same = [column == value for column, value in zip(self.view(), claim, strict=True)]
        found = np.flatnonzero(np.logical_and.reduce(same))
        if not len(found):
            return False
        for column in self._own():
            del column[int(found[-1])]
        return True

    def _own(self) -> tuple["array[int]", ...]:
        if self._shared is not None:
            self._columns = tuple(array("q", column.tobytes()) for column in self._shared)
            self._shared = None
        return self._columns


class Block:
    """Claims that start in [`lo`, `hi`), and `carried` ones that began before and reach into it.

    `row` is what they add up to: nanoseconds by code; None when that is not known. `most` is not below any
    of the numbers of steps that start here.
    """

    __slots__ = ("carried", "doubts", "hi", "lo", "most", "own", "row", "too_many")

    def __init__(self, lo: int, hi: int, claims: Claims | None = None, carried: Claims | None = None) -> None:
        self.lo, self.hi = lo, hi
        self.own, self.carried = ClaimRows(claims), ClaimRows(carried)
        self.doubts: list[Doubt] = []
        self.row: Longs | None = None
        self.most = -NEVER if claims is None else int(claims.step.max(initial=-NEVER))
        self.too_many = 0

    def append(self, claim: Row) -> None:
        """Take in a claim that starts here."""
        self.own.append(claim)
        self.most = max(self.most, claim[3])
