"""The true cost of a checkpoint: what SCR, AXL and redset do with it, from rates that no tuner sees.

All rates are bytes/s, all durations seconds. A node's ranks write, encode and flush at the same time.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil

Value = int | float | str
Settings = dict[str, Value]

KIB, MIB, GIB = 1024, 1024**2, 1024**3
MAX_THREADS = 16  # AXL's own limit
LEFT_OVER = 0.02
"""Of a core that a rank wants, what a thread at nice 19 has of it.

Measured, two busy ranks on two cores, 128 MiB each: 0.31 s of a step of 2 s was lost beside a flush of 0.6 to
1.2 s at nice 0, and 0.044, 0.073 and 0.142 s beside one of 1, 2 and 4 threads at nice 19, which was as good
as no further when the ranks had computed; where these waited for 0.6 s after 1.4 s, it ended in that time.
"""
NODE_FAILURES_PER_S = 1.97e-5 * 8 / 3600
"""Llama 3's training: 1.97e-5 a GPU-hour."""
MORE_THAN_A_NODE = 0.15
"""Of the failures: cheap levels recover 85 % (LLNL, SC'10)."""
LOSSES = {"SINGLE": 0, "PARTNER": 1, "XOR": 1, "RS": 2}
"""Nodes of a set that may be lost at once."""

DEFAULTS: Settings = {
    "SCR_CACHE_BYPASS": 1,
    "SCR_CACHE_SIZE": 1,
    "SCR_COPY_TYPE": "XOR",
    "SCR_FILE_BUF_SIZE": 32 * MIB,
    "SCR_FLUSH": 10,
    "SCR_FLUSH_ASYNC": 0,
    "SCR_FLUSH_TYPE": "SYNC",
    "SCR_FLUSH_WIDTH": 256,
    "SCR_MPI_BUF_SIZE": MIB,
    "SCR_SET_SIZE": 8,
    "SCRTUNE_FLUSH_CPUS": "",
    "SCRTUNE_FLUSH_NICE": 0,
    "SCRTUNE_FLUSH_THREADS": 0,
}
REINIT = frozenset({"SCR_CACHE_BYPASS", "SCR_CACHE_SIZE", "SCR_COPY_TYPE", "SCR_FLUSH_TYPE", "SCR_SET_SIZE"})
"""What a real SCR takes only in SCR_Init."""


@dataclass(frozen=True, eq=False)
class Job:
    """One job: its shape, its rails and the rates of what it runs on."""

    nodes: int
    ranks_per_node: int
    cores: int
    busy: float
    """Cores that a rank keeps busy."""
    bound: bool
    rank_bytes: int
    files: int
    """Of a rank."""
    largest: float
    """Share of the rank's bytes that its largest file has."""
    interval_s: float
    floor: str
    reinit_s: float
    """Of a re-init of SCR, without the flush that it waits for; 0 in the embedded engine."""
    cache_free_bytes: float
    cache_write: float
    cache_read: float
    cache_file_s: float
    cache_fixed_s: float
    prefix_rank: float
    prefix_node: float
    prefix_all: float
    prefix_file_s: float
    flush_fixed_s: float
    network: float
    xor_rate: float
    message_s: float
    encode_fixed_s: float
    thread_rate: float
    bound_factor: float
    call_s: float
    duty: float
    """Share of a core that a flush thread keeps busy at its own rate."""
    steal: float
    """Computation lost for each core that flush threads take from the ranks."""
    crowd: float
    """Computation lost to a flush at the node's full rate, on whatever cores."""
    beside: float
    """How much longer an output takes while an earlier flush is under way."""
    shift: float = 1.0
    """Factor on the rates of the prefix in the second half of the job."""

    @property
    def ranks(self) -> int:
        """All ranks of the job."""
        return self.nodes * self.ranks_per_node

    @cached_property
    def node_bytes(self) -> int:
        """Bytes of a node's ranks in one checkpoint."""
        return self.rank_bytes * self.ranks_per_node

    @property
    def mask(self) -> int:
        """CPUs in the affinity mask of a bound rank."""
        return max(1, round(self.busy))

    @cached_property
    def used(self) -> int:
        """CPUs in the masks of the ranks, from 0 on."""
        return min(self.cores, self.ranks_per_node * self.mask) if self.bound else self.cores

    @property
    def idle(self) -> str:
        """The CPUs in no rank's mask, as SCRTUNE_FLUSH_CPUS has them."""
        if self.used >= self.cores:
            return ""
        return f"{self.used}-{self.cores - 1}" if self.used < self.cores - 1 else str(self.used)

    def set_size(self, settings: Settings) -> int:
        """Return the nodes of a redundancy set."""
        return min(int(settings["SCR_SET_SIZE"]), self.nodes)

    def scheme(self, settings: Settings) -> str:
        """Return the scheme that SCR uses: on one node, SINGLE."""
        return str(settings["SCR_COPY_TYPE"]) if self.set_size(settings) > 1 else "SINGLE"

    def stored(self, settings: Settings) -> float:
        """Return the bytes in a node's cache per byte of checkpoint."""
        size = self.set_size(settings)
        return {
            "SINGLE": 1.0,
            "PARTNER": 2.0,
            "XOR": size / max(1, size - 1),
            "RS": size / max(1, size - 2),
        }[self.scheme(settings)]

    def held_bytes(self, settings: Settings) -> float:
        """Return the bytes in a node's cache that holds as many datasets as it may."""
        return self.node_bytes * self.stored(settings) * max(1, int(settings["SCR_CACHE_SIZE"]))


