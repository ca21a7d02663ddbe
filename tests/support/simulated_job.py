"""A job that runs under the pipeline's advice, on an SCR that can change everything, or little."""

import math
import random

import msgspec

from scrtune.goodput.events import (
    FlushCompleted,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    StepCompleted,
)
from scrtune.intents.effects import Effect
from scrtune.intents.events import Event, NodeObserved, ProcessUse, SettingsObserved, Values
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.rules.situation import Proposal
from scrtune.intents.settings import DEFAULTS

T0 = 1_700_000_000.0
GIB = 1024**3
CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}
COUNTING: Values = {
    **CACHED,
    "SCR_CHECKPOINT_SECONDS": 0,
    "SCR_CHECKPOINT_INTERVAL": 2,
    "SCR_CHECKPOINT_OVERHEAD": 0.0,
}
REAL = {
    "SCR_CACHE_BYPASS": "re-init",
    "SCR_CACHE_SIZE": "re-init",
    "SCR_COPY_TYPE": "re-init",
    "SCR_FILE_BUF_SIZE": "live",
    "SCR_FLUSH": "live",
    "SCR_FLUSH_ASYNC": "live",
    "SCR_FLUSH_TYPE": "re-init",
    "SCR_FLUSH_WIDTH": "inert",
    "SCR_MPI_BUF_SIZE": "live",
    "SCR_SET_SIZE": "re-init",
    "SCRTUNE_DROP_BEHIND": "live",
    "SCRTUNE_FLUSH_CPUS": "live",
    "SCRTUNE_FLUSH_NICE": "live",
    "SCRTUNE_FLUSH_THREADS": "live",
}
"""The mutability of parameters in a real SCR 3.1.0."""


