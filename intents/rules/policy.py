"""From intents to parameters: an ordered tuple of rules, each with its source.

A rule takes a :class:`Situation` and returns a :class:`Proposal` or None. It proposes only what evidence
justifies; :mod:`.guards` decide whether it may be tried, :mod:`scrtune.intents.tune.tuner` whether it stays.
A new rule is one function in `RULES` and one row in `docs/tuning.md`.
"""

from ...units import bytes_text, count_text
from ..events import Values
from ..observe.redundancy import effective, keeps_floor
from .situation import MAX_FLUSH_THREADS, Proposal, Rule, Situation

KIB, MIB = 1024, 1024**2

STUDY = "LLNL study of Megatron-DeepSpeed with SCR (2024)"
SCR_DOCS = "SCR documentation"
AXL_SOURCE = "AXL source (axl_pthread.c)"
DERIVED = "derived"

ASYNC_LOAD_LIMIT = 0.7
"""Share of the interval: a longer flush leaves no room for its own variance."""
STRIPE_BYTES = 1 * MIB
MAX_FILE_BUFFER_BYTES = 32 * MIB
MEMORY_SHARE = 0.05
MIN_GAIN_SHARE = 0.05
"""Share of a checkpoint's cost: a smaller gain cannot be told from noise."""
UNBOUND_GAIN = 1 - 23.0 / 41.4
"""Study: the flush of one thread took 41.4 s bound to the application's cores, 23.0 s unbound."""
THREADS_SPEEDUP = 0.756 / 0.549
"""Study: many threads together copy 0.756 GiB/s where one copies 0.549 (unbound)."""
FEWER_THREADS_GAIN = 1 - 10.6 / 20.0
"""Study: 16 threads on the application's cores took 20.0 s of computation, one or two took 10.6 s."""
CALL_PRIOR_S = 8e-6
"""Seconds of one traced call of a copy, until the trace has two sizes: a write took 4.7-6.1 us under dftracer
2.2.0 and 0.75 us without; rounded up for the read that goes with it."""
CACHE_WRITE_PRIOR_BYTES_PER_S = 2 * 1024**3
"""Rate of writing into a memory cache, until the trace has shown one."""


def required_redundancy(now: Situation) -> Proposal | None:
    """Meet the floor that the user declared, if the scheme in use does not."""
    redundancy = now.intents.redundancy
    if not redundancy.declared or keeps_floor(redundancy.scheme, redundancy.floor):
        return None
    return Proposal(
        rule="keep the redundancy floor",
        intent="redundancy scheme",
        changes={"SCR_COPY_TYPE": redundancy.floor},
        because=f"{redundancy.scheme} does not survive what the declared floor {redundancy.floor} survives",
        source="the user's declaration",
        required=True,
    )


def cheaper_redundancy(now: Situation) -> Proposal | None:
    """Keep one copy when the user's floor allows it: encoding costs time and cache.

    Source: the study left XOR for SINGLE at N = 2 and saved 211 s of checkpoint time.
    """
    redundancy, flush = now.intents.redundancy, now.intents.flush
    if not now.cached or redundancy.effective == "SINGLE" or not keeps_floor("SINGLE", redundancy.floor):
        return None
    if flush.encode_s <= 0:
        return None
    return Proposal(
        rule="no more redundancy than declared",
        intent="redundancy scheme",
        changes={"SCR_COPY_TYPE": "SINGLE"},
        because=(
            f"{redundancy.effective} encoding takes {flush.encode_s:.3f} s of each checkpoint and stores"
            f" {redundancy.storage_factor:.2f} x its bytes; the floor {redundancy.floor} requires less"
        ),
        source=STUDY,
        expected_gain_s=flush.encode_s,
    )


