"""The effect of tuning on simulated jobs: the real pipeline, fed by a job that applies its advice.

A job's checkpoints cost what a model says (rates as in the LLNL study, drawn anew for each job), times noise:
8 % independent, 15 % autocorrelated. Half of the jobs are misfits: their flush slows the computation down far
more, or their cache is far slower, than any rule expects. Tuned and not tuned, a job meets the same noise, so
that what differs is the tuner's doing. Costs are the true ones; the tuner sees only events, as in a real job.

    python benchmarks/simulate_tuner.py [--jobs 150] [--checkpoints 40] [--reinit 0]
"""

# ruff: noqa: S311 - simulated jobs need no cryptography

import argparse
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, sqrt
from statistics import fmean, median

from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, StepCompleted
from scrtune.intents.events import (
    Access,
    NodeObserved,
    ProcessUse,
    SettingsObserved,
    TraceDigest,
    Values,
)
from scrtune.intents.observe.redundancy import storage_factor
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.rules.situation import DEFAULTS
from scrtune.intents.tune.decisions import Verdict

GIB, MIB, KIB = 1024**3, 1024**2, 1024
INDEPENDENT, AUTOCORRELATED, CORRELATION = 0.08, 0.15, 0.7
STEPS = 6
STEP_NOISE = 0.02
POOR: Values = {
    "SCR_CACHE_BYPASS": 0,
    "SCR_COPY_TYPE": "XOR",
    "SCR_FLUSH": 1,
    "SCR_MPI_BUF_SIZE": 16 * KIB,
    "SCR_FILE_BUF_SIZE": 16 * KIB,
}
REINIT = {
    "SCR_CACHE_BYPASS",
    "SCR_CACHE_SIZE",
    "SCR_COPY_TYPE",
    "SCR_FLUSH_TYPE",
    "SCR_SET_SIZE",
}
MUTABILITY = {name: "re-init" if name in REINIT else "live" for name in DEFAULTS}
"""The mutability of parameters in a real SCR."""


@dataclass(frozen=True)
class Parts:
    """The parts of a checkpoint under given settings, in seconds, before noise."""

    write_s: float
    encode_s: float
    flush_s: float
    blocked_s: float
    slowdown_s: float

    @property
    def cost_s(self) -> float:
        """Seconds taken from the job."""
        return self.write_s + self.encode_s + self.blocked_s + self.slowdown_s


@dataclass(frozen=True)
class Job:
    """One job's truth."""

    nodes: int
    ranks_per_node: int
    cores: int
    busy: float
    bound: bool
    rank_bytes: int
    files: int
    interval_s: float
    cache_rate: float
    thread_rate: float
    node_rate: float
    network_rate: float
    call_s: float
    contention: float
    floor: str

    @property
    def ranks(self) -> int:
        """All ranks of the job."""
        return self.nodes * self.ranks_per_node

    @property
    def idle(self) -> str:
        """The CPUs in no rank's mask."""
        used = int(self.ranks_per_node * max(1, round(self.busy)))
        return f"{used}-{self.cores - 1}" if self.bound and used < self.cores - 1 else ""

    def parts(self, settings: Values) -> Parts:
        """The truth about `settings`."""
        every = {**DEFAULTS, **settings}
        node_bytes = self.rank_bytes * self.ranks_per_node
        if every["SCR_CACHE_BYPASS"]:
            write_s = node_bytes / min(self.node_rate, self.thread_rate * self.ranks_per_node)
            return Parts(write_s, 0.0, 0.0, 0.0, 0.0)
        encode_s = 0.0
        if every["SCR_COPY_TYPE"] != "SINGLE" and self.nodes > 1:
            factor = storage_factor(str(every["SCR_COPY_TYPE"]), self.nodes)
            messages = node_bytes * factor / int(every["SCR_MPI_BUF_SIZE"])
            encode_s = node_bytes * factor / self.network_rate + messages * self.call_s
        flush_s, slowdown_s = self._flush(every)
        is_async = every["SCR_FLUSH_ASYNC"] and every["SCR_FLUSH_TYPE"] != "SYNC"
        share = 1 / max(1, int(every["SCR_FLUSH"]))
        if is_async:
            room_s = self.interval_s * max(0, int(every["SCR_CACHE_SIZE"]) - 1)
            blocked_s, slowdown_s = max(0.0, flush_s - room_s) * share, slowdown_s * share
        else:
            blocked_s, slowdown_s = flush_s * share, 0.0
        return Parts(node_bytes / self.cache_rate, encode_s, flush_s, blocked_s, slowdown_s)

    def _flush(self, every: Values) -> tuple[float, float]:
        """Seconds of a flush, and of computation it takes when it runs beside it."""
        wanted = int(every["SCRTUNE_FLUSH_THREADS"]) or min(self.cores, 16)
        threads = 1 if every["SCR_FLUSH_TYPE"] == "SYNC" else min(self.files, wanted)
        is_bound = self.bound and not every["SCRTUNE_FLUSH_CPUS"]
        rate = min(threads * self.thread_rate, self.node_rate / self.ranks_per_node) * (
            0.5 if is_bound else 1.0
        )
        calls_s = self.rank_bytes / int(every["SCR_FILE_BUF_SIZE"]) * self.call_s / threads
        flush_s = self.rank_bytes / rate + calls_s
        working = threads * self.ranks_per_node
        spare = self.cores - self.busy * self.ranks_per_node
        crowded = 1.0 if is_bound else max(0.1, min(1.0, (working - spare) / self.cores))
        return flush_s, flush_s * min(1.0, self.contention * crowded)


