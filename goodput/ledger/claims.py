"""Claims to stretches of a job's time, and what is done with rows in columns. Times are whole nanoseconds."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .launches import NEVER, NS

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Columns = TypeVar("Columns", bound=tuple[Any, ...])

NONE = np.zeros(0, np.int64)


class BucketClaims(NamedTuple):
    """Claims of buckets, by their codes."""

    start: Longs = NONE
    end: Longs = NONE
    code: Longs = NONE


class StepClaims(NamedTuple):
    """Claims of steps: each stands for `steps` of them from `number` on."""

    start: Longs = NONE
    end: Longs = NONE
    number: Longs = NONE
    steps: Longs = NONE


class Doubts(NamedTuple):
    """Steps whose ends are inferred; `limit` is what neighbours took; `first` of their run, `wasted`."""

    start: Longs = NONE
    end: Longs = NONE
    number: Longs = NONE
    steps: Longs = NONE
    limit: Longs = NONE
    first: Longs = NONE
    wasted: Longs = NONE


class Spans(NamedTuple):
    """Stretches of time; or ranges of numbers, of which a million in a row are one."""

    start: Longs = NONE
    end: Longs = NONE

    def clipped(self, begin: int, behind: int) -> "Spans":
        """Return what of them lies in [begin, behind), and takes time."""
        made = Spans(*(np.clip(each, begin, behind) for each in self))
        return where(made, made.end > made.start)

    def union(self) -> "Spans":
        """Return these in order, those that meet or overlap as one."""
        start, end = self
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        first = start > np.append(-NEVER - 1, reach)[:-1]
        return Spans(start[first], reach[np.append(first, np.True_)[1:]])

    def plus(self, more: "Spans") -> "tuple[Spans, Spans]":
        """Return the first of these, which are apart and in order, and the union of the others and more."""
        kept = int(np.searchsorted(self.end, more.start.min(initial=NEVER)))
        return where(self, slice(0, kept)), joined([where(self, slice(kept, None)), more]).union()

    @property
    def length(self) -> int:
        """The sum of their lengths."""
        return int((self.end - self.start).sum())

    def are_around(self, times: Longs) -> Flags:
        """Return which of `times` lie within one of them: behind its start, before its end."""
        order = np.argsort(self.start, kind="stable")
        reach = np.append(-NEVER, np.maximum.accumulate(self.end[order]))
        around: Flags = reach[np.searchsorted(self.start[order], times)] > times
        return around


def where(columns: Columns, index: Any) -> Columns:
    """Return the rows of a mask, a slice or indices."""
    return type(columns)(*(column[index] for column in columns))


def joined(parts: Sequence[Columns]) -> Columns:
    """Return all of `parts`, one behind the other."""
    parts = [each for each in parts if len(each[0])] or list(parts[:1])
    return parts[0] if len(parts) == 1 else type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def nanoseconds(seconds: Any) -> Longs:
    """Return whole nanoseconds."""
    return np.rint(np.array(seconds, np.float64) * NS).astype(np.int64)


def is_changed(*columns: npt.NDArray[Any]) -> Flags:
    """Return where any of the columns has another value than in the row before; the first row is one."""
    changed = np.ones(len(columns[0]), np.bool_)
    changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changed


def is_last(*columns: npt.NDArray[Any]) -> Flags:
    """Return where any of the columns has another value than in the next row; the last row is one."""
    return np.append(is_changed(*columns), np.True_)[1:]


def are_in_order(*columns: npt.NDArray[Any]) -> bool:
    """Return whether rows are in order of the columns, the first of which counts most, and all differ."""
    later: Any = np.zeros(max(0, len(columns[0]) - 1), np.bool_)
    for column in reversed(columns):
        later = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & later)
    return bool(later.all())


def distinct(values: Longs) -> Longs:
    """Return each value once, in order: numpy's `unique`, which hashes, takes eight times as long."""
    values = np.sort(values)
    return values[is_changed(values)]


def last_of_each(group: Longs, count: int) -> Flags:
    """Return which of rows in order of `group` are among the last `count` of theirs."""
    made: Flags = np.ones(len(group), np.bool_)
    made[:-count] = group[:-count] != group[count:]
    return made
