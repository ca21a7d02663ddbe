"""A job in time: outputs wait for flushes, flushes outlast intervals and slow the steps down."""

import random
from collections import deque
from dataclasses import dataclass, field
from math import exp, sqrt

from .jobs import shifted
from .truth import DEFAULTS, REINIT, Job, Parts, Settings, parts, rework_s

STEPS = 6
CORRELATION = 0.7
SPIKES = 0.02


@dataclass(frozen=True)
class Noise:
    """Factors on one checkpoint's parts, and on the steps after it."""

    write: float = 1.0
    encode: float = 1.0
    flush: float = 1.0
    apply: float = 1.0
    steps: tuple[float, ...] = (1.0,) * STEPS


QUIET = Noise()


def noises(rng: random.Random, count: int) -> list[Noise]:
    """Return the noise of `count` checkpoints: independent, autocorrelated and spikes."""
    own, slow, step = rng.uniform(0.05, 0.12), rng.uniform(0.10, 0.15), rng.uniform(0.01, 0.03)
    drift, made = rng.gauss(0, slow), []
    for _ in range(count):
        write, encode, flush, apply = (exp(drift + rng.gauss(0, own)) for _ in range(4))
        if rng.random() < SPIKES:
            spike = rng.uniform(2, 4)
            write, encode, flush = write * spike, encode * spike, flush * spike
        steps = tuple(max(0.5, rng.gauss(1, step)) for _ in range(STEPS))
        made.append(Noise(write, encode, flush, apply, steps))
        drift = CORRELATION * drift + rng.gauss(0, slow * sqrt(1 - CORRELATION**2))
    return made


class Truth:
    """The parts of a checkpoint by settings, remembered."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._parts: dict[tuple[object, ...], Parts] = {}
        self._steady: dict[tuple[object, ...], float] = {}

    def parts(self, settings: Settings) -> Parts:
        """Return the parts under complete `settings`."""
        key = tuple(map(settings.__getitem__, DEFAULTS))
        if (found := self._parts.get(key)) is None:
            found = self._parts[key] = parts(self.job, settings)
        return found

    def cost_s(self, settings: Settings) -> float:
        """Return the seconds that a checkpoint costs in the long run, with expected rework, without noise."""
        key = tuple(map(settings.__getitem__, DEFAULTS))
        if (found := self._steady.get(key)) is None:
            known = self.parts(settings)
            found = steady_s(known, self.job) + rework_s(self.job, settings, known)
            self._steady[key] = found
        return found


@dataclass
class Flush:
    """One flush: beside the computation, of which it takes `share`, cores as far as `stolen`, or blocking it.

    While the ranks wait for it, it is faster by the factor `haste`.
    """

    dataset: int
    generation: int
    start_s: float
    end_s: float
    share: float = 0.0
    haste: float = 1.0
    asynchronous: bool = False
    stolen: float = 0.0
    cpu_s: float = 0.0
    """What its threads of a rank have of cores, and (`delay_s`) for how long they wait for one."""
    delay_s: float = 0.0


@dataclass
class Checkpoint:
    """What happened from the begin of an output to that of the next one."""

    dataset: int
    start_s: float
    end_s: float = 0.0
    apply_s: float = 0.0
    wait_s: float = 0.0
    write_s: float = 0.0
    encode_s: float = 0.0
    flush_s: float = 0.0
    """Of a flush that blocked."""
    flush_due: bool = False
    ended: list[Flush] = field(default_factory=list)
    """Flushes that ended before this output did."""
    steps: list[tuple[float, float, list[Flush]]] = field(default_factory=list)
    """Begin, end, and the flushes that ended meanwhile."""
    stolen_s: float = 0.0
    """What these took longer because ranks waited for cores."""


class Machine:
    """The job and what SCR has under way; flushes run one after the other."""

    def __init__(self, job: Job, own: Settings, checkpoints: int, now: float = 1_000_000.0) -> None:
        self.truths = (Truth(job), Truth(shifted(job)))
        self.now = now
        self.lost_s = 0.0
        """Seconds that checkpoints took from the job so far, expected rework included."""
        self._job = job
        self._active = own
        self._shift_at = checkpoints // 2
        self._dataset = 0
        self._under_way: deque[Flush] = deque()
        self._unflushed: float | None = None
        self._held: deque[float] = deque()

    @property
    def held_bytes(self) -> float:
        """Bytes of the datasets in a node's cache."""
        return sum(self._held)

    @property
    def truth(self) -> Truth:
        """The truth about the next checkpoint."""
        return self.truths[self._dataset >= self._shift_at]

    def checkpoint(self, settings: Settings, noise: Noise, generation: int = 0) -> Checkpoint:
        """Take a checkpoint under complete `settings`, then compute until the next one is due."""
        truth = self.truth
        self._dataset += 1
        known = truth.parts(settings)
        began_s = self.now
        made = Checkpoint(self._dataset, began_s)
        made.apply_s = self._apply(settings, truth, noise, made)
        made.wait_s = self._make_room(known, made)
        beside = 1 + self._job.beside if self._under_way else 1.0
        made.write_s, made.encode_s = (
            known.write_s * noise.write * beside,
            known.encode_s * noise.encode * beside,
        )
        self.now += made.write_s + made.encode_s
        self._flush(known, noise, generation, made)
        made.end_s = self.now
        made.ended += self._finished()
        self._compute(noise, made)
        computed_s = self._job.interval_s / STEPS * sum(noise.steps)
        self.lost_s += self.now - began_s - computed_s + rework_s(self._job, settings, known)
        return made

    def _apply(self, settings: Settings, truth: Truth, noise: Noise, made: Checkpoint) -> float:
        """Make `settings` active; a re-init waits for all flushes, and flushes what was not due."""
        before, self._active = self._active, settings
        if not self._job.reinit_s or all(before[name] == settings[name] for name in REINIT):
            return 0.0
        began_s = self.now
        self._wait_for(self._dataset, made)
        if self._unflushed is not None:
            forced = truth.parts(before)
            self.now += forced.flush_s / forced.haste * noise.flush
        self._unflushed = None
        self.now += self._job.reinit_s * noise.apply
        return self.now - began_s

    def _make_room(self, known: Parts, made: Checkpoint) -> float:
        """SCR makes room for one more dataset; what is being flushed goes last (scr.c:1509)."""
        began_s = self.now
        if known.cached:
            if len(self._under_way) >= known.size:  # else one that is not being flushed is given up
                self._wait_for(self._under_way[-known.size].dataset, made)
            self._held.append(self._job.node_bytes * self._job.stored(self._active))
            while len(self._held) > known.size:
                self._held.popleft()
        return self.now - began_s

    def _wait_for(self, dataset: int, made: Checkpoint) -> None:
        self.now = waited_for(dataset, self.now, self._under_way)
        made.ended += self._finished()

    def _flush(self, known: Parts, noise: Noise, generation: int, made: Checkpoint) -> None:
        if not known.cached:
            began_s, self._unflushed = self.now, None
            self._wait_for(self._dataset, made)  # scr_flush_sync.c waits for all that is under way
            made.wait_s += self.now - began_s
            return
        if self._dataset % known.every:
            self._unflushed = self.now
            return
        self._unflushed = None
        made.flush_due = True
        begin_s, took_s = self.now, known.flush_s * noise.flush
        threads = {"cpu_s": known.flush_cpu_s, "delay_s": known.flush_delay_s}
        if known.asynchronous:
            begin_s = max(begin_s, self._under_way[-1].end_s) if self._under_way else begin_s
            flush = Flush(
                self._dataset,
                generation,
                begin_s,
                begin_s + took_s,
                known.share,
                known.haste,
                True,
                known.stolen,
                **threads,
            )
            self._under_way.append(flush)
            return
        if self._under_way:  # an earlier one, of other settings, has to end first
            self._wait_for(self._dataset, made)
            made.wait_s += self.now - begin_s
        begin_s, self.now = self.now, self.now + took_s
        made.flush_s = took_s
        made.ended.append(Flush(self._dataset, generation, begin_s, self.now, **threads))

    def _finished(self) -> list[Flush]:
        """Take out the flushes that have ended."""
        ended = []
        while self._under_way and self._under_way[0].end_s <= self.now:
            ended.append(self._under_way.popleft())
        return ended

    def _compute(self, noise: Noise, made: Checkpoint) -> None:
        for factor in noise.steps:
            begin_s, work_s = self.now, self._job.interval_s / STEPS * factor
            beside = self._under_way[0] if self._under_way else None
            self.now = compute(begin_s, work_s, self._under_way)
            if beside is not None and beside.share:
                made.stolen_s += (self.now - begin_s - work_s) * beside.stolen / beside.share
            made.steps.append((begin_s, self.now, self._finished()))


