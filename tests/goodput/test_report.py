"""The slowdown by flushes is in the slices of time in which it happened, and is as large as before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.ledger.ledger import Window
from scrtune.goodput.report import placed_slowdown

LENGTH_S = 10.0


def slices_of(productive_s: list[float], slowdown_s: list[float]) -> list[Window]:
    """Slices of 10 s from 0 on, with what is left of each in `other`."""
    return [
        Window(
            start_s=LENGTH_S * number,
            end_s=LENGTH_S * (number + 1),
            wall_s=LENGTH_S,
            buckets={"productive": has_s, "flush_slowdown": slow_s, "other": LENGTH_S - has_s - slow_s},
        )
        for number, (has_s, slow_s) in enumerate(zip(productive_s, slowdown_s, strict=True))
    ]


def slowed(start_s: float, end_s: float, took_s: float) -> CheckpointCost:
    """A checkpoint whose flush took so long from the steps beside it."""
    return CheckpointCost(
        dataset=1, generation=0, time_s=end_s, flush_s=end_s - start_s, blocking_s=1.0, slowdown_s=took_s
    )


def slowdowns(slices: tuple[Window, ...]) -> list[float]:
    return [each.buckets["flush_slowdown"] for each in slices]


def test_it_is_where_the_flush_was() -> None:
    spread = slices_of([9.0] * 4, [1.0] * 4)
    assert slowdowns(placed_slowdown(spread, [slowed(15.0, 25.0, 4.0)])) == pytest.approx([0, 2, 2, 0])
    assert slowdowns(placed_slowdown(spread, [slowed(32.0, 32.0, 0.1)])) == pytest.approx([0, 0, 0, 4])


def test_a_slice_has_no_more_of_it_than_its_steps_took() -> None:
    spread = slices_of([9.0, 1.0, 9.0], [1.0, 0.5, 1.0])
    placed = placed_slowdown(spread, [slowed(10.0, 20.0, 2.5)])
    assert slowdowns(placed) == pytest.approx([0.5, 1.5, 0.5])


def test_without_a_flush_it_stays_as_it_was() -> None:
    spread = slices_of([9.0, 9.0], [1.0, 1.0])
    assert placed_slowdown(spread, []) == tuple(spread)
    assert placed_slowdown(spread, [slowed(100.0, 120.0, 3.0)]) == tuple(spread), "after the job"


shares = st.floats(0, 1)


@given(
    rows=st.lists(st.tuples(shares, shares), min_size=1, max_size=8),
    flushes=st.lists(st.tuples(st.floats(-20, 100), st.floats(0, 50), st.floats(0.001, 30)), max_size=5),
)
def test_nothing_is_lost_and_no_bucket_is_negative(
    rows: list[tuple[float, float]], flushes: list[tuple[float, float, float]]
) -> None:
    steps = [LENGTH_S * has for has, _ in rows]
    slow = [took_s * part for took_s, (_, part) in zip(steps, rows, strict=True)]
    before = slices_of([took_s - part_s for took_s, part_s in zip(steps, slow, strict=True)], slow)
    found = [slowed(start_s, start_s + length_s, took_s) for start_s, length_s, took_s in flushes]
    after = placed_slowdown(before, found)
    assert sum(slowdowns(after)) == pytest.approx(sum(slow), abs=1e-6)
    for each in after:
        assert sum(each.buckets.values()) == pytest.approx(each.wall_s)
        assert min(each.buckets.values()) >= -1e-9
