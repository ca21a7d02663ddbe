"""What checkpoints show about rows of the belief: values with their covariance.

Noise of checkpoints is autocorrelated: checkpoints under the same settings are combined by generalised least
squares, with 10 % independent and 10 % AR(1) noise. A spike is a surprise once: costs are winsorised within
their settings.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from math import log
from statistics import fmean, median, median_low
from typing import NamedTuple

import numpy as np

from .model import LOWEST
from .observations import ObservedCheckpoint
from .shape import Array

INDEPENDENT, AUTOCORRELATED, CORRELATION = 0.10, 0.10, 0.7
_FEW_NOISE = 0.12
"""Of one or two observations nobody knows whether they are spikes."""
_PART_NOISE = 0.12
_RUN_NOISE = 0.2
"""SD of log costs between two runs of a job: slow noise does not average out within one."""
_HIGH, _LOW = 0.3, 0.5
SHOWN = 3
"""Observations under the same settings from which the median, not the lowest, is the middle."""
_MANY = 4
_AS_ONE = 3
"""So many slowdowns say as much as one: their noise is autocorrelated."""
_SLOWDOWN_NOISE, _USUAL_SLOWDOWN = 0.15, 0.3


class Row(IntEnum):
    """The rows of a candidate's prediction: natural logarithms of seconds, but for the slowdown."""

    UNFLUSHED = 0
    FLUSHED = 1
    SLOWDOWN = 2
    WRITE = 3
    ENCODE = 4
    FLUSH = 5
    FLUSH_CPU = 6
    """What the threads of a rank's flush take of cores."""
    CORES = 7
    """The part of a core that such a thread has when it wants one: with the last row, whether it is cores
    that a flush waits for, or storage."""


class RowSeen(NamedTuple):
    """A row of a candidate that was measured, and the number of checkpoints that show it."""

    candidate: int
    row: Row
    checkpoints: int


class Measured(NamedTuple):
    """Values of rows (n) and their covariance (n x n)."""

    rows: Sequence[RowSeen]
    values: Array
    covariance: Array


Known = Mapping[int, Sequence[ObservedCheckpoint]]
"""The observations of each candidate, oldest first."""


def measure(known: Known, between_s: float, threads: Array, slowdowns_s: Array) -> Measured:
    """Return what `known` shows; of each candidate `threads` copy, and `slowdowns_s` are believed."""
    groups = {
        (index, row): mine
        for index, seen in known.items()
        for row in (Row.FLUSHED, Row.UNFLUSHED)
        if (mine := [each for each in seen if each.flushed == (row is Row.FLUSHED)])
    }
    amplified = [
        median(each.amplification(between_s, threads[index]) for each in mine)
        for (index, _), mine in groups.items()
    ]
    blocking, covariance = _blocking(list(groups.values()), amplified)
    parts = [
        (index, part) for index, seen in known.items() for part in _parts(seen, float(slowdowns_s[index]))
    ]
    n, first = len(groups) + len(parts), len(groups)
    whole = np.zeros((n, n))
    whole[:first, :first] = covariance
    whole[range(first, n), range(first, n)] = [part.variance for _, part in parts]
    shared = [part.shared_error for _, part in parts]
    whole[first:, first:] += np.outer(shared, shared)
    rows = [RowSeen(index, row, len(mine)) for (index, row), mine in groups.items()]
    rows += [RowSeen(index, part.row, part.checkpoints) for index, part in parts]
    return Measured(rows, np.array([*blocking, *(part.value for _, part in parts)]), whole)


def _blocking(
    groups: Sequence[Sequence[ObservedCheckpoint]], amplifications: Sequence[float]
) -> tuple[Array, Array]:
    """Return the mean log of the blocking time of each group, and their covariance.

    Each group has an amplification of its noise: else observations with long waits would count as the surest.
    """
    seen = [each for group in groups for each in group]
    amplified = np.repeat(amplifications, [*map(len, groups)])
    member = np.repeat(np.eye(len(groups)), [len(group) for group in groups], axis=0)
    logged = np.concatenate([*map(_winsorised, groups, amplifications)])
    few = np.array([_FEW_NOISE**2 * (len(group) < SHOWN) for group in groups for _ in group])
    times, runs = np.array([each.time for each in seen]), np.array([each.run for each in seen])
    slow = AUTOCORRELATED**2 * CORRELATION ** np.abs(times[:, None] - times)
    noise = (runs[:, None] == runs) * (slow + _RUN_NOISE**2 * (len(set(runs.tolist())) > 1))
    noise = (noise + INDEPENDENT**2 * np.eye(len(seen))) * amplified[:, None] * amplified + np.diag(few)
    weights = member.T @ np.linalg.inv(noise)
    covariance = np.linalg.inv(weights @ member)
    return covariance @ (weights @ logged), covariance


def _winsorised(group: Sequence[ObservedCheckpoint], amplification: float) -> Array:
    logged = np.array([log(max(each.blocking_s, LOWEST)) for each in group])
    high = _HIGH * amplification
    if len(group) < SHOWN:
        return np.asarray(np.minimum(logged, logged.min() + high))
    middle = median(logged.tolist())
    return np.asarray(np.clip(logged, middle - _LOW, middle + high))


class _Part(NamedTuple):
    """A part of so many of a candidate's checkpoints; slowdowns of all share the error of their reference."""

    row: Row
    checkpoints: int
    value: float
    variance: float
    shared_error: float = 0.0


def _parts(seen: Sequence[ObservedCheckpoint], usual_slowdown_s: float) -> Iterator[_Part]:
    """Yield each part that was measured under one candidate."""
    if slowed := [each for each in seen if each.flushed and each.beside]:
        mean, variance = _weighted([(each.slowdown_s, each.slowdown_error_s) for each in slowed])
        shared_s = fmean(each.reference_error_s for each in slowed)
        scale = max(abs(mean) - shared_s, _USUAL_SLOWDOWN * usual_slowdown_s)
        variance += (_SLOWDOWN_NOISE * scale) ** 2 + LOWEST
        yield _Part(Row.SLOWDOWN, len(slowed), mean, variance, shared_s)
    for row, seconds in (
        (Row.WRITE, [each.write_s for each in seen]),
        (Row.ENCODE, [each.encode_s for each in seen if each.encode_s > 0]),
        (Row.FLUSH, [each.flush_s for each in seen if each.flush_s > 0]),
        (Row.FLUSH_CPU, [each.flush_cpu_s for each in seen if each.flush_cpu_s > 0]),
        (Row.CORES, [each.cores_of_flush for each in seen if each.flush_cpu_s > 0]),
    ):
        if seconds and max(seconds) > 0:
            logged = [log(max(each, LOWEST)) for each in seconds]
            yield _Part(row, len(logged), _middle(logged), _PART_NOISE**2 * (1 + 1 / len(logged)))


def _weighted(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of (value, SD) weighted by precision, the median of many, and its variance."""
    weights = [1 / (error * error + 1e-9) for _, error in values]
    lowest, highest = min(values), max(values)
    variance = min(len(weights), _AS_ONE) / sum(weights)
    if len(values) > _MANY or highest[0] - lowest[0] > 3 * (lowest[1] + highest[1]):  # or a hiccup
        return median_low(value for value, _ in values), variance
    return sum(w * value for w, (value, _) in zip(weights, values, strict=True)) / sum(weights), variance


def _middle(values: Sequence[float]) -> float:
    """Return the median; of two the lower one and a little, for the other may be a spike."""
    return min(values) + 0.05 if len(values) == 2 else median(values)  # noqa: PLR2004
