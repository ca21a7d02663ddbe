"""What checkpoints show of the rows of the belief."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from scrtune.intents.tune.belief.measured import Row, measure
from scrtune.intents.tune.belief.observations import ObservedCheckpoint
from scrtune.intents.tune.belief.shape import Array

ONE: Array = np.ones(1)
"""A flush thread, under the only candidate."""


def observed(time: int, flush_s: float) -> ObservedCheckpoint:
    return ObservedCheckpoint(
        settings=(),
        dataset=time,
        time=time,
        run=0,
        flushed=flush_s > 0,
        beside=True,
        blocking_s=1.0,
        write_s=1.0,
        encode_s=0.0,
        flush_s=flush_s,
        wait_s=0.0,
        slowdown_s=0.2 if flush_s else 0.0,
        slowdown_error_s=0.1,
        reference_error_s=0.0,
        between_s=100.0,
    )


def test_a_flush_whose_threads_waited_for_cores_as_long_as_they_ran_had_half_of_one() -> None:
    seen = replace(observed(1, 8.0), flush_cpu_s=2.0, flush_delay_s=2.0)
    found = measure({0: [seen]}, 100.0, ONE, np.zeros(1))
    shown = {each.row: value for each, value in zip(found.rows, found.values.tolist(), strict=True)}
    assert shown[Row.FLUSH_CPU] == pytest.approx(math.log(2.0))
    assert shown[Row.CORES] == pytest.approx(math.log(0.5))


def test_each_row_counts_the_checkpoints_that_show_it() -> None:
    """Of ten only the last was flushed: a hiccup of its flush has been seen once."""
    seen = [observed(time, 8.0 * (time == 10)) for time in range(1, 11)]
    found = measure({0: seen}, 100.0, ONE, np.zeros(1))
    assert {each.row: each.checkpoints for each in found.rows} == {
        Row.UNFLUSHED: 9,
        Row.FLUSHED: 1,
        Row.SLOWDOWN: 1,
        Row.FLUSH: 1,
        Row.WRITE: 10,
    }


def test_a_flush_that_waits_for_cores_until_the_interval_ends_leaves_the_blocking_time_sure() -> None:
    """Its threads get them when the ranks wait: only what else takes it as long may be more at times."""
    noise = {}
    for delay_s in (0.0, 97.0):
        seen = replace(observed(1, 98.0), flush_cpu_s=1.0, flush_delay_s=delay_s)
        found = measure({0: [seen]}, 100.0, ONE, np.zeros(1))
        noise[delay_s] = found.covariance[0, 0]
    assert noise[97.0] < noise[0.0] / 10
