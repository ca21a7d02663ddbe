"""From intents to parameters: an ordered tuple of rules, each with its source.

A rule looks at a :class:`Situation` and answers with a :class:`Proposal` or None. It proposes only what it
can justify from evidence; whether the proposal may be tried is for :mod:`scrtune.intents.guards` to say, and
whether it stays for :mod:`scrtune.intents.tuner`.
"""

from .cost_model import CACHE_WRITE_PRIOR_BYTES_PER_S, CALL_PRIOR_S
from .intent import bytes_text
from .redundancy import keeps_floor
from .situation import MAX_FLUSH_THREADS, Proposal, Rule, Situation

KIB, MIB = 1024, 1024**2

STUDY = "LLNL study of Megatron-DeepSpeed with SCR (2024)"
SCR_DOCS = "SCR documentation"
AXL_SOURCE = "AXL source (axl_pthread.c)"
DERIVED = "derived"

ASYNC_LOAD_LIMIT = 0.7
"""A flush that takes more than this share of the interval leaves no room for its own variance."""
STRIPE_BYTES = 1 * MIB
MAX_FILE_BUFFER_BYTES = 32 * MIB
MEMORY_SHARE = 0.05
MIN_GAIN_SHARE = 0.01


def required_redundancy(now: Situation) -> Proposal | None:
    """The user declared a floor above the scheme in use: meet it."""
    redundancy = now.intents.redundancy
    if not redundancy.declared or keeps_floor(redundancy.scheme, redundancy.floor):
        return None
    return Proposal(
        rule="keep the redundancy floor",
        intent="redundancy scheme",
        changes={"SCR_COPY_TYPE": redundancy.floor},
        because=f"{redundancy.scheme} does not survive what the declared floor {redundancy.floor} does",
        source="the user's declaration",
        required=True,
    )


