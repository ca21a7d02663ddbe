"""The levers: every parameter that the tuner may change, as one table, and the joint settings made from it.

A lever says which values make sense for a job, when it matters, whether it touches flushes or durability,
and where that is known from. A new lever is a row of :data:`LEVERS` and a row in `docs/tuning.md`. Only the
user's own value is in the domain of a parameter that may not change.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from ..cpu_list import cpu_list
from ..events import TextEnum, Value, Values
from ..observe.faults.fault_tolerance import largest_set
from ..observe.faults.redundancy import SURVIVES, members
from ..settings import is_asynchronous, is_cached
from .durability import permits
from .guards import not_by_us
from .situation import Situation

KIB, MIB = 1024, 1024**2
STEP_BYTES, STRIPE_BYTES = 64 * KIB, 1 * MIB
MAX_FILE_BUFFER_BYTES = 32 * MIB
MEMORY_SHARE = 0.05
LEAST_PRIORITY = 19
_LEAST_SETS = 2
_UNKNOWN_EXPOSURE_S = 3600.0
"""Of a job that was not seen to cache: longer than most would be."""
_SPARSE_FLUSHES = (1, 2, 4, 10)

STUDY = "LLNL study of Megatron-DeepSpeed with SCR (2024)"
SCR_DOCS = "SCR documentation"
AXL_SOURCE = "AXL source (axl_pthread.c)"
DROP_BEHIND = "posix_fadvise(2); measured in a virtual machine: 165 ms with new pages, 20 ms without"
SCHEDULER = "sched(7): at nice 19 a thread has 1.5 % of a core that another wants"


class Component(TextEnum):
    """What a lever changes of a checkpoint: what every output takes, its flush, how long it may be lost."""

    OUTPUT = "output"
    FLUSH = "flush"
    EXPOSURE = "exposure"


Domain = Callable[[Situation], tuple[Value, ...]]
Matters = Callable[[Values, Situation], bool]


class Lever(NamedTuple):
    """One row: values besides the user's own, and whether earlier levers leave it an effect."""

    name: str
    intent: str
    domain: Domain
    matters: Matters
    why: str
    source: str
    components: tuple[Component, ...] = ()


def _always(_chosen: Values, _now: Situation) -> bool:
    return True


def _cached(chosen: Values, _now: Situation) -> bool:
    return is_cached(chosen)


def _encoded(chosen: Values, now: Situation) -> bool:
    return now.encodes(chosen)


def _in_sets(chosen: Values, now: Situation) -> bool:
    return is_cached(chosen) and now.scheme(chosen) in {"XOR", "RS"}


def _threaded(chosen: Values, now: Situation) -> bool:
    return _cached(chosen, now) and chosen["SCR_FLUSH_TYPE"] != "SYNC"


def _beside(chosen: Values, _now: Situation) -> bool:
    return is_asynchronous(chosen)


def _placed(chosen: Values, now: Situation) -> bool:
    return _beside(chosen, now) or (_cached(chosen, now) and not is_cached(now.own))


def _among_ranks(chosen: Values, now: Situation) -> bool:
    return _beside(chosen, now) and not chosen["SCRTUNE_FLUSH_CPUS"]


def _schemes(now: Situation) -> tuple[Value, ...]:
    """Return the schemes that so many nodes can have: too small a set ends SCR_Init."""
    nodes = now.intents.redundancy.nodes
    if nodes < _LEAST_SETS:
        return ("SINGLE",)
    own = members(now.own, nodes)
    return tuple(scheme for scheme, losses in SURVIVES.items() if scheme == "SINGLE" or own > losses)


def _larger_sets(now: Situation) -> tuple[Value, ...]:
    """Return the largest set that the rule of intent 5 allows, where it makes larger ones than the user has.

    A larger set is never slower: each node reads and sends as much, and stores less parity.
    """
    seen, nodes = now.intents.tolerance, now.intents.redundancy.nodes
    if nodes < _LEAST_SETS:
        return ()
    exposed = replace(seen, exposure_s=seen.exposure_s or _UNKNOWN_EXPOSURE_S)
    size, _ = largest_set(nodes, max(1, seen.tolerated), exposed.p_node, seen.scheme)
    own = max(1, now.own_number("SCR_SET_SIZE"))
    return (size,) if nodes // size < max(1, nodes // own) else ()


