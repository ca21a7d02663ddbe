"""The cost model: the seconds of a checkpoint's parts under any settings, from rates with uncertainty.

The formulas are those that fit the LLNL study (`docs/tuning.md`): the application writes at the rate of the
tier; an encode reads everything and sends it once (RS twice), XOR combines it as well; a flush is the
makespan of a rank's files over its threads, a file never split, each thread limited by its share of the
node's rate, and more so when it is bound to the application's cores; on CPUs of their own all threads of a
node have no more than those; a flush beside the computation takes cores from it. Whatever the tier, an
application writes no faster than it produces its data; all nodes share the prefix directory's bandwidth, and
all ranks its metadata server.

Every rate is an array of `MEMBERS` values drawn from its prior, one for each member of the ensemble
(:mod:`.belief`). With arrays of one value it is an ordinary function.
"""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import msgspec
import numpy as np

from .shape import Array, Columns, Shape

GIB = 1024**3
MEMBERS = 192
_NEARLY = 0.15
"""Of a core: ranks that wait for each other use a little less than all those that they compute on."""
_SHORTER, _LONGER = 0.85, 1.15
"""Shares of the interval: a flush as long as the first does not outlast it, as long as the second always."""
_PROCESSOR_CACHE_BYTES = 4 * 1024**2
"""A copy buffer beyond it goes through memory once more: jobs with 32 MiB took 1.3 to 1.5 times as long."""
LOWEST = 1e-6
_AT_ONCE = 20
"""Candidates, whose arrays have 30 KiB: they stay in the processor's cache, and on the daemon's heap."""


class Prior(msgspec.Struct, frozen=True):
    """A lognormal prior: its median, and the SD of the natural logarithm."""

    median: float
    spread: float

    def given(self, seen: float, spread: float) -> "Prior":
        """Return what follows from it and a measurement `seen`, whose logarithm is off by `spread`."""
        weight = self.spread**2 / (self.spread**2 + spread**2)
        return Prior(self.median ** (1 - weight) * seen**weight, spread * weight**0.5)


PRIORS: dict[str, Prior] = {
    "cache_bytes_per_s": Prior(4 * GIB, 0.9),
    "cache_fixed_s": Prior(0.03, 1.2),
    "cache_file_s": Prior(1e-4, 1.0),
    "thread_bytes_per_s": Prior(0.5 * GIB, 0.75),
    "prefix_bytes_per_s": Prior(2 * GIB, 0.9),
    "prefix_file_s": Prior(2e-3, 1.1),
    "writer_share": Prior(1.0, 0.6),
    "bound_share": Prior(0.55, 0.25),
    "largest_file": Prior(0.25, 0.7),
    "call_s": Prior(8e-6, 0.7),
    "cache_misses": Prior(0.08, 1.0),
    "encode_read_bytes_per_s": Prior(3 * GIB, 0.8),
    "encode_send_bytes_per_s": Prior(3 * GIB, 1.1),
    "encode_xor_bytes_per_s": Prior(8 * GIB, 0.8),
    "synced_bytes_per_s": Prior(GIB, 1.2),
    "message_s": Prior(1.5e-5, 0.7),
    "contention": Prior(0.8, 0.7),
    "thread_cores": Prior(0.01, 0.8),
    "interference": Prior(0.06, 1.2),
    "yielded": Prior(0.02, 0.4),
    "application_bytes_per_s": Prior(10 * GIB, 0.9),
    "copy_bytes_per_s": Prior(1.0 * GIB, 0.8),
    "shared_bytes_per_s": Prior(30 * GIB, 1.3),
    "create_s": Prior(5e-5, 1.3),
    "beside": Prior(0.2, 0.7),
    "metadata_threads": Prior(8.0, 0.8),
}
"""Rates of a node, seconds a file, call or message, and shares: what a job does not know before it has run.

`synced_bytes_per_s` is that of the cache's device, to which each encode forces the data and what it adds
(redset_io.c: redset_close() syncs), `writer_share` the application's rate against a flush thread's,
`bound_share` what is left of a flush thread's rate on the application's cores (study: 0.293/0.549),
`thread_cores` what a flush thread takes of a core besides copying (study: 16 bound ones slow a job down more
than two, though they copy as much), `contention` the loss of computation
for each stolen core (study: 0.15, ranks that wait for GPUs; 1.03 was measured of two busy ranks on two cores,
50 ms of a step beside threads that took 48 ms of each's core),
`interference` what memory takes of the time for which a flush's threads copy,
`yielded` what a thread at nice 19 has of a core that another wants
(sched(7): weights 15 and 1024; measured: 0.018 to 0.022, 2 ranks on 2 cores). A rank produces
`application_bytes_per_s`; a flush thread that never waits for storage copies `copy_bytes_per_s`, which says
how much of its time is a core's. All nodes together have `shared_bytes_per_s` of the prefix directory, and
each file of all ranks takes its metadata server `create_s`. An output takes longer by `beside` while an
earlier flush is under way. Of a rank's flush threads `metadata_threads` make files side by side: Lustre has
seven such requests of a node under way (max_mod_rpcs_in_flight), NFS up to 64.
Sources: the study, measurements on SCR 3.1.0 and AXL, wide where machines differ."""

