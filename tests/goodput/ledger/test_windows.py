"""Windows of an account: what the time in them went to, and what the steps in them took."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.buckets import FLUSH_SLOWDOWN
from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.derivation import Limits
from scrtune.goodput.ledger.ledger import Ledger, Window

T0 = 1_700_000_000.0


def told(*events: GoodputEvent) -> Ledger:
    ledger = Ledger(remembered=None)
    ledger.extend(events)
    return ledger


def window(ledger: Ledger, start: float, end: float, reference: float | None = 1.0) -> Window:
    return ledger.window(T0 + start, T0 + end, T0 + end, reference_step_s=reference)


def spent(made: Window) -> dict[str, float]:
    return {bucket: round(seconds, 6) for bucket, seconds in made.buckets.items() if seconds}


def steps_of(*groups: tuple[int, float, str], at: float = 0.0, step: int = 0) -> list[GoodputEvent]:
    """So many steps of so many seconds each, by whom."""
    made: list[GoodputEvent] = []
    for count, length, writer in groups:
        for _ in range(count):
            made.append(StepCompleted(step=step, start_s=T0 + at, end_s=T0 + at + length, writer=writer))
            step, at = step + 1, at + length
    return made


def test_a_window_says_how_slow_the_steps_in_it_were() -> None:
    """A hundred steps of 1 s and then a hundred of 3 s, of which 1 s is due."""
    ledger = told(*steps_of((100, 1, ""), (100, 3, "")))
    fast, slow = window(ledger, 0, 100), window(ledger, 100, 400)
    assert spent(fast) == {"productive": 100.0}
    assert spent(slow) == {"productive": 100.0, "step_slowdown": 200.0}
    assert (fast.goodput, slow.goodput) == (1.0, pytest.approx(1 / 3))


def test_the_window_over_all_of_a_job_says_what_the_account_says() -> None:
    ledger = told(*steps_of((100, 1, ""), (100, 3, "")))
    whole = ledger.account(T0 + 400, reference_step_s=2.0)
    assert window(ledger, -10, 400, 2.0).buckets == whole.buckets
    assert spent(window(ledger, 0, 400, 2.0)) == {"productive": 400.0}
    apart = [window(ledger, 0, 100, 2.0), window(ledger, 100, 400, 2.0)]
    assert [each.buckets["step_slowdown"] for each in apart] == [0.0, 100.0]


def test_a_step_across_the_border_of_two_windows_counts_by_its_share_of_time() -> None:
    ledger = told(*steps_of((10, 4, "")))
    assert spent(window(ledger, 0, 10)) == {"productive": 2.5, "step_slowdown": 7.5}
    assert spent(window(ledger, 10, 12)) == {"productive": 0.5, "step_slowdown": 1.5}


def test_sparse_steps_count_as_many_as_they_stand_for() -> None:
    """Every tenth is told: 10 s for ten, later 30 s for ten."""
    begun = [*range(0, 1000, 10), *range(1000, 4030, 30)]
    steps = [StepStarted(step=10 * index, time_s=T0 + at) for index, at in enumerate(begun)]
    ledger = told(JobStarted(time_s=T0), *steps, JobEnded(time_s=T0 + 4000, exit_code=0))
    assert window(ledger, 100, 900).buckets["step_slowdown"] == pytest.approx(0.0, abs=1.5)
    assert window(ledger, 1000, 3000).buckets["step_slowdown"] == pytest.approx(2000 * 2 / 3, rel=2e-3)


@pytest.mark.parametrize("ahead_s", [0.0, 0.25])
def test_steps_that_many_ranks_tell_of_count_once(ahead_s: float) -> None:
    """Also where another rank only joins later on."""
    of_one = steps_of((400, 1, "a"), (400, 3, "a"))
    of_other = steps_of((200, 1, "b"), (400, 3, "b"), at=200 + ahead_s, step=200)
    ledger = told(*of_one, *of_other)
    for start, end, due in [(0, 200, 1.0), (200, 400, 1.0), (400, 1000, 1 / 3), (1000, 1600, 1 / 3)]:
        made = window(ledger, start, end)
        assert made.goodput == pytest.approx(due, abs=0.01), start


def test_steps_that_were_computed_again_count_where_they_came_to_stay() -> None:
    first = steps_of((100, 2, ""))
    again = steps_of((100, 2, ""), at=210, step=50)
    back = RestartCompleted(dataset=1, name="d", start_s=T0 + 200, end_s=T0 + 210)
    ledger = told(*first, back, *again)
    assert spent(window(ledger, 0, 100)) == {"productive": 50.0, "step_slowdown": 50.0}
    assert spent(window(ledger, 100, 200)) == {"wasted_progress": 100.0}
    assert spent(window(ledger, 210, 310)) == {"productive": 50.0, "step_slowdown": 50.0}


def test_a_hang_is_no_slow_step() -> None:
    steps = [StepStarted(step=number, time_s=T0 + number + 3600 * (number > 50)) for number in range(101)]
    ledger = told(*steps, JobEnded(time_s=T0 + 3700, exit_code=0))
    assert spent(window(ledger, 0, 3700)) == {"productive": 100.0, "other": 3600.0}
    assert spent(window(ledger, 20, 3670)) == {"productive": 50.0, "other": 3600.0}
    assert spent(window(ledger, 100, 200)) == {"other": 100.0}


def test_what_flushes_slowed_down_is_no_slowdown_of_the_steps() -> None:
    ledger = told(*steps_of((100, 3, "")))
    ledger.charge(FLUSH_SLOWDOWN, 150)
    assert spent(window(ledger, 0, 90)) == {
        "productive": 30.0,
        "flush_slowdown": 45.0,
        "step_slowdown": 15.0,
    }


def test_a_window_before_memory_begins_has_the_steps_that_are_remembered() -> None:
    ledger = Ledger(remembered=2000)
    for count, length, at, first in [(9000, 1.0, 0.0, 0), (1000, 3.0, 9000.0, 9000)]:
        for event in steps_of((count, length, ""), at=at, step=first):
            ledger.handle(event)
            if event.step % 500 == 0:
                ledger.account(T0)
    slow = window(ledger, 9000, 12_000)
    assert spent(slow) == {"productive": 1000.0, "step_slowdown": 2000.0}


lengths = st.integers(1, 3).map(lambda half: half / 2)
gaps = st.sampled_from([0.0, 0.0, 0.0, 0.5, 2.0])
borders = st.lists(st.integers(0, 80).map(lambda quarter: quarter / 4), min_size=2, max_size=6, unique=True)


@given(
    st.lists(st.tuples(lengths, gaps), min_size=1, max_size=25),
    borders,
    st.sampled_from([0.5, 0.75, 1.0]),
    st.randoms(use_true_random=False),
)
def test_the_slowdown_of_each_window_is_as_defined(
    steps: list[tuple[float, float]], edges: list[float], reference: float, shuffler: object
) -> None:
    """An oracle: by the definition as it is written, whatever the order, with a save inside some steps."""
    events: list[GoodputEvent] = []
    at = 0.0
    for number, (length, gap) in enumerate(steps):
        events.append(StepCompleted(step=number, start_s=T0 + at, end_s=T0 + at + length))
        if number % 4 == 3:
            events.append(Interval(kind="checkpoint_save", start_s=T0 + at, end_s=T0 + at + length / 2))
        at += length + gap
    shuffler.shuffle(events)  # type: ignore[attr-defined]
    ledger = Ledger(remembered=None)
    for event in events:
        ledger.handle(event)
        ledger.account(T0)
    for start, end in pairwise(sorted(edges)):
        made, plain = window(ledger, start, end, reference), window(ledger, start, end, None)
        count = 0.0
        for event in events:
            if isinstance(event, StepCompleted):
                inside = min(event.end_s, made.end_s) - max(event.start_s, made.start_s)
                count += max(0.0, inside) / (event.end_s - event.start_s)
        slow = max(0.0, plain.buckets["productive"] - count * reference)
        assert made.buckets["step_slowdown"] == pytest.approx(slow, abs=1e-4)
        assert made.buckets["productive"] + made.buckets["step_slowdown"] == pytest.approx(
            plain.buckets["productive"], abs=1e-9
        )


@pytest.mark.parametrize("remembered", [60, 200])
def test_forgetting_does_not_change_what_is_said_of_what_is_remembered(remembered: int) -> None:
    """Two ranks load data, go back by five steps now and then, and start again."""
    forgets = Ledger(remembered=remembered, limits=Limits(tail=10))
    knows = Ledger(remembered=None)
    at, step = 0.0, 0
    for turn in range(400):
        if turn % 90 == 50:
            step -= 5
        for writer in ("a", "b"):
            events: list[GoodputEvent] = [StepStarted(step=step, time_s=T0 + at, writer=writer)]
            if turn % 130 == 0:
                events.insert(0, JobStarted(time_s=T0 + at - 0.5, writer=writer))
            loads = {"kind": "data_loading", "writer": writer}
            events += [
                IntervalStarted(time_s=T0 + at + 0.1, **loads),
                IntervalEnded(time_s=T0 + at + 0.3, **loads),
            ]
            for ledger in (forgets, knows):
                for event in events:
                    ledger.handle(event)
        at, step = at + 1 + 20 * (turn % 70 == 0), step + 1
        assert forgets.account(T0 + at) == knows.account(T0 + at)
    start = forgets.window(T0, T0 + at, T0 + at).start_s
    assert T0 + 100 < start < T0 + at - remembered / 8
    for length in (5.0, 12.5):
        bounds = T0 + at - length, T0 + at
        assert forgets.window(*bounds, T0 + at) == knows.window(*bounds, T0 + at)
