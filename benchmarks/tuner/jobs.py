"""The jobs of each scenario, and the settings that their users begin with."""

import random
from collections.abc import Callable
from dataclasses import replace
from math import exp, log

from .truth import DEFAULTS, GIB, KIB, MIB, Job, Settings, parts

POOR: Settings = {
    "SCR_CACHE_BYPASS": 0,
    "SCR_CACHE_SIZE": 1,
    "SCR_COPY_TYPE": "XOR",
    "SCR_FLUSH": 1,
    "SCR_FLUSH_ASYNC": 0,
    "SCR_FLUSH_TYPE": "SYNC",
    "SCR_MPI_BUF_SIZE": 16 * KIB,
    "SCR_FILE_BUF_SIZE": 16 * KIB,
}
RATES = (
    *("cache_write", "cache_read", "prefix_rank", "prefix_node", "prefix_all"),
    *("network", "xor_rate", "thread_rate"),
)
REINIT_S = (0.003, 0.7)
"""As SCR 3.1.0 was seen to take, from an idle to a busy node; a flush that it forces comes on top."""
PREFIX_RATES = ("prefix_rank", "prefix_node", "prefix_all", "thread_rate")


def draw(rng: random.Random, scenario: str) -> Job:
    """Return a job of `scenario`; half of them have a surprise that no prior expects."""
    return SCENARIOS[scenario](_surprised(_usual(rng), rng), rng)


def shifted(job: Job) -> Job:
    """Return `job` as it is in its second half."""
    if job.shift == 1.0:
        return job
    return _scaled(job, PREFIX_RATES, job.shift)


def _between(rng: random.Random, low: float, high: float) -> float:
    """Log-uniform."""
    return exp(rng.uniform(log(low), log(high)))


def _usual(rng: random.Random) -> Job:
    nodes, ranks_per_node = rng.choice((1, 2, 4, 8, 16)), rng.choice((2, 4, 8))
    rank_bytes = int(_between(rng, 64 * MIB, 12 * GIB))
    scale = min(1.0, rank_bytes / GIB)  # smaller jobs meet the same machine, and have shorter fixed costs
    tight = rng.random() < 0.15
    node = GIB * _between(rng, 0.8, 5)
    thread = GIB * rng.uniform(0.3, 0.8)
    read = GIB * rng.uniform(3, 12)
    job = Job(
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        cores=rng.choice((16, 32, 64)),
        busy=rng.choice((0.8, 1.0, 1.6)),
        bound=rng.random() < 0.5,
        rank_bytes=rank_bytes,
        files=rng.choice((1, 2, 8, 45)),
        largest=rng.choice((0.0, 0.0, 0.45)),
        interval_s=1.0,
        floor=rng.choice(("", "SINGLE", "NODE")),
        reinit_s=rng.choice((0.0, 1.0)) * _between(rng, *REINIT_S),
        cache_free_bytes=rank_bytes * ranks_per_node * (rng.uniform(1.3, 4) if tight else rng.uniform(6, 40)),
        cache_write=GIB * rng.uniform(1.5, 6),
        cache_read=read,
        cache_file_s=scale * _between(rng, 2e-4, 1e-2),
        cache_fixed_s=scale * _between(rng, 0.02, 0.5),
        prefix_rank=thread * rng.uniform(1.0, 2.0),
        prefix_node=node,
        prefix_all=node * _between(rng, 0.5 * nodes, 4 * nodes),
        prefix_file_s=_between(rng, 2e-4, 4e-3),
        flush_fixed_s=scale * _between(rng, 0.01, 0.3),
        network=GIB * rng.uniform(2, 10),
        xor_rate=GIB * rng.uniform(4, 20),
        message_s=_between(rng, 1e-6, 5e-6),
        encode_fixed_s=scale * _between(rng, 0.005, 0.1),
        thread_rate=thread,
        bound_factor=rng.uniform(0.4, 0.95),
        call_s=_between(rng, 2e-6, 1e-5),
        duty=rng.uniform(0.15, 0.7),
        steal=rng.uniform(0.1, 0.6),
        crowd=rng.uniform(0.0, 0.08),
        beside=rng.uniform(0.05, 0.5),
    )
    return replace(job, interval_s=_own_write_s(job) * _between(rng, 2, 30))


