"""Several ranks: their starts and ends, and how far their clocks are apart."""

import random

import pytest

from scrtune.goodput.events import GoodputEvent, JobEnded, JobStarted, StepCompleted

from ...support.short_job import T0, ended, spent, started, starts, told


def as_rank(rank: int, first: float, last: float, code: int = 0) -> list[GoodputEvent]:
    return [
        JobStarted(time_s=T0 + first, writer=f"rank{rank}"),
        JobEnded(time_s=T0 + last, exit_code=code, writer=f"rank{rank}"),
    ]


def test_ranks_that_each_tell_of_the_jobs_start_and_end_are_one_run() -> None:
    log = [
        *as_rank(0, 0, 40),
        *as_rank(1, 1, 41.5),
        *starts(0, 30, 10, 1.0, "rank0"),
        *starts(0, 30, 10.5, 1.0, "rank1"),
    ]
    for seed in range(10):
        random.Random(seed).shuffle(log)
        account = told(*log).account(T0 + 100)
        assert account.runs == 1
        assert spent(account) == {"startup": 10.0, "productive": 31.5}


def test_a_run_of_several_ranks_is_over_when_the_last_of_them_says_so() -> None:
    first, second = as_rank(0, 0, 10), as_rank(1, 1, 20)
    assert told(*first, second[0]).account(T0 + 30).wall_s == 30
    assert told(*first, *second).account(T0 + 30).wall_s == 20
    assert told(first[0], second[0], ended(15)).account(T0 + 30).wall_s == 15
    cut_off = [*first, second[0], *starts(0, 5, 4, 1.0, "rank1"), started(40)]
    assert spent(told(*cut_off).account(T0 + 40))["recovery"] == 30.0  # rank 1 never ended


def test_a_rank_that_starts_again_or_behind_a_step_or_an_end_begins_a_run() -> None:
    rank0, rank1 = as_rank(0, 0, 10), as_rank(1, 1, 10)
    assert told(rank0[0], rank1[0], *as_rank(0, 5, 9)).account(T0 + 10).runs == 2
    assert told(rank0[0], rank1[0], started(2)).account(T0 + 10).runs == 2
    assert told(rank0[0], *starts(0, 1, 0.5), rank1[0]).account(T0 + 10).runs == 2
    assert told(rank0[0], ended(0.5), rank1[0]).account(T0 + 10).runs == 2
    ledger = told(rank0[0], rank1[0])
    assert ledger.account(T0 + 10).runs == 1
    ledger.handle(next(starts(0, 1, 0.5)))
    assert ledger.account(T0 + 10).runs == 2


def test_clocks_are_compared_within_the_last_run() -> None:
    """n9r0 takes the place of n0r0 after a restart."""
    log = [started(0), *starts(0, 20, 0, 1.0, "n0r0"), *starts(0, 20, 5, 1.0, "n1r0"), ended(40, 1)]
    log += [started(100), *starts(0, 20, 105, 1.0, "n9r0"), *starts(0, 20, 110, 1.0, "n1r0")]
    assert told(*log).account(T0).skew_s == pytest.approx(5.0, abs=1e-6)


def test_a_writer_that_fell_silent_does_not_hide_how_far_the_others_clocks_are_apart() -> None:
    log = [*starts(0, 100, 0, 1.0, "a"), *starts(0, 100, 5, 1.0, "b"), *starts(0, 3, 50, 1.0, "c")]
    assert told(started(0), *log).account(T0).skew_s == pytest.approx(5.0, abs=1e-6)


def test_clocks_of_those_who_tell_steps_by_both_ends_and_of_many_are_compared() -> None:
    log = [
        StepCompleted(
            step=step, start_s=T0 + step + skew_s, end_s=T0 + step + skew_s + 0.5, writer=f"rank{rank}"
        )
        for rank, skew_s in enumerate([0.0] * 99 + [3.0])
        for step in range(10)
    ]
    assert told(started(0), *log).account(T0).skew_s == pytest.approx(3.0, abs=1e-6)
