"""Where steps go back within a run, by the rule as it is written."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.ledger.attempts import named_rollbacks, nameless_rollbacks

RUN_BEGINS = 20

counting = st.tuples(st.integers(0, 12), st.integers(1, 8), st.sampled_from([1, 1, 1, 2, 5]))
numbers = st.lists(counting, max_size=8).map(
    lambda parts: [first + stride * each for first, count, stride in parts for each in range(count)]
)


def rollbacks(steps: list[int], *, named: bool) -> list[int]:
    """A step a second, from 0 on; a run begins at 20."""
    number, time = np.array(steps, np.int64), np.arange(len(steps))
    run = (time >= RUN_BEGINS).astype(np.int64)
    if named:
        return np.flatnonzero(named_rollbacks(np.ones_like(time), run, number)).tolist()
    return np.flatnonzero(nameless_rollbacks(number, run)).tolist()


@given(numbers, st.booleans())
def test_steps_go_back_where_the_rule_says(steps: list[int], named: bool) -> None:
    first, second = steps[:RUN_BEGINS], steps[RUN_BEGINS:]
    expected = [*backs(first, named=named), *(RUN_BEGINS + at for at in backs(second, named=named))]
    assert rollbacks(steps, named=named) == expected


def backs(run: list[int], *, named: bool) -> list[int]:
    if named:
        return [at for at in range(1, len(run)) if run[at] <= run[at - 1]]
    four = zip(run, run[1:], run[2:], run[3:], strict=False)
    return [
        at
        for at, (before, first, second, third) in enumerate(four, 1)
        if first < before - 1 and second > first and third - second == second - first
        if at == 1 or before - run[at - 2] == second - first
    ]
