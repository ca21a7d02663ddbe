"""Ranges of numbers hold what a set holds, in whatever order they are added."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.ledger.claims import Spans, joined

bounds = st.tuples(st.integers(-20, 20), st.integers(0, 6)).map(lambda drawn: (drawn[0], sum(drawn)))
portions = st.lists(st.lists(bounds, max_size=5), max_size=8)


def spans(rows: list[tuple[int, int]]) -> Spans:
    return Spans(*np.array(rows, np.int64).reshape(-1, 2).T)


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
    ranges = Spans()
    for portion in told:
        ranges = joined(ranges.plus(spans(portion)))
    added = [row for portion in told for row in portion]
    assert ranges.length == len({number for low, behind in added for number in range(low, behind)})
    assert len(ranges.start) == pieces_of(added)
    assert sum(len(each.start) for each in ranges.plus(spans(more))) == pieces_of([*added, *more])
