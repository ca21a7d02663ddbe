"""Ranges of numbers hold what a set holds, in whatever order they are added."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.ledger.claims import Longs, Ranges

bounds = st.tuples(st.integers(-20, 20), st.integers(0, 6)).map(lambda drawn: (drawn[0], sum(drawn)))
portions = st.lists(st.lists(bounds, max_size=5), max_size=8)


def columns(rows: list[tuple[int, int]]) -> tuple[Longs, Longs]:
    low, behind = np.array(rows, np.int64).reshape(-1, 2).T
    return low, behind


def pieces_of(rows: list[tuple[int, int]]) -> int:
    """How many stretches are left of `rows` when those that meet or overlap are one."""
    pieces, reach = 0, -100
    for low, behind in sorted(rows):
        pieces += low > reach
        reach = max(reach, behind)
    return pieces


@given(portions, st.lists(bounds, max_size=5))
def test_they_hold_the_numbers_of_all_that_were_added(
    told: list[list[tuple[int, int]]], more: list[tuple[int, int]]
) -> None:
    ranges = Ranges()
    for portion in told:
        ranges = ranges.plus(*columns(portion))
    added = [row for portion in told for row in portion]
    assert ranges.total == len({number for low, behind in added for number in range(low, behind)})
    assert len(ranges.low) == pieces_of(added)
    kept, others = ranges.replaced(*columns(more))
    assert kept + len(others.low) == pieces_of([*added, *more])