def waited_for(dataset: int, now: float, under_way: "deque[Flush]") -> float:
    """Return when ranks that wait from `now` on have the flushes up to that of `dataset`.

    The waiting hastens these, and all that come after them begin and end earlier: `under_way` is changed.
    """
    saved_s = 0.0
    for flush in under_way:
        flush.start_s, flush.end_s = flush.start_s - saved_s, flush.end_s - saved_s
        if flush.dataset <= dataset and flush.end_s > now:
            left_s = flush.end_s - max(now, flush.start_s)
            less_s = left_s - left_s / flush.haste
            saved_s += less_s
            now = flush.end_s = flush.end_s - less_s
    return now


def compute(now: float, work_s: float, under_way: "deque[Flush]") -> float:
    """Return when `work_s` of computation that begins `now` is done, with flushes beside it."""
    for flush in under_way:
        beside_s = flush.end_s - now
        if beside_s <= 0:
            continue
        speed = 1 - flush.share
        if work_s <= beside_s * speed:
            return now + work_s / speed
        now, work_s = flush.end_s, work_s - beside_s * speed
    return now + work_s


def steady_s(known: Parts, job: Job) -> float:
    """Return the mean cost of a checkpoint in the long run, without noise."""
    output_s = known.write_s + known.encode_s
    if not known.cached:
        return output_s
    if not known.asynchronous:
        return output_s + known.flush_s / known.every
    if known.flush_s <= job.interval_s:
        return output_s + known.flush_s * known.share / known.every
    return _queued_s(known, job)


def _queued_s(known: Parts, job: Job) -> float:
    """The same where flushes outlast an interval."""
    warm = known.every * (known.size + 4)
    total = warm + known.every * max(4, 24 // known.every)
    now, warm_s, under_way = 0.0, 0.0, deque[Flush]()
    for dataset in range(1, total + 1):
        if len(under_way) >= known.size:
            now = waited_for(under_way[-known.size].dataset, now, under_way)
        while under_way and under_way[0].end_s <= now:
            under_way.popleft()
        now += (known.write_s + known.encode_s) * (1 + job.beside if under_way else 1.0)
        if dataset % known.every == 0:
            begin_s = max(now, under_way[-1].end_s) if under_way else now
            under_way.append(Flush(dataset, 0, begin_s, begin_s + known.flush_s, known.share, known.haste))
        now = compute(now, job.interval_s, under_way)
        if dataset == warm:
            warm_s = now
    return (now - warm_s) / (total - warm) - job.interval_s