OF_VIRTUAL_NODES: dict[str, Prior] = {"beyond_pages": Prior(0.3, 0.8), "copy_pages": Prior(0.3, 0.6)}
"""What is left without new pages, as shares: of what a write past the cache takes beyond the rate of memory
(measured in one virtual machine, of 128 MiB: 2 of 147 ms), and of the time for which a flush's copy has a
core (41 to 67 of 350 ms)."""

OF_NFS: dict[str, Prior] = {"shared_bytes_per_s": Prior(2 * GIB, 1.3)}
"""All nodes write to one server, of 0.1 GB/s behind 1 GbE, or to several that appear as one."""

HAVE_RATES = frozenset({"SCR_SET_SIZE", "SCRTUNE_DROP_BEHIND"})
"""Levers whose effect is that of rates, with all doubt about it: of writes to the cache, of new pages."""

_AT_MOST = {"bound_share": 1.0, "largest_file": 1.0, "yielded": 1.0, "beyond_pages": 1.0, "copy_pages": 1.0}

Rates = Mapping[str, Array]


class Parts(NamedTuple):
    """Seconds of a checkpoint's parts, (settings, members) each; the flush as if this one is flushed."""

    write_s: Array
    encode_s: Array
    flush_s: Array
    wait_s: Array
    slowdown_s: Array
    haste: Array
    """How much faster a flush is while the ranks wait for it: threads at nice 19 have their cores then."""
    flush_cpu_s: Array
    """What the threads of a rank's flush take of cores."""
    cores: Array
    """The part of a core that such a thread has when it wants one."""


def draw_rates(
    rng: np.random.Generator, priors: Mapping[str, Prior], members: int = MEMBERS
) -> dict[str, Array]:
    """Return `members` draws of every rate, in the order of :data:`PRIORS`."""
    drawn = {}
    for name, prior in priors.items():
        drawn_rates = prior.median * np.exp(prior.spread * rng.standard_normal(members))
        drawn[name] = np.minimum(drawn_rates, _AT_MOST.get(name, np.inf))
    return drawn


def predict(columns: Columns, shape: Shape, rates: Rates) -> Parts:
    """Return what a checkpoint costs under each of some settings, for each member of the ensemble."""
    starts = range(0, len(columns.cached), _AT_ONCE)
    some = [_predict(columns.some(slice(start, start + _AT_ONCE)), shape, rates) for start in starts]
    return Parts(*map(np.concatenate, zip(*some, strict=True)))


def _predict(of: Columns, shape: Shape, rates: Rates) -> Parts:
    is_bound = _is_bound(of, shape)
    with_core, alone = _with_core(of, shape, rates), _with_core_alone(of, rates)
    own_cpus = np.where(of.own_cpus > 0, of.own_cpus / shape.ranks_per_node, np.inf)
    busy = np.minimum(of.threads * with_core, own_cpus)
    given = np.minimum(1.0, own_cpus / (of.threads * alone))
    place = np.where(is_bound, shape.mask_cores, shape.cores / shape.ranks_per_node)
    cache_s = _cached(shape, rates)
    alone_s = of.cached * _flush(of, shape, rates, given)
    cores = _cores(of.threads, with_core, place, shape, rates)
    left = np.where(of.nice, _yielding(alone, cores, shape), given)
    beside_s = of.cached * _flush(of, shape, rates, left)
    free_s = meanwhile_s(of, shape.between_s, cache_s)
    # in the long run, for flushes that outlast the interval; ranks that wait leave the threads their cores
    wait_s = of.beside * np.maximum(0.0, 1 - free_s / np.maximum(beside_s, LOWEST)) * alone_s
    slower = 1 + rates["beside"] * _overlapped(of, of.beside * beside_s, shape)
    flush_cpu_s = of.cached * (
        shape.rank_bytes / _copy_rate(of, rates) + of.threads * rates["thread_cores"] * alone_s
    )
    return Parts(
        write_s=np.where(of.cached, cache_s * slower, _direct(of, shape, rates)),
        encode_s=of.cached * _encode(of, shape, rates) * slower,
        flush_s=np.where(wait_s > 0, free_s + wait_s, beside_s),
        wait_s=wait_s,
        slowdown_s=of.beside * _slowdown(of, (alone_s, beside_s), busy - place, flush_cpu_s, shape, rates),
        haste=np.maximum(1.0, beside_s / np.maximum(alone_s, LOWEST)),
        flush_cpu_s=flush_cpu_s,
        cores=np.where(of.nice, cores, 1.0),
    )


