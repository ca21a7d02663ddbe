"""Whether a metric diverges: by which sign, since when, and when it has recovered."""

import math
import random
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import MetricObserved
from scrtune.intents.observe.divergence import (
    BLOCK,
    GROWING,
    Divergence,
    DivergenceObserver,
    MetricObserver,
    Sign,
)

T0 = 1_700_000_000.0
VALUES = st.floats(-1e9, 1e9)


def seen(values: Iterable[float | None]) -> list[Divergence]:
    """What is seen after each value, one at each step and second."""
    observer, found = MetricObserver("loss"), []
    for step, value in enumerate(values):
        observer.add(MetricObserved(name="loss", value=value, step=step, time_s=T0 + step))
        found.append(observer.seen)
    return found


def signs(values: Iterable[float | None]) -> list[Sign | None]:
    return [each.sign for each in seen(values)]


def training(count: int = 400, noise: float = 0.05, seed: int = 0) -> list[float]:
    """A loss that falls as a training's does, with noise."""
    rng = random.Random(seed)
    return [1 + 9 * math.exp(-step / 60) + rng.gauss(0, noise) for step in range(count)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3])
def test_a_training_that_goes_well_does_not_diverge(seed: int, noise: float) -> None:
    assert set(signs(training(1000, noise, seed))) == {None}


@given(st.lists(st.one_of(st.none(), VALUES), max_size=80))
def test_what_is_no_finite_number_always_diverges(values: list[float | None]) -> None:
    found = seen([*values, None])
    assert found[-1].sign is Sign.NOT_FINITE
    assert found[-1].value is None


@given(st.lists(VALUES, min_size=1, max_size=300))
def test_a_metric_that_falls_or_stays_never_diverges(values: list[float]) -> None:
    assert set(signs(sorted(values, reverse=True))) == {None}
    assert set(signs(values[:1] * 100)) == {None}


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)), max_size=150),
    st.integers(-20, 20).map(lambda power: 2.0**power),
)
def test_the_unit_of_a_metric_changes_nothing(values: list[float | None], unit: float) -> None:
    values = [value if value is None or abs(value) > 1e-20 else 0.0 for value in values]
    assert signs(values) == signs(None if value is None else unit * value for value in values)


@given(st.lists(st.one_of(st.none(), VALUES), max_size=200))
def test_what_was_usual_before_a_divergence_does_not_move_while_it_lasts(values: list[float | None]) -> None:
    found = seen(values)
    for before, after in pairwise(found):
        if before.sign is not None and after.sign is not None:
            assert (after.good_step, after.good_s) == (before.good_step, before.good_s)
        if after.sign is not None:
            assert after.good_s < T0 + after.step


def test_a_jump_that_stays_lasts_from_its_first_value_on() -> None:
    found = seen([*training(200), *([8.0] * 50)])
    assert found[199].sign is None
    assert {each.sign for each in found[200:]} == {Sign.JUMP}
    assert (found[-1].good_step, found[-1].good_s) == (199, T0 + 199)
    assert found[-1].usual == pytest.approx(1.5, abs=0.2)
    assert "loss jumped: 8 at step 249" in found[-1].sentence()
    assert "up to step 199" in found[-1].sentence()


def test_a_spike_is_told_and_so_is_that_the_metric_has_recovered() -> None:
    values = training(600)
    values[500:502] = [9.0, 7.0]
    found = signs(values)
    assert found[500:504] == [Sign.JUMP] * 4
    assert {*found[:500], *found[504:]} == {None}, "three usual values later"


def test_a_jump_downwards_is_none() -> None:
    assert set(signs([*training(200), *([-50.0] * 20)])) == {None}


def test_before_it_is_known_what_is_usual_only_what_is_not_finite_counts() -> None:
    assert set(signs([1.0, 100.0, 1e6, 1.0, 1e9])) == {None}
    assert signs([None])[0] is Sign.NOT_FINITE
    assert "never was usual" in seen([None])[0].sentence()


def test_a_rise_begins_where_the_metric_was_lowest() -> None:
    rng = random.Random(1)
    flat = [1.0 + rng.gauss(0, 0.02) for _ in range(10 * BLOCK)]
    rising = [1.0 + 0.005 * step + rng.gauss(0, 0.02) for step in range(60)]
    found = seen([*flat, *rising])
    first = next(each for each in found if each.sign is not None)
    assert first.sign is Sign.RISE
    assert first.step <= 10 * BLOCK + (GROWING + 2) * BLOCK
    assert 9 * BLOCK - 1 <= first.good_step <= 11 * BLOCK, "up to the block from which on it grew"
    assert found[-1].sign is Sign.RISE


def test_a_rise_ends_when_the_metric_is_down_again() -> None:
    rng = random.Random(2)
    level = [0.0] * 80 + [0.005 * step for step in range(60)] + [0.0] * (2 * BLOCK)
    found = signs(1 + each + rng.gauss(0, 0.02) for each in level)
    assert Sign.RISE in found
    assert found[-1] is None


def test_a_metric_that_scatters_around_the_same_rises_not() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        assert Sign.RISE not in signs([1.0 + rng.gauss(0, 0.1) for _ in range(2000)])


def test_while_it_is_not_finite_after_a_jump_that_is_what_is_said() -> None:
    found = signs([*training(100), 50.0, None, 50.0])
    assert found[-3:] == [Sign.JUMP, Sign.NOT_FINITE, Sign.NOT_FINITE]


def test_the_next_run_begins_from_what_was_usual() -> None:
    observer = MetricObserver("loss")
    for step, value in enumerate([*training(200), None]):
        observer.add(MetricObserved(name="loss", value=value, step=step, time_s=T0 + step))
    observer.begin_run()
    assert observer.seen.sign is None
    observer.add(MetricObserved(name="loss", value=1.3, step=150, time_s=T0 + 300))
    assert observer.seen.sign is None
    observer.add(MetricObserved(name="loss", value=90.0, step=151, time_s=T0 + 301))
    assert observer.seen.sign is Sign.JUMP


def told(
    observer: DivergenceObserver, declared: str, values: Sequence[tuple[str, float | None]]
) -> list[bool]:
    return [
        observer.add(MetricObserved(name=name, value=value, step=step, time_s=T0 + step), declared)
        for step, (name, value) in enumerate(values)
    ]


def test_the_declared_metric_counts_and_no_other() -> None:
    observer = DivergenceObserver()
    assert observer.observe("loss").sentence() == "loss was not reported yet"
    assert observer.observe("").sentence() == "no metric was reported"
    assert told(observer, "loss", [("gradient", None), ("loss", 1.0)]) == [False, False]
    assert observer.observe("loss").sign is None
    assert observer.observe("").sign is Sign.NOT_FINITE, "without a declaration that which diverges"
    assert told(observer, "loss", [("loss", None), ("loss", None)]) == [True, False]


def test_metrics_without_end_fill_no_memory_and_the_declared_one_is_always_heard() -> None:
    observer = DivergenceObserver()
    told(observer, "loss", [(f"m{number}", 1.0) for number in range(1000)])
    assert told(observer, "loss", [("m999", None), ("loss", None)]) == [False, True]
