"""What one more event and the account after it cost, in the cases that are not plain, as jobs grow.

    python benchmarks/goodput/one_more.py

Each row is one case at three lengths, each in a process of its own: the median of sixty times one more event
and a new account, and how much more expensive the longest job is than the shortest.

- plain: the next step.
- window: the same, and a window of the last hour with a reference step time instead of the account.
- late restart: after some steps a restart from 10 steps before, told behind steps that came after it.
- runs: one more run and its first step, after so many runs of ten steps.
- sparse: every tenth step is told, by both ends: no range of numbers meets the next one.
- writers: the next step of one of so many writers, all of whom tell all steps.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from scrtune.goodput.events import (
    GoodputEvent,
    JobStarted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Ledger

T0 = 1_700_000_000.0
TIMES = 60
RUN_S = 100.0

Round = tuple[Sequence[GoodputEvent], Sequence[GoodputEvent], float]
"""What is told before, without being measured; the event in question; and now."""


def started(step: int, at: float, writer: str = "") -> StepStarted:
    """The start of a step, in seconds of the job."""
    return StepStarted(step=step, time_s=T0 + at, writer=writer)


def steps(count: int) -> list[GoodputEvent]:
    """A run of so many steps of a second each."""
    return [JobStarted(time_s=T0), *(started(step, float(step)) for step in range(count))]


def plain(length: int) -> Iterator[Round]:
    """The next step."""
    yield steps(length), [], T0 + length
    for step in range(length, length + TIMES):
        yield [], [started(step, float(step))], T0 + step


def late_restart(length: int) -> Iterator[Round]:
    """A restart that a slow rank tells of when the others step again."""
    yield steps(length), [], T0 + length
    for more in range(TIMES):
        at = length + 10.0 * more
        again = [started(length - 10 + 2 * more + step, at + 2 + step) for step in range(4)]
        late = RestartCompleted(dataset=1, name="d", start_s=T0 + at, end_s=T0 + at + 1)
        yield again, [late], T0 + at + 6


def runs(length: int) -> Iterator[Round]:
    """One more run."""
    told: list[GoodputEvent] = []
    for run in range(length):
        told.append(JobStarted(time_s=T0 + RUN_S * run))
        told += [started(10 * run + step, RUN_S * run + 5 + step) for step in range(10)]
    yield told, [], T0 + RUN_S * length
    for run in range(length, length + TIMES):
        at = RUN_S * run
        yield [], [JobStarted(time_s=T0 + at), started(10 * run, at + 5)], T0 + at + 6


def sparse(length: int) -> Iterator[Round]:
    """The next step of which each tenth is told."""

    def completed(index: int) -> StepCompleted:
        return StepCompleted(step=10 * index, start_s=T0 + index, end_s=T0 + index + 0.9)

    yield [JobStarted(time_s=T0), *map(completed, range(length))], [], T0 + length
    for index in range(length, length + TIMES):
        yield [], [completed(index)], T0 + index + 1


def writers(count: int) -> Iterator[Round]:
    """The next step of one of many."""
    names = [f"rank {rank}" for rank in range(count)]
    begun = max(12, 20_000 // count)
    everybody = list(enumerate(names))
    told = [started(step, step + 1e-5 * rank, name) for step in range(begun) for rank, name in everybody]
    yield [JobStarted(time_s=T0), *told], [], T0 + begun
    for more in range(TIMES):
        step, rank = begun + more // count, more % count
        yield [], [started(step, step + 1e-5 * rank, names[rank])], T0 + step + 1


CASES: dict[str, tuple[Callable[[int], Iterator[Round]], tuple[int, int, int]]] = {
    "plain": (plain, (10_000, 100_000, 1_000_000)),
    "window": (plain, (10_000, 100_000, 1_000_000)),
    "late restart": (late_restart, (10_000, 100_000, 1_000_000)),
    "runs": (runs, (100, 1_000, 5_000)),
    "sparse": (sparse, (10_000, 100_000, 1_000_000)),
    "writers": (writers, (16, 256, 4_096)),
}


def measure(case: str, length: int) -> float:
    """Milliseconds: the median."""
    ledger = Ledger(remembered=None)
    took_s = []
    for before, events, now in CASES[case][0](length):
        ledger.extend(before)
        ledger.account(now)
        if not events:
            continue
        began_s = time.perf_counter()
        for event in events:
            ledger.handle(event)
        if case == "window":
            ledger.window(now - 3600, now, now, reference_step_s=1.0)
        else:
            ledger.account(now)
        took_s.append(time.perf_counter() - began_s)
    return 1e3 * median(took_s)


def print_rows() -> None:
    """A row for each case."""
    print(f"one more event and the account after it, load {os.getloadavg()[0]:.1f}")
    for case, (_, lengths) in CASES.items():
        took_ms = []
        for length in lengths:
            command = [sys.executable, __file__, "--measure", case, str(length)]
            took_ms.append(float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
        told = ", ".join(f"{length:,}: {ms:.2f} ms" for length, ms in zip(lengths, took_ms, strict=True))
        grown = (
            f"{lengths[-1] // lengths[0]} times as long, {took_ms[-1] / took_ms[0]:.1f} times as expensive"
        )
        print(f"  {case}: {told}; {grown}", flush=True)


def main() -> None:
    """Print the rows, or measure one case at one length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measure(options.measure[0], int(options.measure[1])))
    else:
        print_rows()


if __name__ == "__main__":
    main()
