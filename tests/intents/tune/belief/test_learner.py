"""What is expected of a job before it has used the cache: by what was probed, where that says anything."""

import pytest

from scrtune.intents.events import StorageProbed
from scrtune.intents.settings import is_cached

from ....support.simulated_job import GIB, Job

MEMORY_GIB = 64
"""Available on the node of a :class:`Job`, whose cache is on a device."""
BETWEEN_S = 2.0
"""For a GiB: longer than at the probed rate, shorter than at that of the device."""
PROBED = StorageProbed(
    host="n", cache_write_bytes_per_s=8.0 * GIB, cache_sync_bytes_per_s=GIB / 16, bytes=16 * 1024**2
)


def expected_cached_write_s(checkpoint_gib: int) -> float:
    """Return the seconds of a write to the cache that are expected after one checkpoint past it."""
    job = Job({})
    job.checkpoint_bytes = checkpoint_gib * GIB
    job.tell(PROBED)
    job.checkpoint()
    assert job.pipeline.tuner is not None
    belief = job.pipeline.tuner.belief
    assert belief is not None
    index = next(i for i, each in enumerate(belief.candidates) if is_cached(each))
    return belief.breakdown(index).write_s


@pytest.mark.parametrize("checkpoint_gib", [MEMORY_GIB // 16, MEMORY_GIB // 8])
def test_the_page_cache_takes_in_a_checkpoint_at_the_rate_of_a_small_probe(checkpoint_gib: int) -> None:
    assert expected_cached_write_s(checkpoint_gib) < BETWEEN_S * checkpoint_gib


def test_and_the_device_has_to_take_in_what_linux_lets_no_writer_leave_there() -> None:
    checkpoint_gib = MEMORY_GIB // 4  # more than vm.dirty_ratio, 20 %
    assert expected_cached_write_s(checkpoint_gib) > BETWEEN_S * checkpoint_gib