def _is_bound(of: Columns, shape: Shape) -> Array:
    """Return whether a flush's threads are bound to the cores that the application is bound to."""
    return np.asarray(shape.bound * (of.own_cpus == 0))


def _overlapped(of: Columns, flush_s: Array, shape: Shape) -> Array:
    """Return the share of outputs that begin beside an earlier flush: where the cache has room for both.

    A flush about as long as the interval is at times the longer one, at times not.
    """
    outputs = flush_s / shape.between_s
    outlasts = np.clip((outputs - _SHORTER) / (_LONGER - _SHORTER), 0.0, 1.0)
    return np.asarray((of.held > 1) * outlasts * np.minimum(1.0, outputs / of.every))


def meanwhile_s(of: Columns, between_s: float, write_s: Array) -> Array:
    """Return the seconds that a flush may take until an output waits for it.

    In a cache of one place the next output needs that. Of several those of datasets that are not being
    flushed are given up first (scr.c:1509), so that only the next flush, some checkpoints later, waits.
    """
    return np.where(of.held > 1, of.every * (between_s + write_s), between_s)


def _direct(of: Columns, shape: Shape, rates: Rates) -> Array:
    together = shape.ranks_per_node * rates["thread_bytes_per_s"] * rates["writer_share"]
    written_s = shape.node_bytes / np.minimum(_share_of_prefix(shape, rates), together)
    beyond_s = np.maximum(0.0, written_s - shape.node_bytes / rates["cache_bytes_per_s"])
    saved_s = np.where(of.drops, (1 - rates.get("beyond_pages", 1.0)) * beyond_s, 0.0)
    files_s = shape.files * (rates["prefix_file_s"] + shape.ranks * rates["create_s"])
    return _produced(shape, rates) + written_s - saved_s + files_s


def _cached(shape: Shape, rates: Rates) -> Array:
    written_s = shape.node_bytes / rates["cache_bytes_per_s"]
    return _produced(shape, rates) + written_s + rates["cache_fixed_s"] + shape.files * rates["cache_file_s"]


def _produced(shape: Shape, rates: Rates) -> Array:
    """Return the seconds in which the application makes what it writes, wherever that goes."""
    return shape.rank_bytes / rates["application_bytes_per_s"]


def _share_of_prefix(shape: Shape, rates: Rates, left: Array | float = 1.0) -> Array:
    """Return a node's bytes/s of the prefix directory while all write, each with `left` of its own rate."""
    return 1 / (1 / (left * rates["prefix_bytes_per_s"]) + shape.nodes / rates["shared_bytes_per_s"])


def _with_core(of: Columns, shape: Shape, rates: Rates) -> Array:
    """Return the part of its time in which a flush thread wants a core: to copy at the rate that it gets."""
    of_node = _share_of_prefix(shape, rates) / shape.ranks_per_node / of.threads / _copy_rate(of, rates)
    return np.minimum(_with_core_alone(of, rates), of_node + rates["thread_cores"])


def _with_core_alone(of: Columns, rates: Rates) -> Array:
    """Return that part of a thread that shares the storage with no other: of each byte it copies."""
    copying = _thread_rate(of, rates) / _copy_rate(of, rates)
    return np.minimum(1.0, copying + rates["thread_cores"])


def _copy_rate(of: Columns, rates: Rates) -> Array:
    """Return the bytes/s of a flush thread that never waits for storage."""
    return rates["copy_bytes_per_s"] / np.where(of.drops, rates.get("copy_pages", 1.0), 1.0)


def _thread_rate(of: Columns, rates: Rates) -> Array:
    """Return the bytes/s of a flush thread that shares the storage with no other."""
    saved = np.where(of.drops, 1 - rates.get("copy_pages", 1.0), 0.0)
    own = rates["thread_bytes_per_s"]
    return np.asarray(own / (1 - saved * np.minimum(1.0, own / rates["copy_bytes_per_s"])))


def _computing(shape: Shape) -> int:
    """Return the cores on which a rank computes."""
    return max(1, ceil(shape.used_cores - _NEARLY))