def draw(rng: random.Random) -> Job:
    """A job; half of them are misfits."""
    cores = rng.choice((16, 32, 64))
    job = {
        "nodes": rng.choice((1, 2, 4, 8)),
        "ranks_per_node": rng.choice((2, 4, 8)),
        "cores": cores,
        "busy": rng.choice((0.8, 1.0, 1.6)),
        "bound": rng.random() < 0.5,
        "rank_bytes": int(GIB * rng.uniform(1, 12)),
        "files": rng.choice((1, 8, 45)),
        "interval_s": rng.uniform(120, 600),
        "cache_rate": GIB * rng.uniform(2, 10),
        "thread_rate": GIB * rng.uniform(0.3, 0.7),
        "node_rate": GIB * rng.uniform(0.6, 4),
        "network_rate": GIB * rng.uniform(1, 6),
        "call_s": rng.uniform(4e-6, 2e-5),
        "contention": rng.uniform(0.02, 0.3),
        "floor": rng.choice(("", "SINGLE", "NODE")),
    }
    if rng.random() < 0.5:
        if rng.random() < 0.5:
            job["contention"] *= rng.uniform(4, 10)
        else:
            job["cache_rate"] /= rng.uniform(4, 20)
    return Job(**job)


def best(job: Job, user: Values | None = None) -> Values:
    """The settings that cost least of all that tuning may come to from those of `user` (default: SCR's)."""
    scheme = {"": "XOR", "SINGLE": "SINGLE", "NODE": "PARTNER"}[job.floor]
    every = {**DEFAULTS, **(user or {})}
    grid: list[Values] = [every]
    ways = itertools.product((("SYNC", 0), ("PTHREAD", 0), ("PTHREAD", 1)), (1, 2, 4, 8, 16), {"", job.idle})
    for (type_, is_async), threads, cpus in ways:
        if every["SCR_CACHE_BYPASS"] and not is_async:
            continue
        changed: Values = {
            "SCR_CACHE_BYPASS": 0,
            "SCR_CACHE_SIZE": 3,
            "SCR_COPY_TYPE": scheme,
            "SCR_FILE_BUF_SIZE": 32 * MIB,
            "SCR_FLUSH": 1,
            "SCR_FLUSH_ASYNC": is_async,
            "SCR_FLUSH_TYPE": type_,
            "SCR_MPI_BUF_SIZE": MIB,
            "SCRTUNE_FLUSH_THREADS": threads,
            "SCRTUNE_FLUSH_CPUS": cpus,
        }
        grid.append(changed)
    return min(grid, key=lambda settings: job.parts(settings).cost_s)


def noise(rng: random.Random, count: int) -> list[float]:
    """Factors on the costs of `count` checkpoints."""
    slow = rng.gauss(0, AUTOCORRELATED)
    factors = []
    for _ in range(count):
        factors.append(exp(slow + rng.gauss(0, INDEPENDENT)))
        slow = CORRELATION * slow + rng.gauss(0, AUTOCORRELATED * sqrt(1 - CORRELATION**2))
    return factors


