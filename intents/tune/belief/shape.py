"""What the cost model needs of a job and of settings: its shape, and columns of numbers of these."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...cpu_list import cpus_of
from ...events import Values
from ...observe.faults.redundancy import effective, members, storage_factor
from ...rules.situation import MAX_FLUSH_THREADS
from ...settings import flush_every, is_asynchronous, is_cached, number

Array = NDArray[np.float64]

_SENT = {"SINGLE": 0.0, "RS": 2.0}
"""Times that the data are sent, by scheme; else once: XOR passes N - 1 parts of 1/(N - 1) (redset_xor.c)."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A job as far as the model needs it; `rank_bytes` and `files` are one rank's, `used_cores` as well.

    `between_s` is the computation between two checkpoints, `mask_cores` the CPUs in a rank's mask. A cache
    `on_device` is not in memory.
    """

    nodes: int
    ranks_per_node: int
    rank_bytes: float
    files: int
    between_s: float
    cores: int
    used_cores: float
    mask_cores: int
    on_device: bool = False

    @property
    def node_bytes(self) -> float:
        """Bytes of a node's ranks."""
        return self.rank_bytes * self.ranks_per_node

    @property
    def ranks(self) -> int:
        """Ranks of all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def bound(self) -> bool:
        """True when the ranks, and flush threads with them, keep to a part of the node's CPUs."""
        return self.mask_cores < self.cores


class Columns(NamedTuple):
    """Numbers of each of some settings, (settings, 1) each: floats, for integers may be of any size."""

    cached: Array
    beside: Array
    """Its flushes run beside the computation."""
    every: Array
    """Checkpoints from one flush to the next."""
    held: Array
    """Datasets that the cache holds."""
    threads: Array
    own_cpus: Array
    """CPUs that the flush threads of a node have for themselves; 0: those of their ranks."""
    nice: Array
    file_buffer_bytes: Array
    message_bytes: Array
    coded: Array
    """Whether the scheme encodes, and (`xored`) whether that takes arithmetic."""
    xored: Array
    sent: Array
    """Times that an encode sends the data, and (`stored`) bytes in the cache for each of them."""
    stored: Array
    drops: Array
    """What is in the prefix directory leaves the page cache when it is replaced."""

    @classmethod
    def of(cls, candidates: Sequence[Values], shape: Shape) -> "Columns":
        """Return the columns of `candidates` in a job of this `shape`."""
        rows = np.array([_row(each, shape) for each in candidates], dtype=np.float64)
        return cls(*rows.T[:, :, None])

    def some(self, chosen: Sequence[int] | slice) -> "Columns":
        """Return those of the `chosen` settings."""
        return Columns(*(each[chosen] for each in self))


def _row(settings: Values, shape: Shape) -> tuple[float, ...]:
    scheme = effective(str(settings["SCR_COPY_TYPE"]), shape.nodes)
    in_a_set = max(2, members(settings, shape.nodes))
    is_beside = is_asynchronous(settings)
    has_threads = settings.get("SCR_FLUSH_TYPE") != "SYNC"
    return (
        is_cached(settings),
        is_beside,
        flush_every(settings),
        places(settings),
        flush_threads(settings, shape),
        _count(str(settings.get("SCRTUNE_FLUSH_CPUS", ""))) if has_threads else 0,
        is_beside and number(settings, "SCRTUNE_FLUSH_NICE") > 0,
        max(1, number(settings, "SCR_FILE_BUF_SIZE")),
        max(1, number(settings, "SCR_MPI_BUF_SIZE")),
        scheme != "SINGLE",
        scheme not in {"SINGLE", "PARTNER"},
        _SENT.get(scheme, 1.0),
        storage_factor(scheme, in_a_set),
        number(settings, "SCRTUNE_DROP_BEHIND"),
    )


def flush_threads(settings: Values, shape: Shape) -> int:
    """Return the threads that copy a rank's files: the lever's value, else AXL's own number."""
    if settings.get("SCR_FLUSH_TYPE") == "SYNC":
        return 1
    default = min(max(1, shape.cores), MAX_FLUSH_THREADS)
    return min(shape.files, number(settings, "SCRTUNE_FLUSH_THREADS") or default)


def places(settings: Values) -> int:
    """Return how many datasets the cache holds."""
    return max(1, number(settings, "SCR_CACHE_SIZE"))


@lru_cache(maxsize=8)
def _count(cpu_list: str) -> int:
    """Return how many CPUs are in a list; none if it is no list."""
    try:
        return len(cpus_of(cpu_list))
    except ValueError:
        return 0