def _cores(threads: Array, with_core: Array, place: Array, shape: Shape, rates: Rates) -> Array:
    """Return what a rank's flush threads at nice 19 have of a core that they want, beside its computation."""
    return np.clip((place - _computing(shape)) / (threads * with_core), rates["yielded"], 1.0)


def _yielding(with_core: Array, cores: Array, shape: Shape) -> Array:
    """Return what is left of the rate of a rank's flush threads at nice 19, which have only idle cores.

    They have all of the `place` while its rank waits, for others or for storage, and beside its computation
    what that leaves. Only the part of their time in which they have work for a core becomes longer.
    """
    computing = _computing(shape)
    waiting = max(0.0, 1 - shape.used_cores / computing)
    beside = 1 / (1 - with_core + with_core / cores)
    return np.asarray(waiting + (1 - waiting) * beside)


def _encode(of: Columns, shape: Shape, rates: Rates) -> Array:
    # what is written no faster than the device takes it in is there already
    synced_s = np.maximum(0.0, of.stored * (1 / rates["synced_bytes_per_s"] - 1 / rates["cache_bytes_per_s"]))
    a_byte_s = (
        of.coded / rates["encode_read_bytes_per_s"]
        + of.sent / rates["encode_send_bytes_per_s"]
        + of.xored / rates["encode_xor_bytes_per_s"]
        + (of.stored - 1) / rates["cache_bytes_per_s"]
        + shape.on_device * of.coded * synced_s
    )
    messages = shape.rank_bytes / of.message_bytes
    return np.asarray(shape.node_bytes * a_byte_s + of.coded * messages * rates["message_s"])


def _flush(of: Columns, shape: Shape, rates: Rates, left: Array | float = 1.0) -> Array:
    """Return the makespan of a rank's files over its threads, each of which has so much `left` of a core.

    A core that is wanted by others slows the thread down, not the prefix directory; threads that are bound to
    the application's cores also leave a part of the node's own rate unused.
    """
    share = np.where(_is_bound(of, shape), rates["bound_share"], 1.0)
    one = _thread_rate(of, rates) * share * left
    cap = _share_of_prefix(shape, rates, share) / shape.ranks_per_node
    of_all = np.maximum(rates["largest_file"] if shape.files > 1 else 1.0, 1 / shape.files)
    longest = np.maximum(of_all / np.minimum(one, cap), 1 / np.minimum(of.threads * one, cap))
    misses = (of.file_buffer_bytes > _PROCESSOR_CACHE_BYTES) * rates["cache_misses"]
    calls_s = shape.rank_bytes / of.file_buffer_bytes * rates["call_s"] / of.threads / left
    file_s = rates["prefix_file_s"] / np.minimum(of.threads, np.maximum(1.0, rates["metadata_threads"]))
    files_s = shape.files * (file_s + shape.ranks * rates["create_s"])
    return np.asarray(shape.rank_bytes * longest * (1 + misses) + calls_s + files_s)


def _slowdown(  # noqa: PLR0913, PLR0917 - a flush, and what it slows down
    of: Columns, flush_s: tuple[Array, Array], missing: Array, flush_cpu_s: Array, shape: Shape, rates: Rates
) -> Array:
    """Return the seconds by which the computation takes longer beside a flush of so many seconds.

    That is `flush_s` of threads that have their cores, and of those that yield. `missing` are the cores that
    the first need beyond those of their rank. Through memory it is slowed down while the threads copy, for
    `flush_cpu_s`, however long they then wait for storage.
    """
    cores = np.where(
        _is_bound(of, shape), max(1, shape.mask_cores), max(0.1 / shape.ranks_per_node, shape.used_cores)
    )
    alone_s, beside_s = (np.minimum(each, of.every * shape.between_s) for each in flush_s)
    through_memory_s = rates["interference"] * np.minimum(flush_cpu_s, alone_s)
    stolen = np.clip((missing + shape.used_cores) / cores, 0.0, 1.0)
    slowdown_s = np.minimum(0.8 * alone_s, alone_s * rates["contention"] * stolen + through_memory_s)
    # at nice 19 each thread takes little of its rank's cores, but for as long as its flush then lasts
    yielding_s = through_memory_s + beside_s * rates["yielded"] * of.threads / cores
    return np.where(of.nice, np.minimum(slowdown_s, yielding_s), slowdown_s)


def logs(seconds: Array) -> Array:
    """Return natural logarithms; nothing counts as a microsecond."""
    return np.log(np.maximum(seconds, LOWEST))
