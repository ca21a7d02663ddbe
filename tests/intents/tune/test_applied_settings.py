"""What the cache holds, by what the ranks have written under the settings that they run under."""

import pytest

from scrtune.goodput.events import OutputCompleted
from scrtune.intents.rules.situation import Held

from ...support.simulated_job import CACHED, GIB, Job


def held(job: Job) -> Held:
    """Return the cache as it was observed last with datasets in it."""
    found = job.pipeline.situation.held
    assert found is not None
    return found


@pytest.mark.parametrize(("places", "mean_gib"), [(1, 20), (2, 50), (5, 55)])
def test_a_look_at_a_node_sees_the_datasets_that_its_cache_has_places_for(places: int, mean_gib: int) -> None:
    """Sizes alternate: what is free beside a small dataset is no room beside a large one."""
    job = Job({**CACHED, "SCR_CACHE_SIZE": places})
    for gib in (100, 20, 80, 20):
        job.checkpoint_bytes = gib * GIB
        job.checkpoint()
    job.look_at_node()
    job.tell(OutputCompleted(dataset=5, name="e", start_s=job.now + 1, end_s=job.now + 2))
    seen = held(job)
    assert (seen.checkpoints, seen.checkpoint_bytes) == (4, mean_gib * GIB)


def test_a_look_beside_an_output_does_not_say_what_the_cache_has_free_beside_its_datasets() -> None:
    """The oldest dataset is gone, and the next one is not there yet. A real SCR tells of both at the end."""
    job = Job(CACHED)
    job.checkpoint()
    job.look_at_node(40 * GIB)
    job.checkpoint()
    assert held(job).free_bytes == 40 * GIB
    job.now += 0.5
    job.look_at_node(60 * GIB)  # 0.5 s after the start of the output
    job.now -= 0.5
    job.checkpoint()
    assert held(job).free_bytes == 40 * GIB
    job.look_at_node(39 * GIB)
    job.checkpoint()
    assert held(job).free_bytes == 39 * GIB