@dataclass(frozen=True)
class Parts:
    """The parts of a checkpoint under given settings, before noise and before any waiting."""

    write_s: float
    encode_s: float = 0.0
    flush_s: float = 0.0
    share: float = 0.0
    """Of the computation beside an asynchronous flush that is lost."""
    stolen: float = 0.0
    """The part of that in which ranks wait for a core; the rest is lost in memory."""
    haste: float = 1.0
    """How much faster that flush is while the ranks wait for it: they sleep (scr_flush_async.c, AXL_Wait)."""
    flush_cpu_s: float = 0.0
    """What its threads of a rank take of cores, and (`flush_delay_s`) for how long they wait for one."""
    flush_delay_s: float = 0.0
    cached: bool = False
    asynchronous: bool = False
    every: int = 1
    """Checkpoints from one flush to the next."""
    size: int = 1
    """Datasets that the cache holds."""


def blocks(settings: Settings) -> bool:
    """Return whether flushes block the output."""
    return not settings["SCR_FLUSH_ASYNC"] or settings["SCR_FLUSH_TYPE"] == "SYNC"


def parts(job: Job, settings: Settings) -> Parts:
    """Return the truth about complete `settings`."""
    if settings["SCR_CACHE_BYPASS"]:
        return Parts(_to_prefix(job))
    asynchronous = not blocks(settings)
    wanted = (
        1 if settings["SCR_FLUSH_TYPE"] == "SYNC" else int(settings["SCRTUNE_FLUSH_THREADS"]) or MAX_THREADS
    )
    buffer = int(settings["SCR_FILE_BUF_SIZE"])
    copy = (job, wanted, str(settings["SCRTUNE_FLUSH_CPUS"]), buffer)
    threads = _threads(job, wanted)
    alone_s = _copying_s(job, threads, job.thread_rate, buffer)
    flush_s, share, stolen = _flush(*copy, int(settings["SCRTUNE_FLUSH_NICE"]) if asynchronous else None)
    return Parts(
        write_s=_to_cache(job),
        encode_s=encode_s(job, settings),
        flush_s=flush_s,
        share=share if asynchronous else 0.0,
        stolen=stolen if asynchronous else 0.0,
        haste=flush_s / _flush(*copy, 0)[0] if asynchronous else 1.0,
        flush_cpu_s=job.duty * job.rank_bytes / job.thread_rate,
        flush_delay_s=threads * (flush_s - alone_s),
        cached=True,
        asynchronous=asynchronous,
        every=max(1, int(settings["SCR_FLUSH"])),
        size=max(1, int(settings["SCR_CACHE_SIZE"])),
    )


def rework_s(job: Job, settings: Settings, known: Parts) -> float:
    """Return the seconds of computation that failures are expected to destroy, which only the cache has."""
    if not known.cached:
        return 0.0
    destroyed = MORE_THAN_A_NODE if LOSSES[job.scheme(settings)] else 1.0
    exposed_s = (known.every - 1) / 2 * job.interval_s
    if known.asynchronous:
        exposed_s += min(known.flush_s, job.interval_s)
    return destroyed * NODE_FAILURES_PER_S * job.nodes * job.interval_s * exposed_s


def _to_prefix(job: Job) -> float:
    node = min(job.prefix_rank * job.ranks_per_node, job.prefix_node, job.prefix_all / job.nodes)
    return job.node_bytes / node + job.files * job.prefix_file_s * (1 + job.ranks / 64)


def _to_cache(job: Job) -> float:
    files_s = job.files * job.ranks_per_node * job.cache_file_s
    return job.node_bytes / job.cache_write + files_s + job.cache_fixed_s


def encode_s(job: Job, settings: Settings) -> float:
    """Return the seconds that redset takes: a ring over the set, in messages of SCR_MPI_BUF_SIZE."""
    scheme, size, held = job.scheme(settings), job.set_size(settings), job.node_bytes
    if scheme == "SINGLE":
        return 0.0
    sent = {"PARTNER": 1.0, "XOR": 1.0, "RS": 2.0}[scheme] * held
    computed = {"PARTNER": 0.0, "XOR": 1.0, "RS": 4.0}[scheme] * held
    written = held * (job.stored(settings) - 1)
    messages = max(size - 1.0, sent / job.ranks_per_node / int(settings["SCR_MPI_BUF_SIZE"]))
    bulk_s = held / job.cache_read + sent / job.network + computed / job.xor_rate + written / job.cache_write
    return (bulk_s + messages * job.message_s) * (1 + 0.01 * size) + job.encode_fixed_s


