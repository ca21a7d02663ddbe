"""Where steps go back within a run, by the rule as it is written, and in whatever portions they come."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.ledger.pending_events import Limits, Stream
from scrtune.goodput.runs.rollback import StepRollback
from scrtune.goodput.runs.streams import settle, tokens_of

RUN_BEGINS = 20
NS = 1_000_000_000

counting = st.tuples(st.integers(0, 12), st.integers(1, 8), st.sampled_from([1, 1, 1, 2, 5]))
numbers = st.lists(counting, max_size=8).map(
    lambda parts: [first + stride * each for first, count, stride in parts for each in range(count)]
)


def attempts(steps: list[int], portions: list[int], *, named: bool) -> set[int]:
    """A step a second, from 0 on; a run begins at 20. They come in `portions`."""
    stream, found = Stream("rank0" if named else "", 1), StepRollback()
    starts = np.array([RUN_BEGINS * NS], np.int64)
    for portion in [*portions, len(steps)]:
        told = len(stream.times)
        stream.times.extend(float(at) for at in range(told, min(told + portion, len(steps))))
        stream.values.extend(steps[told : told + portion])
        begin = stream.settled
        settle(stream, 1, Limits(unsettled=5), nests=False)
        found.read(stream, begin, tokens_of(stream, begin), starts)
    return {time // NS for time in found.attempts}


@given(numbers, st.lists(st.integers(0, 9), max_size=10), st.booleans())
def test_steps_go_back_where_the_rule_says(steps: list[int], portions: list[int], named: bool) -> None:
    first, second = steps[:RUN_BEGINS], steps[RUN_BEGINS:]
    expected = {*backs(first, named=named), *(RUN_BEGINS + at for at in backs(second, named=named))}
    assert attempts(steps, portions, named=named) == expected


def backs(run: list[int], *, named: bool) -> list[int]:
    found, attempt = [], 0
    for at in range(1, len(run)):
        if named:
            goes_back = run[at] <= run[at - 1]
        else:
            count = min(max(run[attempt:at]) - run[at], 4)
            before, behind = run[max(attempt, at - 1 - count) : at], run[at : at + count + 1]
            goes_back = (
                count >= 2
                and run[at - 1] == max(run[attempt:at])
                and len(behind) == count + 1
                and counts_on(before)
                and counts_on(behind)
            )
        if goes_back:
            found.append(at)
            attempt = at
    return found


def counts_on(part: list[int]) -> bool:
    strides = {b - a for a, b in pairwise(part)}
    return len(strides) <= 1 and min(strides, default=1) > 0
