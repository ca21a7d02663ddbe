"""What the tuner is compared with: tuners that do nothing, know all, search at random, or know no physics."""

# ruff: noqa: S311 - simulated jobs need no cryptography

import random
from collections.abc import Sequence
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from scrtune.goodput.checkpoint_cost import CheckpointCosts
from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, StepCompleted
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event

from . import oracle
from .drive import Case
from .truth import LOSSES, Settings, Value

LOOKS = 2
TRIED = 10
CANDIDATES = 300
LENGTH, SIGNAL, NOISE, BETA = 2.0, 0.7, 0.17, 1.5
"""Of the Gaussian process: length scale, standard deviations of log cost, weight of the uncertainty."""


class Looks:
    """Observes the user's own settings twice, then has the best: no tuner that looks first does better."""

    def __init__(self, made: Case) -> None:
        self.advice = Advice()
        self._best = oracle.best(made.truth, made.user)
        self._own = made.own

    def handle(self, event: Event, _now: float) -> None:
        """Count the looks."""
        if getattr(event, "dataset", 0) >= LOOKS:
            self.advice = Advice(generation=1, settings=self._best)


class _Search:
    """A tuner that chooses among settings by what their checkpoints cost."""

    def __init__(self, made: Case) -> None:
        self.advice = Advice(settings=made.own)
        self.rng = random.Random(len(made.noise))
        self.costs: list[tuple[int, float]] = []
        """Index of a candidate, and log of a checkpoint's cost under it."""
        self.candidates = [made.own]
        self._generations = [0]
        self._meter = CheckpointCosts()
        self._own_s = 0.0

    def handle(self, event: Event, _now: float) -> None:
        """Choose anew after each checkpoint."""
        if not isinstance(event, JobStarted | StepCompleted | OutputCompleted | FlushCompleted):
            return
        costs = self._meter.handle(event)
        if not costs:
            return
        for cost in costs:
            self._own_s = self._own_s or cost.cost_s
            index = self._generations[cost.generation]
            self.costs.append((index, log(max(cost.cost_s, 1e-6) / self._own_s)))
        chosen = self.choose()
        if chosen != self._generations[-1]:
            self._generations.append(chosen)
            self.advice = Advice(generation=len(self._generations) - 1, settings=self.candidates[chosen])

    def choose(self) -> int:
        """Return the index of the settings for the next checkpoint."""
        raise NotImplementedError


class RandomSearch(_Search):
    """Tries settings drawn at random, then keeps the one that was the cheapest."""

    def __init__(self, made: Case) -> None:
        super().__init__(made)
        self.candidates += [oracle.some(made.truth, made.user, self.rng) for _ in range(TRIED)]

    def choose(self) -> int:
        """See the class."""
        tried = len({index for index, _ in self.costs})
        return tried if tried <= TRIED else min(self.costs, key=lambda each: each[1])[0]


class GaussianProcess(_Search):
    """GP-UCB without a model of the costs: the lowest lower bound of log cost is next."""

    def __init__(self, made: Case) -> None:
        super().__init__(made)
        self.candidates += [oracle.some(made.truth, made.user, self.rng) for _ in range(CANDIDATES)]
        points = np.array([_features(each) for each in self.candidates])
        squares = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        self._kernel: npt.NDArray[np.float64] = SIGNAL**2 * np.exp(-squares / (2 * LENGTH**2))

    def choose(self) -> int:
        """See the class."""
        seen = sorted({index for index, _ in self.costs})
        values = [[value for index, value in self.costs if index == each] for each in seen]
        noise = np.diag([NOISE**2 / len(each) for each in values])
        across = self._kernel[seen]
        solved = np.linalg.solve(self._kernel[np.ix_(seen, seen)] + noise, across)
        mean = np.array([np.mean(each) for each in values]) @ solved
        spread = np.sqrt(np.maximum(1e-12, SIGNAL**2 - (across * solved).sum(axis=0)))
        return int(np.argmin(mean - BETA * spread))


def _features(settings: Settings) -> Sequence[float]:
    """A point for each setting: what is a number by its logarithm, what is not by a coordinate each."""
    schemes = [float(settings["SCR_COPY_TYPE"] == each) for each in LOSSES]
    numbers: list[Value] = [
        int(settings["SCRTUNE_FLUSH_THREADS"]) or 16,
        *(settings[name] for name in ("SCR_SET_SIZE", "SCR_CACHE_SIZE", "SCR_FLUSH")),
    ]
    buffers = [sqrt(int(settings[name])) / 4096 for name in ("SCR_MPI_BUF_SIZE", "SCR_FILE_BUF_SIZE")]
    flags = [
        2.0 * int(settings["SCR_CACHE_BYPASS"]),
        float(settings["SCR_FLUSH_TYPE"] == "SYNC"),
        2.0 * int(settings["SCR_FLUSH_ASYNC"]),
        float(bool(settings["SCRTUNE_FLUSH_CPUS"])),
        float(bool(settings["SCRTUNE_FLUSH_NICE"])),
    ]
    return [*schemes, *(log(int(each)) / 2 for each in numbers), *buffers, *flags]