def _flush_every(now: Situation) -> tuple[Value, ...]:
    return tuple(every for every in _SPARSE_FLUSHES if every <= now.rails.flush_every)


def _cache_sizes(now: Situation) -> tuple[Value, ...]:
    """Return two places, or as many as flushes outlast outputs; one where a flush has to end in time.

    Also one where the user's own settings bypass the cache, which may have no room for the places they have.
    """
    if now.rails.durability is not None:
        return (1,)  # `next`: SCR_Start_output waits for the flush before it, to have room
    places = now.intents.flush.places
    found = {2, places} if now.own_number("SCR_CACHE_SIZE") < places else {2}
    return tuple(sorted(found if is_cached(now.own) else found | {1}))


def _threads(now: Situation) -> tuple[Value, ...]:
    """Return one and two threads, one for each idle core of a rank, and one for each file."""
    idle, most = int(now.intents.affinity.spare_cores / now.ranks_per_node), now.copies_of_rank
    return tuple(sorted({1, min(2, most), max(1, min(idle, most)), most}))


def _idle_cpus(now: Situation) -> tuple[Value, ...]:
    affinity = now.intents.affinity
    return (cpu_list(affinity.unbound),) if affinity.bound and affinity.unbound else ()


def has_core_for_each_flush(now: Situation) -> bool:
    """Return whether each rank has an idle core for a flush thread, which takes turns with nothing then."""
    return now.intents.affinity.spare_cores >= now.ranks_per_node


def _nice(now: Situation) -> tuple[Value, ...]:
    """Return the priority of the ranks, and the least one where they may want the cores.

    At the least one a flush has 1.5 % of a core that the ranks keep busy: settings of the user's own that
    have it need the way back.
    """
    if has_core_for_each_flush(now) or not now.intents.affinity.cpus:
        return (0,)
    return (0, LEAST_PRIORITY)


def _drop_behind(now: Situation) -> tuple[Value, ...]:
    """Return both in a virtual machine, where a new page of memory takes longer than to fill it."""
    return (0, 1) if now.node is not None and now.node.is_virtual else ()


def _file_buffers(now: Situation) -> tuple[Value, ...]:
    """Return 1 MiB, which a processor's cache holds, and the p90 of the accesses up to 32 MiB.

    No bigger than 5 % of the memory for one of each thread.
    """
    wanted, memory_bytes = {STRIPE_BYTES, file_buffer_bytes(now.intents.buffers.p90_bytes)}, now.memory_bytes
    return tuple(
        each
        for each in sorted(wanted)
        if not memory_bytes or each * now.copies_of_node <= MEMORY_SHARE * memory_bytes
    )


def file_buffer_bytes(p90_bytes: int) -> int:
    """Return the bytes of a buffer for accesses of `p90_bytes`: whole steps, from a stripe to 32 MiB."""
    return min(MAX_FILE_BUFFER_BYTES, max(STRIPE_BYTES, in_steps(p90_bytes)))


