"""The cost model: the seconds of a checkpoint's parts under any settings, from rates with uncertainty.

The formulas are those that fit the LLNL study (`docs/tuning.md`): the application writes at the rate of the
tier; XOR reads everything and sends 1/(N-1) of it, PARTNER reads and sends everything; a flush is the
makespan of a rank's files over its threads, a file never split, each thread limited by its share of the
node's rate, and more so when it is bound to the application's cores; a flush beside the computation takes
cores from it.

Every rate is an array of `MEMBERS` values drawn from its prior, and so is every result: one value for each
member of the ensemble (:mod:`.belief`). With arrays of one value it is an ordinary function.
"""

from collections.abc import Mapping
from math import exp
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..events import Values
from ..observe.redundancy import effective
from ..rules.situation import MAX_FLUSH_THREADS
from ..settings import flush_every, is_asynchronous, is_cached, number

GIB = 1024**3
MEMBERS = 192
_METADATA_THREADS = 4
"""Threads beyond these do not make more files a second (metadata servers serialise)."""
_PROCESSOR_CACHE_BYTES = 4 * 1024**2
"""A copy buffer beyond it goes through memory once more: jobs with 32 MiB took 1.3 to 1.5 times as long."""
_LOWEST = 1e-6

Array = NDArray[np.float64]


class Prior(msgspec.Struct, frozen=True):
    """A lognormal prior: its median, and the SD of the natural logarithm."""

    median: float
    spread: float

    @classmethod
    def of_log(cls, mean: float, spread: float) -> "Prior":
        """Return the prior with this mean of the logarithm."""
        return cls(exp(mean), spread)


PRIORS: dict[str, Prior] = {
    "cache_bytes_per_s": Prior(4 * GIB, 0.9),
    "cache_fixed_s": Prior(0.03, 1.2),
    "cache_file_s": Prior(1e-4, 1.0),
    "thread_bytes_per_s": Prior(0.5 * GIB, 0.6),
    "prefix_bytes_per_s": Prior(2 * GIB, 0.8),
    "prefix_file_s": Prior(2e-3, 1.1),
    "writer_share": Prior(0.9, 0.35),
    "bound_share": Prior(0.55, 0.25),
    "largest_file": Prior(0.25, 0.7),
    "call_s": Prior(8e-6, 0.7),
    "cache_misses": Prior(0.08, 1.0),
    "encode_read_bytes_per_s": Prior(3 * GIB, 0.8),
    "encode_send_bytes_per_s": Prior(2 * GIB, 0.9),
    "encode_xor_bytes_per_s": Prior(3 * GIB, 0.8),
    "message_s": Prior(1.5e-5, 0.7),
    "contention": Prior(0.4, 0.7),
    "thread_cores": Prior(0.5, 0.35),
    "interference": Prior(0.02, 1.0),
}
"""Rates of a node, seconds a file, call or message, and shares: what a job does not know before it has run.

`writer_share` is the application's rate against a flush thread's, `bound_share` what is left of a flush
thread's rate on the application's cores (study: 0.293/0.549), `thread_cores` the cores that a flush thread
keeps busy, `contention` the loss of computation for each stolen core, `interference` that without one.
Sources: the study, measurements on SCR 3.1.0 and AXL, wide where machines differ."""

_AT_MOST = {"bound_share": 1.0, "largest_file": 1.0}

Rates = Mapping[str, Array]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A job as far as the model needs it; `rank_bytes` and `files` are one rank's, `used_cores` as well.

    `between_s` is the computation between two checkpoints, `mask_cores` the CPUs in a rank's mask.
    """

    nodes: int
    ranks_per_node: int
    rank_bytes: float
    files: int
    between_s: float
    cores: int
    used_cores: float
    mask_cores: int

    @property
    def bound(self) -> bool:
        """True when the ranks, and flush threads with them, keep to a part of the node's CPUs."""
        return self.mask_cores < self.cores


class Parts(NamedTuple):
    """Seconds of a checkpoint's parts, an array over the ensemble each; a flush may block or not."""

    write_s: Array
    encode_s: Array
    flush_s: Array
    wait_s: Array
    slowdown_s: Array


def draw_rates(
    rng: np.random.Generator, priors: Mapping[str, Prior], members: int = MEMBERS
) -> dict[str, Array]:
    """Return `members` draws of every rate, in the order of :data:`PRIORS`."""
    drawn = {}
    for name, prior in priors.items():
        drawn_rates = prior.median * np.exp(prior.spread * rng.standard_normal(members))
        drawn[name] = np.minimum(drawn_rates, _AT_MOST.get(name, np.inf))
    return drawn


def flush_threads(settings: Values, shape: Shape) -> int:
    """Return the threads that copy a rank's files: the lever's value, else AXL's own number."""
    if settings.get("SCR_FLUSH_TYPE") == "SYNC":
        return 1
    default = min(max(1, shape.cores), MAX_FLUSH_THREADS)
    return min(shape.files, number(settings, "SCRTUNE_FLUSH_THREADS") or default)