def cache_instead_of_bypass(now: Situation) -> Proposal | None:
    """Write to the cache and flush every checkpoint in the background.

    SCR_FLUSH becomes 1: no checkpoint is given up for speed. Until its flush has ended a checkpoint survives
    only what the redundancy floor survives; the reason says so.
    """
    flush, affinity = now.intents.flush, now.intents.affinity
    if now.cached or not flush.evidence.count or not affinity.evidence.count:
        return None
    between_s = flush.interval_s - flush.blocking_s
    if affinity.spare_cores < 1 or between_s <= 0 or flush.write_s / between_s >= ASYNC_LOAD_LIMIT:
        return None
    redundancy = now.intents.redundancy
    floor, nodes = redundancy.floor, redundancy.nodes
    here_bytes = flush.checkpoint_bytes * now.ranks_per_node / redundancy.ranks
    cached_s = cached_write_prior_s(here_bytes, effective(floor, nodes), min(redundancy.set_size, nodes))
    return Proposal(
        rule="cache instead of bypass",
        intent="flush",
        changes={
            "SCR_CACHE_BYPASS": 0,
            "SCR_COPY_TYPE": floor,
            "SCR_FLUSH": 1,
            "SCR_FLUSH_ASYNC": 1,
            "SCR_FLUSH_TYPE": "PTHREAD",
            "SCR_CACHE_SIZE": max(2, now.integer("SCR_CACHE_SIZE")),
        },
        because=(
            f"each checkpoint blocks {flush.blocking_s:.3f} s, {flush.write_s:.3f} s of it writing to the"
            f" prefix directory; {affinity.spare_cores:.2f} cores are spare to flush in the background"
            f" (writing to a memory cache is assumed to take {cached_s:.3f} s until measured; before its"
            f" flush has ended a checkpoint survives what {effective(floor, nodes)} survives)"
        ),
        source=SCR_DOCS,
        expected_gain_s=flush.write_s - cached_s,
    )


def asynchronous_flush(now: Situation) -> Proposal | None:
    """Flush beside the computation if that fits into the interval and a core is idle."""
    flush, affinity = now.intents.flush, now.intents.affinity
    if not now.cached or now.asynchronous or flush.blocked_on_flush_s <= 0 or flush.load is None:
        return None
    if flush.load >= ASYNC_LOAD_LIMIT or affinity.spare_cores < 1:
        return None
    return Proposal(
        rule="flush asynchronously",
        intent="flush",
        changes={
            "SCR_FLUSH_ASYNC": 1,
            "SCR_FLUSH_TYPE": "PTHREAD",
            # the dataset that is being flushed and the one that is being written
            "SCR_CACHE_SIZE": max(flush.places, now.integer("SCR_CACHE_SIZE")),
        },
        because=(
            f"the flush blocks {flush.blocked_on_flush_s:.3f} s of each checkpoint; it takes {flush.load:.0%}"
            f" of the time between two (limit {ASYNC_LOAD_LIMIT:.0%});"
            f" {affinity.spare_cores:.2f} cores are spare"
        ),
        source=f"{DERIVED}; cache size: {SCR_DOCS}",
        expected_gain_s=flush.blocked_on_flush_s,
    )


def room_in_the_cache(now: Situation) -> Proposal | None:
    """Give a checkpoint that waits for an earlier flush room in the cache."""
    flush = now.intents.flush
    size = now.integer("SCR_CACHE_SIZE")
    if not now.cached or not now.asynchronous or flush.wait_s <= 0 or size >= flush.places:
        return None
    return Proposal(
        rule="room in the cache for the flush",
        intent="flush",
        changes={"SCR_CACHE_SIZE": flush.places},
        because=(
            f"checkpoints wait {flush.wait_s:.3f} s for an earlier flush;"
            f" the cache holds {count_text(size, 'dataset')}"
        ),
        source=SCR_DOCS,
        expected_gain_s=flush.wait_s,
    )


