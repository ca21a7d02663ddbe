"""What rank 0's thread does between outputs, as shares of that time."""

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


def test_waits_beside_a_stretch_of_time_are_known_once_all_its_gaps_are() -> None:
    """Gaps from 1 to 5, 6 to 10 and 11 to 15 s."""
    between = told((4.0, 2.0, 1.0), (4.0, 1.0, 0.5), (4.0, 1.0, 0.25))
    assert between.waited_s(1.0, 3.0) == 1.0
    assert between.waited_s(2.0, 9.0) == 1.5
    assert between.waited_s(7.0, 30.0) is None
    assert between.waited_s(30.0, 31.0) is None