def cheaper_redundancy(now: Situation) -> Proposal | None:
    """One copy is enough when the user's floor says so: encoding costs time and cache.

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
            f" {redundancy.storage_factor:.2f} x its bytes; the floor {redundancy.floor} asks for less"
        ),
        source=STUDY,
        expected_gain_s=flush.encode_s,
    )


def cache_instead_of_bypass(now: Situation) -> Proposal | None:
    """Write to the cache and flush every checkpoint in the background: as durable, without the wait.

    SCR_FLUSH becomes 1 with it: under bypass every checkpoint is in the prefix directory at once, and none
    may be given up for speed.
    """
    flush, affinity = now.intents.flush, now.intents.affinity
    if now.cached or not flush.evidence.count or not affinity.evidence.count:
        return None
    between_s = flush.interval_s - flush.blocking_s
    if affinity.spare_cores < 1 or between_s <= 0 or flush.write_s / between_s >= ASYNC_LOAD_LIMIT:
        return None
    cache_write_s = flush.checkpoint_bytes / CACHE_WRITE_PRIOR_BYTES_PER_S
    return Proposal(
        rule="cache instead of bypass",
        intent="flush",
        changes={
            "SCR_CACHE_BYPASS": 0,
            "SCR_COPY_TYPE": now.intents.redundancy.floor,
            "SCR_FLUSH": 1,
            "SCR_FLUSH_ASYNC": 1,
            "SCR_FLUSH_TYPE": "PTHREAD",
            "SCR_CACHE_SIZE": max(2, now.integer("SCR_CACHE_SIZE", 1)),
        },
        because=(
            f"each checkpoint blocks {flush.blocking_s:.3f} s, {flush.write_s:.3f} s of it writing to the"
            f" prefix directory; {affinity.spare_cores:.2f} cores are spare to flush in the background"
            f" (a memory cache is taken to write {bytes_text(CACHE_WRITE_PRIOR_BYTES_PER_S)}/s until seen)"
        ),
        source=SCR_DOCS,
        expected_gain_s=flush.write_s - cache_write_s,
    )


def asynchronous_flush(now: Situation) -> Proposal | None:
    """Flush beside the computation when it fits into the interval and a core is idle for it."""
    flush, affinity = now.intents.flush, now.intents.affinity
    if not now.cached or now.integer("SCR_FLUSH_ASYNC", 0) or flush.blocked_on_flush_s <= 0:
        return None
    if flush.load >= ASYNC_LOAD_LIMIT or affinity.spare_cores < 1:
        return None
    room = -(-flush.flush_s // max(flush.interval_s, 1e-9)) + 1
    return Proposal(
        rule="flush asynchronously",
        intent="flush",
        changes={
            "SCR_FLUSH_ASYNC": 1,
            "SCR_FLUSH_TYPE": "PTHREAD",
            # the dataset that is being flushed and the one that is being written
            "SCR_CACHE_SIZE": max(2, int(room), now.integer("SCR_CACHE_SIZE", 1)),
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
    """A checkpoint that waits for an earlier flush wants one more place in the cache."""
    flush = now.intents.flush
    size = now.integer("SCR_CACHE_SIZE", 1)
    needed = max(2, int(-(-flush.flush_s // max(flush.interval_s, 1e-9))) + 1)
    if not now.cached or not now.integer("SCR_FLUSH_ASYNC", 0) or flush.wait_s <= 0 or size >= needed:
        return None
    return Proposal(
        rule="room in the cache for the flush",
        intent="flush",
        changes={"SCR_CACHE_SIZE": needed},
        because=f"checkpoints wait {flush.wait_s:.3f} s for an earlier flush; the cache holds {size}",
        source=SCR_DOCS,
        expected_gain_s=flush.wait_s,
    )


def unbound_flush(now: Situation) -> Proposal | None:
    """Flush threads inherit the application's mask: give them the cores that it does not use.

    Source: the study's flush took 41.4 s bound and 23.0 s unbound (one thread, per checkpoint).
    """
    affinity, flush = now.intents.affinity, now.intents.flush
    cpus = cpu_list(affinity.unbound)
    if not now.cached or not affinity.bound or not cpus or flush.flush_s <= 0:
        return None
    if now.settings.get("SCRTUNE_FLUSH_CPUS", "") == cpus:
        return None
    asynchronous = now.integer("SCR_FLUSH_ASYNC", 0) == 1
    felt_s = flush.slowdown_s + flush.wait_s if asynchronous else flush.blocked_on_flush_s
    return Proposal(
        rule="flush on idle cores",
        intent="core affinity",
        changes={"SCRTUNE_FLUSH_CPUS": cpus},
        because=(
            f"the ranks are bound and their flush threads with them; cores {cpus} are in no rank's mask,"
            f" and the job loses {felt_s:.3f} s to each flush"
        ),
        source=f"{STUDY}: 41.4 s bound, 23.0 s unbound",
        expected_gain_s=felt_s * (1 - 23.0 / 41.4),
    )


def flush_threads(now: Situation) -> Proposal | None:
    """As many flush threads as there are files to copy and spare cores to do it on, and at least one."""
    flush, affinity = now.intents.flush, now.intents.affinity
    if not now.cached or flush.flush_s <= 0 or not affinity.evidence.count:
        return None
    ranks = max(1, now.intents.redundancy.ranks)
    files = max(1, flush.files // ranks)
    spare = int(affinity.spare_cores / max(1, now.ranks_per_node))
    threads = max(1, min(files, spare, MAX_FLUSH_THREADS))
    current = now.flush_threads
    asynchronous = now.integer("SCR_FLUSH_ASYNC", 0) == 1
    felt_s = flush.slowdown_s + flush.wait_s if asynchronous else flush.blocked_on_flush_s
    if threads == current or (threads < current and not asynchronous):
        return None
    width = max(1, min(ranks, now.intents.redundancy.nodes * max(1, int(affinity.spare_cores))))
    return Proposal(
        rule="flush threads for the spare cores",
        intent="flush",
        changes={"SCRTUNE_FLUSH_THREADS": threads, "SCR_FLUSH_WIDTH": width},
        because=(
            f"{current} threads copy {files} files of each rank; {affinity.spare_cores:.2f} spare cores"
            f" serve {now.ranks_per_node} ranks, and the job loses {felt_s:.3f} s to each flush"
            " (SCR_FLUSH_WIDTH is written as documented; SCR 3 does not read it)"
        ),
        source=f"{AXL_SOURCE}; {STUDY}",
        expected_gain_s=felt_s * abs(1 - min(threads, current) / max(threads, current)),
    )


def file_buffer(now: Situation) -> Proposal | None:
    """A copy buffer of the application's own size: p90, within [one stripe, 32 MiB] and 5 % of free memory.

    A bigger buffer saves calls, nothing else (in the study 32 MiB to 1.75 GiB changed nothing), so the gain
    is calls saved times what a call costs.
    """
    flush, buffers = now.intents.flush, now.intents.buffers
    if not now.cached or flush.flush_s <= 0 or not buffers.p90_bytes:
        return None
    current = now.integer("SCR_FILE_BUF_SIZE", MAX_FILE_BUFFER_BYTES)
    wanted = min(MAX_FILE_BUFFER_BYTES, max(STRIPE_BYTES, _round_up(buffers.p90_bytes, 64 * KIB)))
    per_buffer = max(1, now.ranks_per_node * now.flush_threads)
    memory = now.node.memory_available_bytes if now.node else 0
    if memory and wanted * per_buffer > MEMORY_SHARE * memory:
        wanted = max(STRIPE_BYTES, int(MEMORY_SHARE * memory / per_buffer) // (64 * KIB) * 64 * KIB)
    if wanted == current or (wanted < current and current * per_buffer <= MEMORY_SHARE * (memory or 1 << 60)):
        return None
    call_s = buffers.transfer.latency_s if buffers.transfer else CALL_PRIOR_S
    calls_saved = flush.checkpoint_bytes / current - flush.checkpoint_bytes / wanted
    writers = max(1, now.intents.redundancy.ranks)
    return Proposal(
        rule="file buffer of the application's size",
        intent="buffer sizes",
        changes={"SCR_FILE_BUF_SIZE": wanted},
        because=(
            f"p90 of the accesses is {bytes_text(buffers.p90_bytes)}; copying"
            f" {bytes_text(flush.checkpoint_bytes)} through {bytes_text(current)} takes {calls_saved:.0f} calls"
            f" more, at {call_s * 1e6:.1f} us each"
        ),
        source=f"{STUDY}; AXL allocates one buffer for each file it copies",
        expected_gain_s=calls_saved * call_s / writers,
    )


def mpi_buffer(now: Situation) -> Proposal | None:
    """Redundancy moves through a buffer too; small ones make many messages. Only with PARTNER, XOR or RS."""
    redundancy, flush = now.intents.redundancy, now.intents.flush
    current = now.integer("SCR_MPI_BUF_SIZE", 1 * MIB)
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
    """What the rules propose, the required ones first, then by expected gain."""
    made = [proposal for rule in RULES if (proposal := rule(now)) is not None]
    worth_it_s = MIN_GAIN_SHARE * (now.intents.flush.blocking_s + now.intents.flush.slowdown_s)
    return tuple(
        sorted(
            (each for each in made if each.required or each.expected_gain_s >= worth_it_s),
            key=lambda each: (not each.required, -each.expected_gain_s),
        )
    )


def cpu_list(cpus: tuple[int, ...]) -> str:
    """Linux's list form of a set of CPUs: ``0-2,5``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
