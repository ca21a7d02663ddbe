"""The best settings inside the rails, found by trying all of a grid on the truth."""

import itertools
import random
from collections.abc import Iterator

from .machine import Truth
from .rails import in_time, permitted, survives
from .truth import DEFAULTS, KIB, LOSSES, MIB, Settings, Value, encode_s

WAYS = (("SYNC", 0, 0), ("PTHREAD", 0, 0), ("PTHREAD", 1, 0), ("PTHREAD", 1, 19))
"""SCR_FLUSH_TYPE, SCR_FLUSH_ASYNC and SCRTUNE_FLUSH_NICE."""


def grid(truth: Truth, user: Settings) -> dict[str, tuple[Value, ...]]:
    """Return the values of each lever."""
    own = {**DEFAULTS, **user}
    levers: dict[str, tuple[Value, ...]] = {
        "SCR_COPY_TYPE": tuple(LOSSES),
        "SCR_SET_SIZE": (4, 8, 16),
        "SCR_MPI_BUF_SIZE": (128 * KIB, MIB, 8 * MIB),
        "SCR_FILE_BUF_SIZE": (MIB, 32 * MIB),
        "SCR_CACHE_SIZE": (1, 2, 3, 4),
        "SCR_FLUSH": (1, 2, 4, 10),
        "SCRTUNE_FLUSH_THREADS": (0, 1, 2, 4, 8, 16),
        "SCRTUNE_FLUSH_CPUS": ("", truth.job.idle),
        "SCRTUNE_FLUSH_NICE": (0, 19),
        "SCR_FLUSH_TYPE": ("SYNC", "PTHREAD"),
        "SCR_FLUSH_ASYNC": (0, 1),
        "SCR_CACHE_BYPASS": (0, 1),
    }
    return {name: tuple(dict.fromkeys((own[name], *values))) for name, values in levers.items()}


def best(truth: Truth, user: Settings) -> Settings:
    """Return the settings of the grid that cost least in the long run.

    A faster encode or flush never costs more, whatever goes with it, and the rails ask for the one without
    regard to the other: of what changes only one of them, only the fastest is combined with the rest.
    """
    own = {**DEFAULTS, **user}
    candidates = [own, {**own, "SCR_CACHE_BYPASS": 1}, *_cached(truth, user, own)]
    return min(candidates, key=truth.cost_s)


def _cached(truth: Truth, user: Settings, own: Settings) -> Iterator[Settings]:
    levers = grid(truth, user)
    flushes = list(_flushes(truth, {**own, "SCR_CACHE_BYPASS": 0}, levers))
    for size in levers["SCR_CACHE_SIZE"]:
        held: Settings = {**own, "SCR_CACHE_BYPASS": 0, "SCR_CACHE_SIZE": size}
        encodes = [each for each in _encodes(held, levers) if survives(truth.job, user, each)]
        if not encodes:
            continue
        encode = min(encodes, key=lambda each: encode_s(truth.job, each))
        for every, flush in itertools.product(levers["SCR_FLUSH"], flushes):
            settings = {**encode, **flush, "SCR_FLUSH": every}
            if in_time(truth, user, settings):
                yield settings


def _encodes(held: Settings, levers: dict[str, tuple[Value, ...]]) -> Iterator[Settings]:
    names = ("SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_MPI_BUF_SIZE")
    for values in itertools.product(*(levers[name] for name in names)):
        yield {**held, **dict(zip(names, values, strict=True))}


def _flushes(truth: Truth, cached: Settings, levers: dict[str, tuple[Value, ...]]) -> Iterator[Settings]:
    """The ways to flush, each with the file buffer that is the fastest for it."""
    for (how, is_async, nice), threads, cpus in itertools.product(
        WAYS, levers["SCRTUNE_FLUSH_THREADS"], levers["SCRTUNE_FLUSH_CPUS"]
    ):
        flush: Settings = {
            "SCR_FLUSH_TYPE": how,
            "SCR_FLUSH_ASYNC": is_async,
            "SCRTUNE_FLUSH_THREADS": threads,
            "SCRTUNE_FLUSH_CPUS": cpus,
            "SCRTUNE_FLUSH_NICE": nice,
        }
        buffers = ({**flush, "SCR_FILE_BUF_SIZE": size} for size in levers["SCR_FILE_BUF_SIZE"])
        yield min(buffers, key=lambda each: truth.parts({**cached, **each}).flush_s)


def levers_left(truth: Truth, user: Settings, settings: Settings) -> list[str]:
    """Return the levers of which one alone would save more than 5 % of what a checkpoint costs."""
    enough_s = 0.95 * truth.cost_s(settings)
    return [
        name
        for name, values in grid(truth, user).items()
        if any(
            truth.cost_s(other) < enough_s and permitted(truth, user, other)
            for other in ({**settings, name: value} for value in values)
        )
    ]


def some(truth: Truth, user: Settings, rng: random.Random) -> Settings:
    """Return settings inside the rails, drawn at random; most are cached, where there is more to choose."""
    levers = grid(truth, user) | {"SCR_CACHE_BYPASS": (0, 0, 0, 1)}
    while True:
        drawn = {**DEFAULTS, **{name: rng.choice(values) for name, values in levers.items()}}
        if permitted(truth, user, drawn):
            return drawn