class Model:
    """Predicts the parts of a checkpoint; parts that settings share are computed once."""

    def __init__(self, shape: Shape, rates: Rates) -> None:
        self.shape, self.rates = shape, rates
        self._none = np.zeros_like(rates["call_s"])
        self._known: dict[tuple[object, ...], Array] = {}

    def parts(self, settings: Values) -> Parts:
        """Return what a checkpoint under `settings` costs; the flush as if this one is flushed."""
        if not is_cached(settings):
            return Parts(self._direct(), *[self._none] * 4)
        write_s, encode_s = self._cached(), self._encode(settings)
        flush_s = self._flush(settings)
        if not is_asynchronous(settings):
            return Parts(write_s, encode_s, flush_s, self._none, self._none)
        return Parts(
            write_s, encode_s, flush_s, self._wait(settings, flush_s), self._slowdown(settings, flush_s)
        )

    def _direct(self) -> Array:
        rates, shape = self.rates, self.shape
        together = shape.ranks_per_node * rates["thread_bytes_per_s"] * rates["writer_share"]
        node_bytes = shape.rank_bytes * shape.ranks_per_node
        return (
            node_bytes / np.minimum(rates["prefix_bytes_per_s"], together)
            + shape.files * rates["prefix_file_s"]
        )

    def _cached(self) -> Array:
        rates, shape = self.rates, self.shape
        node_bytes = shape.rank_bytes * shape.ranks_per_node
        return (
            node_bytes / rates["cache_bytes_per_s"]
            + rates["cache_fixed_s"]
            + shape.files * rates["cache_file_s"]
        )

    def _encode(self, settings: Values) -> Array:
        shape, rates = self.shape, self.rates
        scheme = effective(str(settings["SCR_COPY_TYPE"]), shape.nodes)
        if scheme == "SINGLE":
            return self._none
        node_bytes = shape.rank_bytes * shape.ranks_per_node
        others = max(1, min(number(settings, "SCR_SET_SIZE"), shape.nodes) - 1)
        sent = {"PARTNER": 1.0, "RS": 2.0}.get(scheme, 1.0 / others)
        messages = shape.rank_bytes / max(1, number(settings, "SCR_MPI_BUF_SIZE"))
        xor_s = 0.0 if scheme == "PARTNER" else node_bytes / rates["encode_xor_bytes_per_s"]
        moved_s = (
            node_bytes / rates["encode_read_bytes_per_s"]
            + sent * node_bytes / rates["encode_send_bytes_per_s"]
        )
        return np.asarray(moved_s + xor_s + messages * rates["message_s"])

    def _is_bound(self, settings: Values) -> bool:
        return self.shape.bound and not settings.get("SCRTUNE_FLUSH_CPUS")

    def _flush(self, settings: Values) -> Array:
        threads, is_bound = flush_threads(settings, self.shape), self._is_bound(settings)
        buffer_bytes = max(1, number(settings, "SCR_FILE_BUF_SIZE"))
        key = ("flush", threads, is_bound, buffer_bytes)
        if key not in self._known:
            self._known[key] = self._makespan(threads, is_bound, buffer_bytes)
        return self._known[key]

    def _makespan(self, threads: int, is_bound: bool, buffer_bytes: int) -> Array:
        shape, rates = self.shape, self.rates
        share = rates["bound_share"] if is_bound else 1.0
        one = rates["thread_bytes_per_s"] * share
        cap = rates["prefix_bytes_per_s"] / shape.ranks_per_node * share
        largest = (
            np.maximum(rates["largest_file"] if shape.files > 1 else 1.0, 1 / shape.files) * shape.rank_bytes
        )
        copy_s = np.maximum(largest / np.minimum(one, cap), shape.rank_bytes / np.minimum(threads * one, cap))
        if buffer_bytes > _PROCESSOR_CACHE_BYTES:
            copy_s = copy_s * (1 + rates["cache_misses"])
        calls_s = shape.rank_bytes / buffer_bytes * rates["call_s"] / threads
        files_s = shape.files * rates["prefix_file_s"] / min(threads, _METADATA_THREADS)
        return np.asarray(copy_s + calls_s + files_s)

    def _wait(self, settings: Values, flush_s: Array) -> Array:
        """Return what a checkpoint waits, in the long run, for flushes that outlast the interval."""
        room_s = 0.0 if number(settings, "SCR_CACHE_SIZE") <= 1 else self._cached()
        return np.maximum(0.0, flush_s - flush_every(settings) * self.shape.between_s - room_s)

    def _slowdown(self, settings: Values, flush_s: Array) -> Array:
        """Return the computation that a flush beside it takes: by stolen cores, and by shared memory."""
        shape, rates = self.shape, self.rates
        busy = flush_threads(settings, shape) * rates["thread_cores"]
        if self._is_bound(settings):
            stolen = (busy - (shape.mask_cores - shape.used_cores)) / max(1, shape.mask_cores)
        else:
            ranks = shape.ranks_per_node
            stolen = (busy * ranks - (shape.cores - shape.used_cores * ranks)) / max(
                0.1, shape.used_cores * ranks
            )
        share = rates["contention"] * np.clip(stolen, 0.0, 1.0) + rates["interference"]
        return np.asarray(
            np.minimum(0.8, share) * np.minimum(flush_s, shape.between_s * flush_every(settings))
        )


def logs(seconds: Array) -> Array:
    """Return natural logarithms; nothing counts as a microsecond."""
    return np.log(np.maximum(seconds, _LOWEST))