def unbound_flush(now: Situation) -> Proposal | None:
    """Give flush threads, which inherit the application's mask, the cores that it does not use.

    Source: the study's flush took 41.4 s bound and 23.0 s unbound (one thread, per checkpoint).
    """
    affinity, flush = now.intents.affinity, now.intents.flush
    cpus = cpu_list(affinity.unbound)
    if not now.cached or not affinity.bound or not cpus or flush.flush_s <= 0:
        return None
    felt_s = now.felt_flush_s + max(0.0, flush.slowdown_s)
    return Proposal(
        rule="flush on idle cores",
        intent="core affinity",
        changes={"SCRTUNE_FLUSH_CPUS": cpus},
        because=(
            f"the ranks are bound and their flush threads with them; cores {cpus} are in no rank's mask,"
            f" and the job loses {felt_s:.3f} s of each checkpoint to the flush"
        ),
        source=f"{STUDY}: 41.4 s bound, 23.0 s unbound",
        expected_gain_s=felt_s * UNBOUND_GAIN,
    )


def flush_threads(now: Situation) -> Proposal | None:
    """Use as many flush threads as there are files to copy and spare cores, at least one.

    More threads shorten a flush that the job waits for; fewer leave the computation more of its cores.
    """
    flush, affinity = now.intents.flush, now.intents.affinity
    if not now.cached or flush.flush_s <= 0 or not affinity.evidence.count:
        return None
    spare = int(affinity.spare_cores / now.ranks_per_node)
    threads = max(1, min(now.files_per_rank, spare, MAX_FLUSH_THREADS))
    current = now.flush_threads
    if threads > current:
        felt_s, gain = now.felt_flush_s, 1 - 1 / min(threads / current, THREADS_SPEEDUP)
    elif threads < current and now.asynchronous:
        felt_s, gain = max(0.0, flush.slowdown_s), FEWER_THREADS_GAIN * (1 - threads / current)
    else:
        return None
    redundancy = now.intents.redundancy
    width = max(1, min(redundancy.ranks, redundancy.nodes * int(affinity.spare_cores)))
    changes: Values = {"SCRTUNE_FLUSH_THREADS": threads}
    note = ""
    if not now.mutability.is_inert("SCR_FLUSH_WIDTH"):
        changes["SCR_FLUSH_WIDTH"] = width
        note = " (SCR_FLUSH_WIDTH is written as documented; SCR 3 does not read it)"
    if now.settings.get("SCR_FLUSH_TYPE") == "SYNC":
        changes["SCR_FLUSH_TYPE"] = "PTHREAD"  # with SYNC one thread copies in any case
    return Proposal(
        rule="flush threads for the spare cores",
        intent="flush",
        changes=changes,
        because=(
            f"{count_text(current, 'thread')} for {count_text(now.files_per_rank, 'file')} of a rank;"
            f" {affinity.spare_cores:.2f} spare cores for {count_text(now.ranks_per_node, 'rank')}; the job"
            f" loses {felt_s:.3f} s of each checkpoint to the flush{note}"
        ),
        source=f"{AXL_SOURCE}; {STUDY}",
        expected_gain_s=felt_s * gain,
    )


