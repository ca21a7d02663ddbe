"""What a copy costs, fitted to what the trace saw: seconds = calls x latency + bytes / bandwidth."""

from collections.abc import Iterable

import msgspec

_MIN_SIZES = 2
_MIN_CALLS = 8

CALL_PRIOR_S = 8e-6
"""Prior for one traced call of a copy, until the trace has two sizes: a write took 4.7-6.1 us under dftracer
2.2.0 and 0.75 us without; rounded up for the read that goes with it."""

CACHE_WRITE_PRIOR_BYTES_PER_S = 2 * 1024**3
"""Prior for writing into a memory cache, until the trace has seen one."""


def cached_write_prior_s(node_bytes: float, scheme: str, set_size: int) -> float:
    """Seconds to write one node's part of a checkpoint into a memory cache and encode it there.

    The cost model that fits the study's table: PARTNER reads and writes everything once more, XOR reads all
    and writes 1/(N-1) of it; one rate stands for memory, network and all, so that it is a lower bound.
    """
    copies = {"PARTNER": 2.0, "XOR": 1.0 + 1.0 / max(1, set_size - 1), "RS": 2.0}.get(scheme, 0.0)
    return node_bytes * (1.0 + copies) / CACHE_WRITE_PRIOR_BYTES_PER_S


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A copy's cost: a fixed part for each call, and a part for each byte."""

    latency_s: float
    seconds_per_byte: float
    calls: int

    def seconds(self, total_bytes: int, buffer_bytes: int) -> float:
        """Time to move `total_bytes` in calls of `buffer_bytes`."""
        return -(-total_bytes // max(1, buffer_bytes)) * self.latency_s + total_bytes * self.seconds_per_byte


def fit_transfer(samples: Iterable[tuple[float, int, float]]) -> Transfer | None:
    """Fit (size, count, seconds together) by least squares on the mean time per call, weighted by count.

    Both coefficients are kept at or above 0. None with fewer than two sizes or eight calls: a line needs
    two points. (Two unknowns have a closed form; a library for it would take every command seconds to load.)
    """
    cells = [(size, count, seconds / count) for size, count, seconds in samples if size > 0 and count > 0]
    calls = sum(count for _, count, _ in cells)
    if len(cells) < _MIN_SIZES or calls < _MIN_CALLS:
        return None
    mean_size = sum(size * count for size, count, _ in cells) / calls
    mean_s = sum(each_s * count for _, count, each_s in cells) / calls
    spread = sum(count * (size - mean_size) ** 2 for size, count, _ in cells)
    together = sum(count * (size - mean_size) * (each_s - mean_s) for size, count, each_s in cells)
    slope = together / spread
    if slope < 0:  # bigger calls are not slower: all of it is latency
        return Transfer(latency_s=mean_s, seconds_per_byte=0.0, calls=calls)
    latency_s = mean_s - slope * mean_size
    if latency_s < 0:  # calls cost nothing by themselves: the best line through the origin
        slope = sum(count * size * each_s for size, count, each_s in cells) / sum(
            count * size * size for size, count, _ in cells
        )
        return Transfer(latency_s=0.0, seconds_per_byte=slope, calls=calls)
    return Transfer(latency_s=latency_s, seconds_per_byte=slope, calls=calls)