def _own_write_s(job: Job) -> float:
    return parts(job, DEFAULTS).write_s


def _surprised(job: Job, rng: random.Random) -> Job:
    if rng.random() < 0.5:
        return job
    match rng.choice(("cache", "contention", "encode", "thread")):
        case "cache":
            return _scaled(job, ("cache_write", "cache_read"), 1 / _between(rng, 4, 20))
        case "contention":
            by = rng.uniform(4, 10)
            return replace(job, steal=min(1.5, job.steal * by), crowd=job.crowd * by)
        case "encode":
            return _scaled(job, ("network", "xor_rate"), 1 / 3)
        case _:
            return replace(job, thread_rate=job.thread_rate / rng.uniform(3, 6))


def _scaled(job: Job, names: tuple[str, ...], factor: float) -> Job:
    return replace(job, **{name: getattr(job, name) * factor for name in names})


def _mixed(job: Job, _rng: random.Random) -> Job:
    return job


def _io_bound(job: Job, rng: random.Random) -> Job:
    slow = _scaled(job, PREFIX_RATES, 1 / 2)
    return replace(slow, interval_s=_own_write_s(slow) * _between(rng, 1.2, 5))


def _encode_bound(job: Job, rng: random.Random) -> Job:
    slow = _scaled(_scaled(job, ("network",), 1 / rng.uniform(3, 6)), PREFIX_RATES, 1 / 2)
    return replace(slow, nodes=max(2, slow.nodes), floor="NODE")


def _no_idle_core(job: Job, _rng: random.Random) -> Job:
    return replace(job, busy=job.cores / job.ranks_per_node)


def _one_idle_core(job: Job, _rng: random.Random) -> Job:
    mask = job.cores // job.ranks_per_node - 1
    return replace(job, busy=float(mask), cores=mask * job.ranks_per_node + 1)


def _flush_near_interval(job: Job, rng: random.Random) -> Job:
    cached: Settings = {
        **DEFAULTS,
        "SCR_CACHE_BYPASS": 0,
        "SCR_FLUSH_ASYNC": 1,
        "SCR_FLUSH_TYPE": "PTHREAD",
        "SCRTUNE_FLUSH_THREADS": rng.choice((1, 2, 4)),
        "SCRTUNE_FLUSH_CPUS": job.idle,
    }
    return replace(job, interval_s=parts(job, cached).flush_s * rng.uniform(0.75, 1.35))


def _small_files(job: Job, rng: random.Random) -> Job:
    return replace(job, files=rng.choice((200, 500, 1000)), largest=0.0, cache_file_s=job.cache_file_s / 10)


def _one_big_file(job: Job, rng: random.Random) -> Job:
    files = rng.choice((1, 4))
    return replace(job, files=files, largest=0.9)


def _regime_shift(job: Job, rng: random.Random) -> Job:
    return replace(job, shift=rng.choice((3.0, 1 / 3)))


def _prior_wrong(job: Job, rng: random.Random) -> Job:
    factor = rng.choice((3.0, 1 / 3))
    return replace(_scaled(job, RATES, factor), interval_s=job.interval_s / factor)


SCENARIOS: dict[str, Callable[[Job, random.Random], Job]] = {
    "mixed": _mixed,
    "io-bound": _io_bound,
    "encode-bound": _encode_bound,
    "no-idle-core": _no_idle_core,
    "one-idle-core": _one_idle_core,
    "flush-near-interval": _flush_near_interval,
    "small-files": _small_files,
    "one-big-file": _one_big_file,
    "regime-shift": _regime_shift,
    "prior-wrong": _prior_wrong,
}