@lru_cache(maxsize=1024)
def _flush(job: Job, wanted: int, where: str, buffer: int, nice: int | None) -> tuple[float, float, float]:
    """Seconds of a flush, the share of the computation beside it that it takes, and that of stolen cores.

    `nice` is the nice value of threads beside the computation, None for a flush that blocks.
    """
    threads = _threads(job, wanted)
    duty = _duty(job, threads)
    cpus = _cpus(where, job.cores)
    rate, lost = job.thread_rate, 0.0
    if threads > 1 or nice is not None:
        rate, lost = _placed(job, threads, duty, cpus, asynchronous=nice is not None)
    yields = bool(nice) and not cpus
    if yields:  # it takes what the ranks leave: of their masks, or of the node, and all while they wait
        computing = ceil(job.busy)
        spare = (job.mask if job.bound else job.cores / job.ranks_per_node) - computing
        left = min(1.0, max(LEFT_OVER, spare / (threads * duty)))
        # of each byte it copies: how many share the storage is no matter
        beside = 1 / (1 - job.duty + job.duty / left)
        rate *= beside + (1 - beside) * (1 - job.busy / computing)
    flush_s = _copying_s(job, threads, rate, buffer)
    if yields:
        lost *= _flush(job, wanted, where, buffer, 0)[0] / flush_s
        lost = min(lost, LEFT_OVER * threads / job.busy)
    crowd = job.crowd * min(1.0, job.node_bytes / flush_s / job.prefix_node)
    return flush_s, min(0.9, lost + crowd), min(0.9, lost)


def _threads(job: Job, wanted: int) -> int:
    """Return the threads that copy a rank's files."""
    return min(job.files, job.cores, wanted)


def _node_rate(job: Job) -> float:
    return min(job.prefix_node, job.prefix_all / job.nodes)


def _duty(job: Job, threads: int) -> float:
    """Return the share of a core that a flush thread wants: less where the node's rate limits it."""
    return job.duty * min(1.0, _node_rate(job) / (threads * job.ranks_per_node * job.thread_rate))


def _copying_s(job: Job, threads: int, rate: float, buffer: int) -> float:
    """Return the seconds of a flush by `threads` of this `rate` each."""
    rate = 1 / (1 / rate + job.call_s / buffer)
    node = _node_rate(job) / job.node_bytes
    copy_s = _makespan(_loads(job.files, job.largest, threads), rate / job.rank_bytes, node)
    files_s = -(-job.files // threads) * job.prefix_file_s * (1 + job.ranks / 64)
    return copy_s + files_s + job.flush_fixed_s


def _placed(
    job: Job, threads: int, duty: float, cpus: frozenset[int], *, asynchronous: bool
) -> tuple[float, float]:
    """Rate of a flush thread where it runs, and the share of the ranks' computation that it takes there."""
    needed = threads * job.ranks_per_node * duty
    alone = threads * job.duty  # cores that a rank's threads need to copy as fast as they can
    if cpus:  # beside the ranks, as far as these are not their CPUs
        overlap = sum(cpu < job.used for cpu in cpus) / len(cpus) if job.bound else 0.0
        slow = job.bound_factor if overlap and asynchronous else 1.0
        spare = job.cores - job.busy * job.ranks_per_node
        taken = needed * overlap if job.bound else max(0.0, needed - spare)
        rate = job.thread_rate * min(1.0, len(cpus) / job.ranks_per_node / alone)
        rate *= 1 - overlap * (1 - slow)
        return rate, job.steal * taken / (job.busy * job.ranks_per_node)
    if job.bound:
        slow = job.bound_factor if asynchronous else 1.0
        share = min(1.0, threads * duty / job.mask)
        return job.thread_rate * slow * min(1.0, job.mask / alone), job.steal * share
    spare = job.cores - job.busy * job.ranks_per_node
    taken = min(1.0, max(0.0, needed - spare) / (job.busy * job.ranks_per_node))
    return job.thread_rate * min(1.0, job.cores / job.ranks_per_node / alone), job.steal * taken


@lru_cache(maxsize=4096)
def _cpus(text: str, cores: int) -> frozenset[int]:
    """The CPUs of this node in a list like ``4-7,9``."""
    found: set[int] = set()
    for item in filter(None, text.split(",")):
        first, _, last = item.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(cpu for cpu in found if cpu < cores)


@lru_cache(maxsize=4096)
def _loads(files: int, largest: float, threads: int) -> list[float]:
    """Shares of the threads: the largest file first, the others to the thread that has least."""
    if files == 1:
        return [1.0]
    first = max(largest, 1 / files)
    loads = [first] + [0.0] * (threads - 1)
    for _ in range(files - 1):
        loads[loads.index(min(loads))] += (1 - first) / (files - 1)
    return sorted(loads)


def _makespan(loads: list[float], rate: float, node: float) -> float:
    """Seconds until all threads are done; those that still work share the `node`'s rate."""
    done, now = 0.0, 0.0
    for index, load in enumerate(loads):
        now += (load - done) / min(rate, node / (len(loads) - index))
        done = load
    return now