class Job:
    """A job that runs under the pipeline's advice.

    Every event is noted, with its time, so that it can be replayed.
    """

    def __init__(
        self,
        user: Values,
        seed: int = 0,
        noise: float = 0.03,
        reinit_s: float = 0.0,
        **described: float | str | bool | dict[str, str],
    ) -> None:
        self.pipeline = Pipeline()
        self.journal: list[tuple[float, Event]] = []
        self.effects: list[Effect] = []
        self.flush_fails_async = False
        self.shares_files: bool | None = False
        self.asks = False
        """Each checkpoint is one that SCR_Need_checkpoint asked for."""
        self.now = T0
        self._user = user
        self._described = described
        self._rng, self._noise = random.Random(seed), noise
        self._dataset = self._step = 0
        self._own: Values = {}
        self._in_force: Values = {}
        self._reinit_s = reinit_s
        self.applied_s = 0.0
        self.checkpoint_bytes, self.memory_bytes = 4 * GIB, 64 * GIB
        self.link_bytes_per_s, self.dirty_limit_bytes = 0.0, 0
        self.slower = self.flush_slower = 1.0
        self.past_the_cache_s = 0.0
        """Seconds of an output that bypasses the cache; 0: as one that is cached and flushed."""
        self.start()

    def start(self, found: Values | None = None, sources: dict[str, str] | None = None) -> None:
        """A run begins; `found` is what its engine reads beside SCR's defaults (default: the user's)."""
        found = self._user if found is None else found
        self._own = {**DEFAULTS, **found}
        self._in_force = dict(self._own)
        every = {name: "user config" if name in found else "default" for name in self._own}
        described = {"ranks": 4, "nodes": 1, "cache": "/ssd/scr", **self._described}
        self.tell(JobStarted(time_s=self.now, ranks=4))
        self.tell(SettingsObserved(settings=self._own, sources={**every, **(sources or {})}, **described))
        self.look_at_node()
        self.compute(2)

    def look_at_node(self, cache_free_bytes: int = 64 * GIB, cores_used: float = 1.0) -> None:
        """The daemon observes its node."""
        uses = tuple(ProcessUse(pid=pid, cpus=tuple(range(16)), cores_used=cores_used) for pid in range(4))
        self.tell(
            NodeObserved(
                host="n",
                cpus=tuple(range(16)),
                processes=uses,
                memory_available_bytes=self.memory_bytes,
                cache_free_bytes=cache_free_bytes,
                link_bytes_per_s=self.link_bytes_per_s,
                dirty_limit_bytes=self.dirty_limit_bytes,
            )
        )

    def relaunch(self, **sources: str) -> None:
        """The next run, which reads the config file that was written for it."""
        self.start({**self._user, **(self.pipeline.advice.kept or {})}, sources)

    @property
    def mutability(self) -> dict[str, str]:
        """The mutability of parameters in this job's SCR."""
        assert self.pipeline.job is not None
        return self.pipeline.job.mutability

    def _apply(self, advised: Values) -> float:
        """Return the seconds of applying `advised` before an output. It never needs a launch."""
        changed = {name for name, value in advised.items() if self._in_force.get(name) != value}
        ways = {self.mutability.get(name, "launch") for name in changed} if self.mutability else {"live"}
        assert ways <= {"live", "live on rank 0", "re-init"}, f"{sorted(changed)} cannot be changed now"
        self._in_force.update(advised)
        return self._reinit_s if "re-init" in ways else 0.0

    def tell(self, event: Event) -> list[Effect]:
        self.journal.append((self.now, event))
        effects = self.pipeline.handle(event, self.now)
        self.effects += effects
        return effects

    def compute(self, steps: int, beside_s: float = 0.0, flush: FlushCompleted | None = None) -> None:
        """Compute; a `flush` under way is told when it has ended."""
        for number in range(steps):
            took_s = 10.0 + (0.0 if number else beside_s)
            step = StepCompleted(step=self._step, start_s=self.now, end_s=self.now + took_s)
            self._step, self.now = self._step + 1, self.now + took_s
            self.tell(step)
            if flush is not None and flush.end_s <= self.now:
                self.tell(flush)
                flush = None
        if flush is not None:
            self.tell(flush)

    def checkpoint(self, *, flush_every: int = 1, slowed_s: float = 0.1) -> None:
        """Under the active advice: write 1 s, flush 4 s, which blocks or slows a step by `slowed_s`.
        Each takes `slower` times as long.
        """
        self._dataset += 1
        advice = self.pipeline.advice
        apply_s = self._apply(advice.settings)
        self.applied_s += apply_s
        settings = self._in_force
        factor = math.exp(self._rng.gauss(0, self._noise)) * self.slower
        is_async = settings["SCR_FLUSH_ASYNC"] == 1 and settings["SCR_FLUSH_TYPE"] != "SYNC"
        past_s = self.past_the_cache_s if settings["SCR_CACHE_BYPASS"] else 0.0
        due = self._dataset % flush_every == 0 and not past_s
        write_s = (past_s or 1.0) * factor
        started_s = self.now
        self.tell(
            OutputStarted(dataset=self._dataset, name="d", time_s=self.now, generation=advice.generation)
        )
        blocked_s = 4.0 * factor * self.flush_slower if due and not is_async else 0.0
        self.now += apply_s + write_s + blocked_s
        flush = FlushCompleted(
            dataset=self._dataset,
            start_s=self.now - blocked_s,
            end_s=self.now if blocked_s else self.now + 4.0 * self.slower + slowed_s,
            generation=advice.generation,
            asynchronous=is_async,
            valid=not (is_async and self.flush_fails_async),
        )
        if blocked_s:
            self.tell(flush)
        self.tell(
            OutputCompleted(
                dataset=self._dataset,
                name="d",
                start_s=started_s,
                end_s=self.now,
                generation=advice.generation,
                bytes=self.checkpoint_bytes,
                files=16,
                write_s=write_s,
                flush_s=blocked_s,
                flush_due=due,
                apply_s=apply_s,
                shared_files=self.shares_files,
                due=self.asks,
            )
        )
        if due and is_async:
            self.compute(2, beside_s=slowed_s, flush=flush)
        else:
            self.compute(2)

    def checkpoints(self, count: int, **how: float) -> "Job":
        for _ in range(count):
            self.checkpoint(**how)  # type: ignore[arg-type]
        return self

    def until(self, word: str, **how: float) -> "Job":
        """Go on until a decision has the verdict `word`, 40 checkpoints at most."""
        for _ in range(40):
            if word in self.words:
                return self
            self.checkpoint(**how)  # type: ignore[arg-type]
        raise AssertionError(f"{word} is not in {self.words}")

    def settled(self, **how: float) -> "Job":
        """Go on until 8 checkpoints brought no decision and nothing is on trial."""
        quiet = 0
        for _ in range(200):
            before = len(self.pipeline.decisions)
            self.checkpoint(**how)  # type: ignore[arg-type]
            is_quiet = len(self.pipeline.decisions) == before and self.trying is None
            quiet = quiet + 1 if is_quiet else 0
            if quiet >= 8:
                return self
        raise AssertionError(f"it never settles: {self.words}")

    @property
    def trying(self) -> Proposal | None:
        """What is on trial."""
        return self.pipeline.tuner.trying if self.pipeline.tuner else None

    @property
    def in_force(self) -> Values:
        """The settings that the next output runs under."""
        return {**self._own, **self.pipeline.advice.settings}

    @property
    def words(self) -> list[str]:
        return [each.verdict.value for each in self.pipeline.decisions]

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        return [(each.rule, each.verdict.value) for each in self.pipeline.decisions]


class ObedientJob(Job):
    """Asks after each step of 10 s; it counts two steps, or the seconds since its last checkpoint.

    By SCR_CHECKPOINT_OVERHEAD it counts 1 s of each checkpoint, which is what it writes.
    """

    def __init__(self, user: Values = COUNTING, **described: float | str | bool) -> None:
        super().__init__(user, **{"nodes": 64, "interval": "auto", **described})
        self.asks = True

    def compute(self, steps: int, beside_s: float = 0.0, flush: FlushCompleted | None = None) -> None:
        seconds = float(str(self.in_force["SCR_CHECKPOINT_SECONDS"]))
        if percent := float(str(self.in_force["SCR_CHECKPOINT_OVERHEAD"])):
            seconds = 100 / percent - 1
        super().compute(max(1, math.ceil(seconds / 10)) if seconds else steps, beside_s, flush)


def replayed(journal: list[tuple[float, Event]]) -> tuple[Pipeline, list[Effect]]:
    pipeline = Pipeline()
    return pipeline, [effect for now, event in journal for effect in pipeline.handle(event, now)]


def state(pipeline: Pipeline, now: float) -> tuple[object, ...]:
    """Everything that can be asked."""
    tuner = pipeline.tuner
    return (
        pipeline.advice,
        pipeline.intents,
        pipeline.proposals(),
        list(pipeline.decisions),
        pipeline.costs,
        pipeline.account(now),
        msgspec.to_builtins(pipeline.counters),
        pipeline.observers.workflow.processes,
        (tuner.baseline, tuner.baseline_s, tuner.current_s, tuner.budget.left_s, tuner.trying)
        if tuner
        else None,
    )