class Run:
    """A job that runs under the pipeline's advice; `cost_s` is what its checkpoints truly cost in all."""

    def __init__(self, job: Job, user: Values, rng: random.Random, reinit_s: float = 0.0) -> None:
        self.job = job
        self._reinit_s = reinit_s
        self.pipeline = Pipeline()
        self.cost_s = 0.0
        self._rng = rng
        self._now = 1_000_000.0
        self._step = 0
        self._begin(user)

    def checkpoint(self, dataset: int, factor: float) -> None:
        """Checkpoint, then compute, with the flush beside it."""
        advice = self.pipeline.advice
        settings = {**self._own, **advice.settings}
        apply_s = self._apply(settings)
        parts = self.job.parts(settings)
        self.cost_s += apply_s + parts.cost_s * factor
        blocking_s = apply_s + (parts.write_s + parts.encode_s + parts.blocked_s) * factor
        start_s, end_s = self._now, self._now + blocking_s
        is_async = parts.flush_s > 0 and parts.blocked_s < parts.flush_s * 0.999
        if parts.flush_s > 0 and not is_async:
            flush = _flush(dataset, advice.generation, end_s - parts.blocked_s * factor, end_s, False)
            self.pipeline.handle(flush, end_s)
        output = OutputCompleted(
            dataset=dataset,
            name=f"step.{self._step}",
            start_s=start_s,
            end_s=end_s,
            generation=advice.generation,
            bytes=self.job.rank_bytes * self.job.ranks,
            files=self.job.files * self.job.ranks,
            write_s=parts.write_s * factor,
            encode_s=parts.encode_s * factor,
            flush_s=0.0 if is_async else parts.blocked_s * factor,
            wait_s=parts.blocked_s * factor if is_async else 0.0,
            flush_due=parts.flush_s > 0,
            apply_s=apply_s,
            shared_files=False,
        )
        self._now = end_s
        self.pipeline.handle(output, self._now)
        lost_s, beside = parts.slowdown_s * factor, None
        if is_async:  # it ends before the next checkpoint
            flush_s = min(parts.flush_s * factor, 0.9 * self.job.interval_s + lost_s)
            beside = _flush(dataset, advice.generation, end_s, end_s + flush_s, True)
        self._compute(beside, lost_s)

    def _apply(self, settings: Values) -> float:
        """Apply `settings`, by a re-init of SCR where they need one; returns its seconds."""
        changed = {name for name, value in settings.items() if self._in_force[name] != value}
        before, self._in_force = self._in_force, settings
        if not self._reinit_s or not changed & REINIT:
            return 0.0
        left_s = self.job.parts(before).flush_s - self.job.interval_s  # a flush under way is waited for
        return self._reinit_s + max(0.0, left_s)

    def _begin(self, user: Values) -> None:
        job, now = self.job, self._now
        self._own = self._in_force = {**DEFAULTS, **user}
        sources = {name: "user config" if name in user else "default" for name in self._own}
        mask = int(max(1, round(job.busy)))
        processes = tuple(
            ProcessUse(
                pid=rank,
                cpus=tuple(range(rank * mask, (rank + 1) * mask)) if job.bound else tuple(range(job.cores)),
                cores_used=job.busy,
            )
            for rank in range(job.ranks_per_node)
        )
        sizes = {4 * MIB: 100, 64 * MIB: 200}
        writes = Access(
            tier="cache",
            op="write",
            count=300,
            bytes=sum(size * count for size, count in sizes.items()),
            duration_s=1.0,
            start_s=now,
            end_s=now + 1,
            sizes=sizes,
        )
        for event in (
            JobStarted(time_s=now, ranks=job.ranks, nodes=job.nodes),
            SettingsObserved(
                settings=self._own,
                sources=sources,
                ranks=job.ranks,
                nodes=job.nodes,
                floor=job.floor,
                mutability=MUTABILITY if self._reinit_s else {},
            ),
            NodeObserved(
                host="n0",
                cpus=tuple(range(job.cores)),
                processes=processes,
                memory_available_bytes=512 * GIB,
                cache_free_bytes=512 * GIB,
            ),
            TraceDigest(accesses=(writes,)),
        ):
            self.pipeline.handle(event, now)
        self._compute()

    def _compute(self, flush: FlushCompleted | None = None, lost_s: float = 0.0) -> None:
        """The steps of an interval. A `flush` beside them takes `lost_s` from its time, evenly."""
        until_s, share = (flush.end_s, lost_s / flush.flush_s) if flush else (self._now, 0.0)
        for _ in range(STEPS):
            work_s = self.job.interval_s / STEPS * self._rng.gauss(1, STEP_NOISE)
            beside_s = max(0.0, until_s - self._now)
            done_s = beside_s * (1 - share)
            took_s = beside_s + work_s - done_s if work_s >= done_s else work_s / (1 - share)
            step = StepCompleted(step=self._step, start_s=self._now, end_s=self._now + took_s)
            self._step += 1
            self._now += took_s
            self.pipeline.handle(step, self._now)
            if flush and self._now >= until_s:
                self.pipeline.handle(flush, self._now)
                flush = None


