"""What a flush takes from the steps beside it, without a bias, and how sure that is."""

import random
from collections.abc import Callable
from statistics import fmean

import pytest

from scrtune.goodput.flush_slowdown import FlushSlowdown

from ..support.memory import kept_bytes
from ..support.outputs import flush, output

NOISES: dict[str, Callable[[random.Random], float]] = {
    "none": lambda _: 0.1,
    "normal": lambda rng: 0.1 * max(0.1, rng.gauss(1, 0.1)),
    "skewed": lambda rng: 0.1 * rng.lognormvariate(0, 0.2),
    "now and then a slow step": lambda rng: 0.1 + (0.1 if rng.random() < 0.1 else 0),
}


def charged(noise: Callable[[random.Random], float], *, beside: int, slower: float) -> float:
    """Mean charge of 400 flushes as a share of their time; steps beside them take `slower` times as long."""
    rng, times, now, found = random.Random(7), FlushSlowdown(), 0.0, []
    for dataset in range(400):
        for factor, count in ((1.0, 20), (slower, beside)):
            begun = now
            if factor is slower:
                times.flush_started(dataset, now)
            for _ in range(count):
                seconds = noise(rng) * factor
                times.add(now, now + seconds)
                now += seconds
        found.append(times.flush_completed(flush(dataset, begun, now)).slowdown_s / (now - begun))
    return fmean(found)


@pytest.mark.parametrize("noise", NOISES)
def test_a_flush_beside_normal_steps_is_charged_nothing_on_average(noise: str) -> None:
    assert charged(NOISES[noise], beside=10, slower=1.0) == pytest.approx(0, abs=0.012)


@pytest.mark.parametrize("noise", NOISES)
def test_a_real_slowdown_is_found(noise: str) -> None:
    assert charged(NOISES[noise], beside=10, slower=1.25) == pytest.approx(0.2, abs=0.02)


def test_where_intervals_differ_and_steps_of_one_are_alike_a_slowdown_is_a_wide_guess() -> None:
    """Phases of a solver: where a flush takes nothing, no estimate is off by more than three errors."""
    rng, times, now = random.Random(3), FlushSlowdown(), 0.0
    far = []
    for dataset in range(60):
        begun, step_s = now, rng.choice((0.5, 1.5))
        times.output(output(dataset, now, now))
        times.flush_started(dataset, now)
        for _ in range(10):
            times.add(now, now + step_s)
            now += step_s
        found = times.flush_completed(flush(dataset, begun, begun + 3 * step_s))
        far.append(abs(found.slowdown_s) > 3 * found.error_s)
    assert not any(far[8:])


def test_where_every_step_is_beside_a_flush_only_their_differences_are_known() -> None:
    """The first step alone was not: the reference may be all wrong, for all flushes alike."""
    times, now = FlushSlowdown(), 0.0
    for dataset, step_s in enumerate((2.0, 1.0, 1.01, 1.0, 1.51, 1.5, 1.51)):
        begun = now
        if dataset:
            times.output(output(dataset, now, now))
            times.flush_started(dataset, now)
        times.add(now, now + step_s)
        now += step_s
        if dataset:
            found = times.flush_completed(flush(dataset, begun, now))
            assert found.slowdown_s == pytest.approx(step_s - 2.0)
    assert found.reference_error_s == pytest.approx(1.51)
    assert found.error_s < 0.05


def test_before_three_intervals_are_known_those_to_come_may_be_others() -> None:
    """Two of ten equal steps each, and a flush beside three steps of the second: 10 % of four steps."""
    times, now = FlushSlowdown(), 0.0
    for dataset in range(2):
        times.output(output(dataset, now, now))
        if dataset:
            times.flush_started(dataset, now)
        for _ in range(10):
            times.add(now, now + 1.0)
            now += 1.0
    found = times.flush_completed(flush(1, 10.0, 13.0))
    assert (found.slowdown_s, found.error_s) == (0.0, pytest.approx(0.4))


def test_steps_beside_a_flush_take_bounded_memory() -> None:
    def slowdown(steps: int) -> FlushSlowdown:
        made = FlushSlowdown()
        made.flush_started(1, 0.0)
        for number in range(steps):
            made.add(0.001 * number, 0.001 * number + 0.001)
        return made

    assert kept_bytes(lambda: slowdown(20_000)) < 1.25 * kept_bytes(lambda: slowdown(2000))


def test_thousands_of_short_steps_beside_one_flush_all_count() -> None:
    times, now = FlushSlowdown(), 0.0
    for seconds, count in ((0.001, 300), (0.0015, 20_000)):
        if count == 20_000:
            times.flush_started(1, now)
            begun = now
        for _ in range(count):
            times.add(now, now + seconds)
            now += seconds
    assert times.flush_completed(flush(1, begun, now)).slowdown_s == pytest.approx(20_000 * 0.0005, rel=1e-3)


def test_a_step_is_charged_up_to_the_time_it_ran_beside_the_flush() -> None:
    times = FlushSlowdown()
    for number in range(5):
        times.add(number, number + 1.0)
    times.flush_started(1, 5.0)
    times.add(5, 9.0)
    assert times.flush_completed(flush(1, 5.0, 5.5)).slowdown_s == pytest.approx(0.5)


def test_without_an_undisturbed_step_nothing_is_charged() -> None:
    times = FlushSlowdown()
    times.flush_started(1, 0)
    times.add(0, 9.0)
    assert times.reference is None
    assert times.flush_completed(flush(1, 0, 9)).slowdown_s == 0


def test_one_hiccup_does_not_spoil_the_reference() -> None:
    times = FlushSlowdown()
    for number in range(99):
        times.add(number, number + 1.0)
    times.add(99, 1099.0)
    assert times.reference
    assert times.reference.step_s == pytest.approx(1.02)


def test_a_jobs_slow_first_steps_do_not_spoil_the_reference_of_few() -> None:
    times = FlushSlowdown()
    for number, step_s in enumerate((1.4, 1.1, 1.0, 1.0, 1.0)):
        times.add(2 * number, 2 * number + step_s)
    assert times.reference
    assert times.reference.step_s == pytest.approx(1.0)


def test_steps_after_a_flush_that_ended_early_are_undisturbed_after_all() -> None:
    times = FlushSlowdown()
    times.flush_started(1, 0.0)
    times.add(0, 2.0)
    times.add(2, 3.0)
    times.flush_completed(flush(1, 0.0, 1.0))
    assert times.reference
    assert times.reference.step_s == 1.0
