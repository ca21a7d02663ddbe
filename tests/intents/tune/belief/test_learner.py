"""What a job's first checkpoints say of the computation between two."""

import pytest

from ....support.simulated_job import CACHED, Job

BETWEEN_S = 20.0
"""Two steps of a :class:`Job`, before its first checkpoint as well."""


def test_a_long_flush_is_no_computation_before_the_first_checkpoint() -> None:
    job = Job({**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"})
    job.slower = 10.0  # the flush takes twice as long as the computation
    job.checkpoints(2)
    assert job.pipeline.tuner is not None
    belief = job.pipeline.tuner.belief
    assert belief is not None
    assert belief.shape.between_s == pytest.approx(BETWEEN_S)
