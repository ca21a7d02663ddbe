"""A long job, told in words that are neither ours nor the peer's: what either recorder is given."""

from collections.abc import Iterator
from typing import Any

T0_S = 1_700_000_000.0
STEP_S = 1.5


def long_log(steps: int, *, full: bool) -> Iterator[tuple[Any, ...]]:
    """One run of plain steps; or, `full`, many runs with data loading, evaluation, saves and restores."""
    now_s = T0_S
    runs = max(2, steps // 100_000) if full else 1
    for run in range(runs):
        yield "job_start", now_s
        yield "init", now_s + 1, now_s + 5
        yield "prep", now_s + 5, now_s + 9
        now_s += 10
        first, behind = run * steps // runs, (run + 1) * steps // runs
        if run:
            yield "restore", first, now_s, 3.0
            now_s += 4
            first -= min(20, first)  # what came after the last checkpoint is computed again
        for step in range(first, behind):
            if full:
                yield "load", now_s, now_s + 0.125
            yield "step", step, now_s + 0.25
            now_s += STEP_S
            if full and step % 50 == 25:
                yield "custom", now_s - 0.75, now_s + 2
                now_s += 2.5
            if full and step % 100 == 75:
                yield "save", step, now_s - 0.5, 1.0
                now_s += 0.75
        now_s += 60
    yield "job_end", now_s
