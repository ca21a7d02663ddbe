"""A simulated job under a tuner: its events in their order, its settings those that the tuner advises."""

# ruff: noqa: S311 - simulated jobs need no cryptography

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import Protocol

import msgspec

from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, StepCompleted
from scrtune.intents import events
from scrtune.intents.effects import Advice
from scrtune.intents.events import Access, Event, NodeObserved, ProcessUse, SettingsObserved, TraceDigest

from . import oracle
from .jobs import POOR, draw
from .machine import Checkpoint, Flush, Machine, Noise, Truth, noises
from .rails import permitted
from .truth import DEFAULTS, GIB, MIB, REINIT, Job, Settings

STARTS = ("defaults", "poor", "random", "optimal")
MUTABILITY = {name: "re-init" if name in REINIT else "live" for name in DEFAULTS} | {
    "SCR_FLUSH_WIDTH": "inert"
}
"""The mutability of parameters in a real SCR."""

CACHE = "/local/cache"
"""Of a job whose cache is on a device."""
OF_ALL = 0.8
"""What rank 0 waits for cores to what all ranks, which wait for each other, lose by that; it scatters."""
SYSTEM, SYSTEM_SCATTER = (5e-4, 6e-3), 0.5
"""Least and most of its time for which rank 0 waits for what the operating system does; SD of its log."""
THREADS_SCATTER = 0.1
"""SD of the log of what rank 0's flush threads have of cores, and wait for them, to what all have."""
HIDDEN = 3.0
"""How much faster than a checkpoint a small write to it is, which stays in memory."""


class Tuner(Protocol):
    """What :class:`scrtune.intents.pipeline.Pipeline` is to a job."""

    @property
    def advice(self) -> Advice:
        """The settings for the next output."""
        ...

    def handle(self, event: Event, now: float) -> object:
        """Take an event in."""
        ...


@dataclass(frozen=True)
class Probed:
    """What a probe of the node finds, in bytes/s."""

    cache_write: float
    cache_read: float
    memory: float
    xor: float
    device: float
    """Of the cache's device, where the cache is not in memory: what is synced shows it; else 0."""
    memory_bytes: float
    """Available on a node."""
    link: float
    """Of the network's link, of which an encode gets 0.4 to all."""
    init_s: float
    """What SCR_Init took: a re-init takes half as long to twice as long."""


@dataclass(frozen=True)
class Case:
    """A job, what its user gave explicitly, and its noise."""

    scenario: str
    seed: int
    job: Job
    truth: Truth
    user: Settings
    noise: list[Noise]
    probed: Probed

    @property
    def own(self) -> Settings:
        """The user's settings, complete."""
        return {**DEFAULTS, **self.user}


MakeTuner = Callable[[Case], Tuner]


class Outcome(msgspec.Struct, frozen=True):
    """One job: seconds lost up to each checkpoint's end, and the long-run cost of what was active in it."""

    tuned_s: list[float]
    own_s: list[float]
    oracle_s: list[float]
    steady_s: list[float]
    steady_best_s: list[float]
    trials: int
    outside: int
    """Checkpoints under settings outside the rails."""
    left: tuple[str, ...]
    """Levers that alone would still pay at the end."""
    final: Settings
    """Active settings at the end."""
    best: Settings
    """The oracle's at the end."""


def case(scenario: str, start: str, seed: int, checkpoints: int) -> Case:
    """Return the job `seed` of a scenario; its rates are the same whatever the user's start."""
    rng = _random(scenario, seed)
    job = draw(rng, scenario)
    truth = Truth(job)
    probed = _probe(job, _random(f"probe of {scenario}", seed))
    noise = noises(_random(f"noise of {scenario}", seed), checkpoints)
    return Case(scenario, seed, job, truth, _user(truth, start, rng), noise, probed)


def _random(of: str, seed: int) -> random.Random:
    """Return what draws for job `seed`: jobs of two scenarios have nothing in common."""
    return random.Random(zlib.crc32(f"{of} {seed}".encode()))


def _probe(job: Job, rng: random.Random) -> Probed:
    """A small write by one process: a quarter off, and in one of six jobs memory hides a slower device.

    Linux lets 12 to 18 % of the available memory be dirty, and a checkpoint does not fit into that: the rest
    of it waits for the device. Of that 2 MiB are synced, which is twice as far off.
    """
    is_hidden = rng.random() < 1 / 6
    hidden = HIDDEN if is_hidden else 1.0
    rates = (hidden * job.cache_write, job.cache_read, GIB * rng.uniform(6, 20), job.xor_rate)
    found = [rate * exp(rng.gauss(0, 0.25)) for rate in rates]
    device = is_hidden * job.cache_write * exp(rng.gauss(0, 0.5))
    init_s = job.reinit_s * 2 ** rng.uniform(-1, 1)
    link = job.network / rng.uniform(0.4, 1.0)
    memory_bytes, in_memory = rng.uniform(1, 5) * job.node_bytes, rng.uniform(0.12, 0.18)
    left = 1 - in_memory * memory_bytes / job.node_bytes
    return Probed(
        *found,
        device=device * left / (1 - (1 - left) / HIDDEN),
        memory_bytes=memory_bytes if is_hidden else 512 * GIB,
        link=link,
        init_s=init_s,
    )