def in_steps(count: int) -> int:
    """Return `count` bytes rounded up to a multiple of 64 KiB."""
    return -(-count // STEP_BYTES) * STEP_BYTES


def _mpi_buffers(now: Situation) -> tuple[Value, ...]:
    return (1 * MIB,) if now.own_number("SCR_MPI_BUF_SIZE") < 1 * MIB else ()


_OUTPUTS, _FLUSHES, _DURABLE = (Component.OUTPUT,), (Component.FLUSH,), (Component.EXPOSURE,)

LEVERS: tuple[Lever, ...] = (
    Lever("SCR_CACHE_BYPASS", "flush", lambda _: (0, 1), _always,
          "write to the cache, and flush from there", SCR_DOCS, tuple(Component)),
    Lever("SCR_COPY_TYPE", "redundancy scheme", _schemes, _cached,
          "encode as cheaply as the durability asked for allows",
          f"{STUDY}: 211 s saved at 2 nodes", _OUTPUTS + _DURABLE),
    Lever("SCR_SET_SIZE", "fault tolerance", _larger_sets, _in_sets,
          "store less parity in larger sets", "SCR source (redset_xor.c): each of N stores 1/(N - 1) more",
          _OUTPUTS),
    Lever("SCR_MPI_BUF_SIZE", "buffer sizes", _mpi_buffers, _encoded,
          "send fewer messages: SCR's own default", "SCR source (scr_conf.h:146)", _OUTPUTS),
    Lever("SCR_FLUSH", "flush", _flush_every, _cached,
          "flush as often as the durability asked for takes", SCR_DOCS, _FLUSHES + _DURABLE),
    Lever("SCR_FLUSH_TYPE", "flush", lambda _: ("SYNC", "PTHREAD"), _cached,
          "copy with threads", AXL_SOURCE, _FLUSHES),
    Lever("SCR_FLUSH_ASYNC", "flush", lambda _: (0, 1), _threaded,
          "flush beside the computation", SCR_DOCS, _FLUSHES),
    Lever("SCR_CACHE_SIZE", "flush", _cache_sizes, _placed,
          "room for the dataset being flushed and the one being written", f"{SCR_DOCS}, PR #544"),
    Lever("SCRTUNE_FLUSH_THREADS", "flush", _threads, _threaded,
          "as many threads as files and idle cores can use", f"{AXL_SOURCE}; {STUDY}", _FLUSHES),
    Lever("SCRTUNE_FLUSH_CPUS", "core affinity", _idle_cpus, _threaded,
          "flush on the cores in no rank's mask", f"{STUDY}: 41.4 s bound, 23.0 s unbound", _FLUSHES),
    Lever("SCRTUNE_FLUSH_NICE", "core affinity", _nice, _among_ranks,
          "flush when the computation leaves a core", SCHEDULER, _FLUSHES),
    Lever("SCR_FILE_BUF_SIZE", "buffer sizes", _file_buffers, _cached,
          "copy with few calls, through the processor's cache",
          f"{STUDY}: 32 MiB to 1.75 GiB changed nothing", _FLUSHES),
    Lever("SCRTUNE_DROP_BEHIND", "flush", _drop_behind, _always,
          "write into the memory of checkpoints that newer ones have replaced", DROP_BEHIND, _FLUSHES),
)  # fmt: skip
"""In the order in which they are chosen: whether a lever matters depends on those before it only."""

NAMES = tuple(lever.name for lever in LEVERS)


def joint_settings(now: Situation) -> Iterator[Values]:
    """Yield the settings that may be tried, each complete: the user's own first, each effect once.

    What does not matter under a setting has the user's own value; nothing is less durable than they asked.
    """
    own = now.own
    yield own
    seen = {tuple(own[name] for name in NAMES)}
    for chosen in _choices(now):
        identity = tuple(chosen[name] for name in NAMES)
        if identity not in seen and permits(now.rails, {**own, **chosen}):
            seen.add(identity)
            yield {**own, **chosen}


def domain(lever: Lever, now: Situation) -> tuple[Value, ...]:
    """Return the values that `lever` may have in this job: the user's own first."""
    own = now.own[lever.name]
    if not_by_us(lever.name, now):
        return (own,)
    return (own, *(value for value in lever.domain(now) if value != own))


def _choices(now: Situation) -> list[Values]:
    """Return the values of all levers that make sense together."""
    some: list[Values] = [{}]
    for lever in LEVERS:
        free, own = domain(lever, now), (now.own[lever.name],)
        some = [
            {**chosen, lever.name: value}
            for chosen in some
            for value in (free if lever.matters(chosen, now) else own)
        ]
    return some
