"""What rank 0's thread does between outputs, as shares of that time."""

import pytest

from scrtune.goodput.between_outputs import BetweenOutputs
from scrtune.goodput.events import OutputCompleted


def told(*gaps: tuple[float, float, float]) -> BetweenOutputs:
    """Outputs of 1 s, `gaps` of seconds, CPU time and waits for a core apart."""
    between, now = BetweenOutputs(), 0.0
    for gap_s, cpu_s, run_delay_s in ((0.0, 0.0, 0.0), *gaps):
        start_s = now + gap_s
        now = start_s + 1
        times = {"start_s": start_s, "end_s": now, "cpu_s": cpu_s, "run_delay_s": run_delay_s}
        between.add(OutputCompleted(dataset=1, name="c", checkpoint=False, **times))
    return between


def shares(*gaps: tuple[float, float, float]) -> tuple[float, float]:
    between = told(*gaps)
    return between.busy_share, between.waiting_share


def test_a_thread_wants_the_cores_that_it_runs_on_and_those_that_it_waits_for() -> None:
    assert shares((4.0, 2.0, 1.0)) == (0.75, 0.25)
    assert shares((4.0, 2.0, 1.0), (4.0, 1.0, 0.0)) == (0.5, 0.125)
    assert shares((4.0, 4.1, 0.0)) == (1.0, 0.0), "clocks differ"


def test_what_nobody_tells_is_not_known() -> None:
    assert shares() == (0, 0)
    assert shares((4.0, 0.0, 0.0)) == (0, 0)
    assert shares((4.0, 0.0, 0.0), (4.0, 1.0, 1.0)) == (0.5, 0.25), "and spoils nothing"


def test_the_last_ones_count() -> None:
    many = told(*[(4.0, 1.0, 0.0)] * 20, *[(4.0, 3.0, 1.0)] * 12)
    assert (many.busy_share, len(many.gaps)) == (1.0, 12)


def waits(between: BetweenOutputs, *times_s: float) -> tuple[float, float, float]:
    """Return how long the application computed beside that, how long it waited, and the doubt."""
    found = between.waits(*times_s)
    assert found is not None
    return found[:3]


def test_waits_beside_a_stretch_of_time_are_known_once_the_output_after_it_has_told() -> None:
    """Gaps from 1 to 5, 6 to 10 and 11 to 15 s."""
    between = told((4.0, 2.0, 1.0), (4.0, 1.0, 0.5), (4.0, 1.0, 0.25))
    assert waits(between, 1.0, 5.0) == (4.0, 1.0, 0.0)
    whole_s = pytest.approx(0.21875, abs=0.005)
    assert waits(between, 12.0, 16.0) == (3.0, whole_s, 0.03125), "the last output waited for its end"
    assert waits(between, 2.0, 9.0) == (6.0, pytest.approx(1.3125, abs=0.01), 0.1875)
    assert between.waits(7.0, 30.0) is None
    assert between.waits(30.0, 31.0) is None


def test_what_fills_a_part_of_a_gap_has_between_its_share_of_the_waits_and_all_that_it_lasted() -> None:
    """4 s of waits in 8 s, of which it lasted one: half a second if others wait as much, one if none do."""
    assert waits(told((8.0, 4.0, 4.0)), 1.0, 2.0) == (1.0, 0.75, 0.25)


def test_it_has_no_more_of_the_waits_than_its_threads_had_a_core() -> None:
    """4 s in 100 s, beside a flush of 20 s: a share of 0.8 s, and 3.6 s but for what the system does."""
    gap = told((100.0, 90.0, 4.0))
    assert waits(gap, 1.0, 21.0) == (20.0, pytest.approx((0.8 + 3.6) / 2), pytest.approx(1.6))
    assert waits(gap, 1.0, 21.0, 2.0) == (20.0, pytest.approx((0.8 + 2.0) / 2), pytest.approx(0.6))
    assert waits(gap, 1.0, 21.0, 0.1) == (20.0, pytest.approx(0.8), 0.0)


def test_waits_as_the_operating_system_makes_them_are_not_the_flushs() -> None:
    """1.5 s in 760 s, 0.2 %, beside a flush of 2 s whose threads had a core for 0.6: nobody knows."""
    beside_s, waited_s, doubt_s = waits(told((760.0, 700.0, 1.5)), 1.0, 3.0, 0.6)
    assert (beside_s, waited_s) == (2.0, pytest.approx(0.004, abs=1e-3))
    assert doubt_s == pytest.approx(0.3, abs=0.01)


def test_what_memory_takes_goes_by_the_time_for_which_the_threads_copy() -> None:
    """Two flushes of as much, of which one waits for storage for most of its time."""
    gap = told((100.0, 90.0, 0.0))
    slow, fast, unknown = (gap.waits(1.0, *more) for more in ((41.0, 2.0), (3.0, 2.0), (41.0,)))
    assert slow is not None
    assert fast is not None
    assert unknown is not None
    assert (slow.slowdown_s, slow.error_s) == (fast.slowdown_s, fast.error_s)
    assert 0 < slow.slowdown_s < slow.error_s < 0.4
    assert unknown.slowdown_s == pytest.approx(40 / 3 / 2 * slow.slowdown_s)


def test_waits_that_nobody_told_are_not_known() -> None:
    assert told((4.0, 0.0, 0.0)).waits(1.0, 3.0) is None
    assert told((4.0, 0.0, 0.0), (4.0, 1.0, 0.5)).waits(1.0, 9.0) is None, "one of two is not enough"
    assert waits(told((4.0, 0.0, 0.0), (4.0, 1.0, 0.5)), 6.0, 10.0) == (4.0, 0.5, 0.0)
    assert told(*[(4.0, 1.0, 0.5)] * 20).waits(1.0, 90.0) is None, "nor those that are forgotten"