def _user(truth: Truth, start: str, rng: random.Random) -> Settings:
    match start:
        case "defaults":
            return {}
        case "poor":
            return POOR
        case "random":
            return oracle.some(truth, {"SCR_COPY_TYPE": "SINGLE"}, rng)
        case "optimal":
            return oracle.best(truth, oracle.best(truth, {}))
    raise ValueError(start)


def simulate(scenario: str, start: str, seed: int, checkpoints: int, make_tuner: MakeTuner) -> Outcome:
    """Run one job under a tuner, under the user's own settings and under the oracle's: the same noise."""
    made = case(scenario, start, seed, checkpoints)
    run = Run(made, make_tuner(made))
    for noise in made.noise:
        run.checkpoint(noise)
    truths = run.machine.truths
    best = [oracle.best(truth, made.user) for truth in (truths if made.job.shift != 1 else truths[:1])]
    halves = [0 if index < checkpoints // 2 else len(best) - 1 for index in range(checkpoints)]
    truth = truths[halves[-1]]
    return Outcome(
        tuned_s=run.lost_s,
        own_s=_fixed(made, [made.own] * checkpoints),
        oracle_s=_fixed(made, [best[half] for half in halves]),
        steady_s=run.steady_s,
        steady_best_s=[truths[half].cost_s(best[half]) for half in halves],
        trials=run.trials,
        outside=run.outside,
        left=tuple(oracle.levers_left(truth, made.user, run.settings)),
        final=run.settings,
        best=best[-1],
    )


def _fixed(made: Case, settings: list[Settings]) -> list[float]:
    """Seconds lost up to the end of each checkpoint where nobody tunes."""
    machine, lost = Machine(made.job, settings[0], len(settings)), []
    for noise, each in zip(made.noise, settings, strict=True):
        machine.checkpoint(each, noise)
        lost.append(machine.lost_s)
    return lost


class Run:
    """A job that applies a tuner's advice, and tells it what happens."""

    def __init__(self, made: Case, tuner: Tuner) -> None:
        self.tuner = tuner
        self.settings = made.own
        self.machine = Machine(made.job, made.own, len(made.noise))
        self.lost_s: list[float] = []
        self.steady_s: list[float] = []
        self.trials = self.outside = 0
        self._case = made
        self._seen = {tuple(made.own[name] for name in DEFAULTS)}
        self._step = 0
        self._held_bytes = 0.0
        self._rng = _random(f"rank 0 of {made.scenario}", made.seed)
        self._system = _random(f"system of {made.scenario}", made.seed)
        self._of_the_system = exp(self._system.uniform(log(SYSTEM[0]), log(SYSTEM[1])))
        self._waited_s = 0.0
        """By rank 0 for cores, since the last output."""
        self._unnoticed: list[Flush] = []
        """Flushes whose end SCR will notice in the next output."""
        self._begin()

    def checkpoint(self, noise: Noise) -> Checkpoint:
        """One output under the advice, then the computation after it."""
        advice = self.tuner.advice
        self.settings = {**self._case.own, **{n: v for n, v in advice.settings.items() if n in DEFAULTS}}
        truth = self.machine.truth
        self._judge(truth)
        made = self.machine.checkpoint(self.settings, noise, advice.generation)
        self._tell(made, advice.generation)
        self.lost_s.append(self.machine.lost_s)
        return made

    def _judge(self, truth: Truth) -> None:
        self.steady_s.append(truth.cost_s(self.settings))
        self.outside += not permitted(truth, self._case.user, self.settings)
        key = tuple(self.settings[name] for name in DEFAULTS)
        self.trials += key not in self._seen
        self._seen.add(key)

    def _tell(self, made: Checkpoint, generation: int) -> None:
        job = self._case.job
        self._flushed([*self._unnoticed, *made.ended], made.end_s)
        self._unnoticed = []
        output = OutputCompleted(
            dataset=made.dataset,
            name=f"step.{self._step}",
            start_s=made.start_s,
            end_s=made.end_s,
            generation=generation,
            bytes=job.rank_bytes * job.ranks,
            files=job.files * job.ranks,
            write_s=made.write_s,
            encode_s=made.encode_s,
            flush_s=made.flush_s,
            wait_s=made.wait_s,
            flush_due=made.flush_due,
            apply_s=made.apply_s,
            shared_files=False,
            **_known(OutputCompleted, cpu_s=job.interval_s * min(1.0, job.busy), run_delay_s=self._waited_s),
        )
        of_the_system_s = job.interval_s * self._of_the_system * exp(self._system.gauss(0, SYSTEM_SCATTER))
        self._waited_s = made.stolen_s * OF_ALL * exp(self._rng.gauss(0, 0.35)) + of_the_system_s
        self.tuner.handle(output, made.end_s)
        if self.machine.held_bytes != self._held_bytes:
            self._held_bytes = self.machine.held_bytes
            self.tuner.handle(self._node(self._held_bytes), made.end_s)
        for start_s, end_s, ended in made.steps:
            if job.reinit_s:
                self._unnoticed += ended
            else:
                self._flushed(ended, end_s)
            self.tuner.handle(StepCompleted(step=self._step, start_s=start_s, end_s=end_s), end_s)
            self._step += 1

    def _flushed(self, ended: list[Flush], now: float) -> None:
        for flush in ended:
            event = FlushCompleted(
                dataset=flush.dataset,
                start_s=flush.start_s,
                end_s=flush.end_s,
                generation=flush.generation,
                asynchronous=flush.asynchronous,
                bytes=self._case.job.rank_bytes * self._case.job.ranks,
                **_known(
                    FlushCompleted,
                    cpu_s=flush.cpu_s * exp(self._rng.gauss(0, THREADS_SCATTER)),
                    run_delay_s=flush.delay_s * exp(self._rng.gauss(0, THREADS_SCATTER)),
                ),
                **({"source": "scr"} if self._case.job.reinit_s else {}),
            )
            self.tuner.handle(event, now)

    def _begin(self) -> None:
        """The job describes itself, and computes a first interval."""
        job, own, now = self._case.job, self._case.own, self.machine.now
        sources = {name: "user config" if name in self._case.user else "default" for name in own}
        for event in (
            JobStarted(time_s=now, ranks=job.ranks, nodes=job.nodes),
            SettingsObserved(
                settings=own,
                sources=sources,
                ranks=job.ranks,
                nodes=job.nodes,
                engine="" if job.reinit_s else "embedded",
                floor=job.floor,
                mutability=MUTABILITY if job.reinit_s else {},
                cache=CACHE if self._case.probed.device else "",
                **_init(job, self._case.probed),
            ),
            self._node(0.0),
            *_probed(self._case.probed, now),
            TraceDigest(accesses=(_writes(job, own, now),)),
        ):
            self.tuner.handle(event, now)
        for _ in range(6):
            start_s, self.machine.now = self.machine.now, self.machine.now + job.interval_s / 6
            self.tuner.handle(
                StepCompleted(step=self._step, start_s=start_s, end_s=self.machine.now), self.machine.now
            )
            self._step += 1

    def _node(self, held_bytes: float) -> NodeObserved:
        job = self._case.job
        every = tuple(range(job.cores))
        processes = tuple(
            ProcessUse(
                pid=rank,
                cpus=every[rank * job.mask : (rank + 1) * job.mask] if job.bound else every,
                cores_used=job.busy,
            )
            for rank in range(job.ranks_per_node)
        )
        return NodeObserved(
            host="n0",
            cpus=every,
            processes=processes,
            memory_available_bytes=int(self._case.probed.memory_bytes),
            cache_free_bytes=max(1, int(job.cache_free_bytes - held_bytes)),
            **_known(NodeObserved, link_bytes_per_s=self._case.probed.link),
        )


def _probed(found: Probed, now: float) -> list[Event]:
    """The event of the probe; none where the tuner is one from before there was one."""
    if (event := getattr(events, "StorageProbed", None)) is None:
        return []
    return [
        event(
            host="n0",
            cache_write_bytes_per_s=found.cache_write,
            cache_read_bytes_per_s=found.cache_read,
            **_known(event, cache_sync_bytes_per_s=found.device),
            memory_bytes_per_s=found.memory,
            xor_bytes_per_s=found.xor,
            bytes=32 * MIB,
            probe_s=0.05,
            time_s=now,
        )
    ]


def _known(event: type[msgspec.Struct], **rates: float) -> dict[str, float]:
    """Return the `rates` that an event has; fewer where the tuner is one from before some were known."""
    return {name: rate for name, rate in rates.items() if name in event.__struct_fields__}


def _init(job: Job, found: Probed) -> dict[str, float]:
    """What the run says of SCR_Init; nothing where the tuner is one from before that was known."""
    is_known = job.reinit_s and "init_s" in SettingsObserved.__struct_fields__
    return {"init_s": found.init_s} if is_known else {}


def _writes(job: Job, own: Settings, now: float) -> Access:
    """A node's writes of the application in one output, in pieces of 4 MiB."""
    count = max(1, job.node_bytes // (4 * MIB))
    return Access(
        tier="prefix" if own["SCR_CACHE_BYPASS"] else "cache",
        op="write",
        count=count,
        bytes=count * 4 * MIB,
        duration_s=1.0,
        start_s=now - 1,
        end_s=now,
        sizes={4 * MIB: count},
    )
