"""Where the time of a plain log went, by the definitions, moment by moment."""

from collections.abc import Iterator
from itertools import pairwise

from scrtune.goodput.events import (
    GoodputEvent,
    JobEnded,
    JobStarted,
    RestartCompleted,
    StepCompleted,
)

NS = 1_000_000_000


def going_back(told: list[tuple[float, int]]) -> Iterator[float]:
    """When the steps of one run, of writers without a name, went back and counted on."""
    for at in range(1, len(told) - 2):
        before, number, second, third = (number for _, number in told[at - 1 : at + 3])
        stride = second - number
        counted_on = at == 1 or before - told[at - 2][1] == stride
        if number < before - 1 and third - second == stride > 0 and counted_on:
            yield told[at][0]


def defined(log: list[GoodputEvent]) -> dict[str, int]:
    made = [(e.start_s, max(e.start_s, e.end_s), e.step) for e in log if isinstance(e, StepCompleted)]
    loads = [(e.start_s, max(e.start_s, e.end_s)) for e in log if isinstance(e, RestartCompleted)]
    runs = sorted({e.time_s for e in log if isinstance(e, JobStarted)})
    ends = [(e.time_s, e.exit_code) for e in log if isinstance(e, JobEnded)]
    backs = [
        begun
        for begin, behind in pairwise([*runs, float("inf")])
        for begun in going_back(sorted({(start, step) for start, _, step in made if begin <= start < behind}))
    ]
    attempts = sorted({*runs, *(start for start, _ in loads), *backs})
    words = [*runs, *(at for at, _ in ends)]
    words += [at for start, end, *_ in [*made, *loads] for at in (start, end)]

    def is_wasted(start: float, step: int) -> bool:
        later = [attempt for attempt in attempts if attempt > start]
        return bool(later) and any(begun >= later[0] and number <= step for begun, _, number in made)

    def background(at: float) -> str:
        begin = max(run for run in runs if run <= at)
        following = min((run for run in runs if run > at), default=None)
        mine = [word for word in words if begin <= word and (following is None or word < following)]
        since = begin if begin == runs[0] else begin + 0.25  # an end at the begin of a run is that before's
        codes = [code for time, code in ends if since <= time and (following is None or time <= following)]
        if at >= max(mine) and (following is not None or codes):
            return "other" if codes and not any(codes) else "recovery"
        stepped = any(begin <= start <= at for start, _, _ in made)
        return "other" if stepped else "startup"

    spent: dict[str, int] = {}
    at = min(words)
    while at < max(words):
        here = [is_wasted(start, step) for start, end, step in made if start <= at < end]
        bucket = background(at)
        if any(start <= at < end for start, end in loads):
            bucket = "restore"
        elif here:
            bucket = "wasted_progress" if all(here) else "productive"
        spent[bucket] = spent.get(bucket, 0) + NS // 2
        at += 0.5
    return spent
