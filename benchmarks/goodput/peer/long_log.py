"""A long job, told in words that are neither ours nor the peer's: what either recorder is given."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

T0_S = 1_700_000_000.0
STEP_S = 1.5
LOST_STEPS = 20


@dataclass(frozen=True)
class Mix:
    """What a job tells of beside its steps: each once in so many steps, or never."""

    loads: bool = False
    evaluates_every: int | None = None
    saves_every: int | None = None
    restarts_every: int | None = None


LOGS = {
    "plain": Mix(),
    "many kinds": Mix(loads=True, evaluates_every=1000, saves_every=20, restarts_every=20_000),
    "many restarts": Mix(loads=True, evaluates_every=50, saves_every=100, restarts_every=500),
}
"""Of a million steps, `many kinds` is 3.06 million events.

`many restarts` is where the peer's cost grows with the square of the log: it holds each step against each
custom event, and reads the whole log at each restart.
"""


def long_log(steps: int, mix: Mix) -> Iterator[tuple[Any, ...]]:
    """A job of `steps` steps; after each restart, those since the last checkpoint are computed again."""
    now_s = T0_S
    run_steps = mix.restarts_every or steps
    for begin in range(0, steps, run_steps):
        yield "job_start", now_s
        yield "init", now_s + 1, now_s + 5
        yield "prep", now_s + 5, now_s + 9
        now_s += 10
        first = begin
        if begin:
            yield "restore", begin, now_s, 3.0
            now_s += 4
            first -= min(LOST_STEPS, begin)
        for step in range(first, min(begin + run_steps, steps)):
            if mix.loads:
                yield "load", now_s, now_s + 0.125
            yield "step", step, now_s + 0.25
            now_s += STEP_S
            if _is_due(step, mix.evaluates_every):
                yield "custom", now_s - 0.75, now_s + 2
                now_s += 2.5
            if _is_due(step, mix.saves_every):
                yield "save", step, now_s - 0.5, 1.0
                now_s += 0.75
        now_s += 60
    yield "job_end", now_s


def _is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == every - 1
