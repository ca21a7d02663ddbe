"""Claims to stretches of a job's time, and ranges of numbers, in columns. Times are whole nanoseconds."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .times import NS

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Columns = TypeVar("Columns", bound=tuple[Any, ...])

OPEN = 1 << 17
"""Marks the kind of a claim whose end is not known."""
KINDS = (1 << 16) - 1
"""What is left of a kind without its marks."""
SPARSE = 18
"""The kind of a step's claim, shifted by so many bits, says for how many more steps than one it stands."""
MOST_SPARSE = 1 << 32


class Claims(NamedTuple):
    """Claims in columns; `kind` is a code of :class:`scrtune.goodput.buckets.Codes`, with its marks.

    `step` is the number of the step, or NO_STEP.
    """

    start: Longs
    end: Longs
    kind: Longs
    step: Longs


class Doubts(NamedTuple):
    """Steps whose ends are inferred: `limit` is what their neighbours took; `first` of their run or not.

    Each stands for `steps`, if they are sparse.
    """

    start: Longs
    end: Longs
    step: Longs
    limit: Longs
    first: Longs
    steps: Longs


def where(columns: Columns, index: Any) -> Columns:
    """Return the rows of a mask, a slice or indices."""
    return type(columns)(*(column[index] for column in columns))


def joined(parts: Sequence[Columns]) -> Columns:
    """Return all of `parts`, one behind the other."""
    parts = [each for each in parts if len(each[0])] or list(parts[:1])
    return parts[0] if len(parts) == 1 else type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def empty(kind: type[Columns]) -> Columns:
    """Return columns without rows."""
    return kind(*(np.zeros(0, np.int64) for _ in kind._fields))  # type: ignore[attr-defined]


def nanoseconds(seconds: Any) -> Longs:
    """Return whole nanoseconds."""
    return np.rint(np.array(seconds, np.float64) * NS).astype(np.int64)


def is_changed(*columns: npt.NDArray[Any]) -> Flags:
    """Return where any of the columns has another value than in the row before; the first row is one."""
    changed = np.ones(len(columns[0]), np.bool_)
    if len(changed):
        changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changed


def last_of_each(group: Longs, count: int) -> Flags:
    """Return which of rows in order of `group` are among the last `count` of theirs."""
    made: Flags = np.ones(len(group), np.bool_)
    made[:-count] = group[:-count] != group[count:]
    return made


def reduced_by_key(which: Any, key: Longs, value: Longs, *, are_in_order: bool = True) -> tuple[Longs, Longs]:
    """Return the least or greatest value of each key; of keys in order some may come more than once."""
    if not are_in_order:
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
    begins = np.flatnonzero(is_changed(key))
    return key[begins], which.reduceat(value, begins) if len(begins) else value


class Ranges(NamedTuple):
    """Numbers in ranges [low, behind), in order, that neither meet nor overlap; `total` of them in all.

    A million steps in a row are one range.
    """

    low: Longs = np.zeros(0, np.int64)
    behind: Longs = np.zeros(0, np.int64)
    total: int = 0

    def plus(self, low: Longs, behind: Longs) -> "Ranges":
        """Return these ranges and more. Those that meet or overlap become one."""
        kept, more = self.replaced(low, behind)
        return Ranges(
            np.append(self.low[:kept], more.low), np.append(self.behind[:kept], more.behind), more.total
        )

    def replaced(self, low: Longs, behind: Longs) -> tuple[int, "Ranges"]:
        """Return how many of these ranges stay when more come, and those behind; `total` is that of all."""
        if not len(low):
            return len(self.low), Ranges(total=self.total)
        kept = int(np.searchsorted(self.behind, low.min()))
        gone = int((self.behind[kept:] - self.low[kept:]).sum())
        low, behind = np.append(self.low[kept:], low), np.append(self.behind[kept:], behind)
        if (low[1:] < low[:-1]).any():
            order = np.argsort(low, kind="stable")
            low, behind = low[order], behind[order]
        reach = np.maximum.accumulate(behind)
        first = np.ones(len(low), np.bool_)
        first[1:] = low[1:] > reach[:-1]
        low, behind = low[first], reach[np.append(first[1:], True)]
        return kept, Ranges(low, behind, self.total - gone + int((behind - low).sum()))