def file_buffer(now: Situation) -> Proposal | None:
    """Use a copy buffer of the accesses' p90, within [one stripe, 32 MiB] and 5 % of free memory.

    A bigger buffer saves calls, nothing else (in the study 32 MiB to 1.75 GiB changed nothing), so the gain
    is the calls saved times the cost of a call, for the share of the flush that delays the job.
    """
    flush, buffers = now.intents.flush, now.intents.buffers
    if not now.cached or flush.flush_s <= 0 or not buffers.p90_bytes:
        return None
    current = max(1, now.integer("SCR_FILE_BUF_SIZE"))
    wanted = min(MAX_FILE_BUFFER_BYTES, max(STRIPE_BYTES, _round_up(buffers.p90_bytes, 64 * KIB)))
    memory = now.node.memory_available_bytes if now.node else 0
    if memory > 0:
        a_buffer = int(MEMORY_SHARE * memory) // (now.ranks_per_node * now.flush_threads)
        wanted = min(wanted, a_buffer // (64 * KIB) * 64 * KIB)
    if wanted <= current:
        return None
    call_s = CALL_PRIOR_S if buffers.call_s is None else buffers.call_s
    calls_saved = flush.checkpoint_bytes * (1 / current - 1 / wanted)
    saved_s = calls_saved * call_s / (now.intents.redundancy.ranks * now.flush_threads)
    felt = min(1.0, (now.felt_flush_s + max(0.0, flush.slowdown_s)) / flush.flush_s)
    return Proposal(
        rule="file buffer of the application's size",
        intent="buffer sizes",
        changes={"SCR_FILE_BUF_SIZE": wanted},
        because=(
            f"p90 of the accesses is {bytes_text(buffers.p90_bytes)}; copying"
            f" {bytes_text(flush.checkpoint_bytes)} through {bytes_text(current)} takes {calls_saved:.0f}"
            f" calls more, at {call_s * 1e6:.1f} us each; {felt:.0%} of the flush delays the job"
        ),
        source=f"{STUDY}; AXL allocates one buffer for each file it copies",
        expected_gain_s=min(flush.flush_s, saved_s) * felt,
    )


def mpi_buffer(now: Situation) -> Proposal | None:
    """Encode PARTNER, XOR or RS through a buffer of at least 1 MiB: small ones make many messages."""
    redundancy, flush = now.intents.redundancy, now.intents.flush
    current = max(1, now.integer("SCR_MPI_BUF_SIZE"))
    if not now.cached or redundancy.effective == "SINGLE" or flush.encode_s <= 0 or current >= 1 * MIB:
        return None
    messages_saved = flush.checkpoint_bytes / redundancy.ranks * (1 / current - 1 / MIB)
    return Proposal(
        rule="MPI buffer of SCR's own default",
        intent="buffer sizes",
        changes={"SCR_MPI_BUF_SIZE": 1 * MIB},
        because=(
            f"{redundancy.effective} encoding takes {flush.encode_s:.3f} s in messages of"
            f" {bytes_text(current)}; 1 MiB, SCR's compiled default, saves {messages_saved:.0f} for each rank"
        ),
        source="SCR source (scr_conf.h:146)",
        expected_gain_s=min(flush.encode_s, messages_saved * CALL_PRIOR_S),
    )


RULES: tuple[Rule, ...] = (
    required_redundancy,
    cache_instead_of_bypass,
    asynchronous_flush,
    cheaper_redundancy,
    room_in_the_cache,
    unbound_flush,
    flush_threads,
    file_buffer,
    mpi_buffer,
)


def proposals(now: Situation) -> tuple[Proposal, ...]:
    """Return the changes that the rules propose, the required ones first, then by expected gain.

    Each changes something, and is expected to gain enough to be measured. Parameters that this SCR does not
    read are not proposed, unless they are required: then a guard rail says so.
    """
    made = (each.beyond(now.settings) for rule in RULES if (each := rule(now)) is not None)
    least_s = MIN_GAIN_SHARE * (now.intents.flush.blocking_s + max(0.0, now.intents.flush.slowdown_s))

    def is_useful(each: Proposal) -> bool:
        is_inert = any(map(now.mutability.is_inert, each.changes))
        return each.required or (each.expected_gain_s > least_s and not is_inert)

    useful = (each for each in made if each.changes and is_useful(each))
    return tuple(sorted(useful, key=lambda each: (not each.required, -each.expected_gain_s)))


def cached_write_prior_s(node_bytes: float, scheme: str, set_size: int) -> float:
    """Return the seconds to write one node's part of a checkpoint into a memory cache and encode it there.

    The cost model that fits the study's table: PARTNER reads and writes everything once more, XOR reads all
    and writes 1/(N-1) of it. One rate stands for memory and network, so that it is a lower bound.
    """
    copies = {"PARTNER": 2.0, "XOR": 1.0 + 1.0 / max(1, set_size - 1), "RS": 2.0}.get(scheme, 0.0)
    return node_bytes * (1.0 + copies) / CACHE_WRITE_PRIOR_BYTES_PER_S


def cpu_list(cpus: tuple[int, ...]) -> str:
    """Return Linux's list form of a set of CPUs: ``0-2,5``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