def _flush(dataset: int, generation: int, start_s: float, end_s: float, asynchronous: bool) -> FlushCompleted:
    return FlushCompleted(
        dataset=dataset, start_s=start_s, end_s=end_s, generation=generation, asynchronous=asynchronous
    )


@dataclass(frozen=True)
class Outcome:
    """One simulated job: costs as shares of what the user's own settings cost under the same noise."""

    ratio: float
    oracle: float
    excess: float
    kept: int
    undone: int


def simulate(job: Job, user: Values, checkpoints: int, seed: int, reinit_s: float = 0.0) -> Outcome:
    """Run `job` from the settings of `user`, tuned."""
    factors = noise(random.Random(seed), checkpoints)
    run = Run(job, user, random.Random(seed + 1), reinit_s)
    for dataset, factor in enumerate(factors, start=1):
        run.checkpoint(dataset, factor)
    own_s = job.parts(user).cost_s * sum(factors)
    verdicts = [decision.verdict for decision in run.pipeline.decisions]
    return Outcome(
        ratio=run.cost_s / own_s,
        oracle=job.parts(best(job, user)).cost_s * sum(factors) / own_s,
        excess=(run.cost_s - own_s) / job.parts(user).cost_s,
        kept=verdicts.count(Verdict.ACCEPTED),
        undone=verdicts.count(Verdict.REVERTED) + verdicts.count(Verdict.BASELINE),
    )


def users() -> Iterator[tuple[str, Callable[[Job], Values]]]:
    """Whose settings a job begins with."""
    yield "SCR's defaults", lambda _: {}
    yield "poor settings", lambda _: POOR
    yield "already optimal", best


def report(jobs: int, checkpoints: int, reinit_s: float) -> None:
    """Whole jobs: the rules propose, the tuner decides."""
    print(f"{jobs} jobs of {checkpoints} checkpoints for each user; costs against the user's own settings\n")
    if reinit_s:
        print(f"What a real SCR changes by a re-init only takes {reinit_s} s each time, there and back.\n")
    heading("user", "mean", "/ oracle", "median", "p99", "P(>2 % worse)", "worst excess", "kept", "undone")
    for name, settings in users():
        made = []
        for seed in range(jobs):
            job = draw(random.Random(1000 + seed))
            made.append(simulate(job, settings(job), checkpoints, seed, reinit_s))
        ratios = sorted(each.ratio for each in made)
        row(
            name,
            f"{fmean(ratios):.3f}",
            f"{fmean(ratios) / fmean(each.oracle for each in made):.2f}",
            f"{median(ratios):.3f}",
            f"{ratios[int(0.99 * (jobs - 1))]:.3f}",
            f"{sum(ratio > 1.02 for ratio in ratios) / jobs:.0%}",
            f"{max(each.excess for each in made):.2f} checkpoints",
            f"{fmean(each.kept for each in made):.1f}",
            f"{fmean(each.undone for each in made):.1f}",
        )


def heading(*titles: str) -> None:
    """The head of a table."""
    row(*titles)
    print("|" + "---|" * len(titles))


def row(*cells: str) -> None:
    """A row of it."""
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=150, help="jobs for each user")
    parser.add_argument("--checkpoints", type=int, default=40, help="checkpoints of a job")
    parser.add_argument(
        "--reinit", type=float, default=0.0, help="seconds of a re-init (default: none needed)"
    )
    options = parser.parse_args()
    report(options.jobs, options.checkpoints, options.reinit)
