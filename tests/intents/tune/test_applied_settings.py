"""What the cache holds, by what the ranks have written under the settings that they run under."""

import pytest

from scrtune.goodput.events import FlushCompleted, OutputCompleted
from scrtune.intents.rules.situation import Held

from ...support.simulated_job import CACHED, GIB, REAL, Job


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
    seen = held(job)
    assert (seen.checkpoints, seen.checkpoint_bytes) == (4, mean_gib * GIB)


def test_a_look_during_an_output_does_not_say_what_the_cache_has_free_beside_its_datasets() -> None:
    """The oldest dataset is gone, and the next one is not there yet. A real SCR tells of both at the end."""
    job = Job(CACHED)
    job.checkpoint()
    job.look_at_node(40 * GIB)
    job.tell(OutputCompleted(dataset=2, name="d", start_s=job.now, end_s=job.now + 9))
    assert (held(job).checkpoints, held(job).free_bytes) == (1, 40 * GIB)
    job.look_at_node(60 * GIB)
    job.tell(OutputCompleted(dataset=3, name="d", start_s=job.now - 1, end_s=job.now + 9))
    assert (held(job).checkpoints, held(job).free_bytes) == (1, 40 * GIB)
    job.look_at_node(39 * GIB)
    assert (held(job).checkpoints, held(job).free_bytes) == (3, 39 * GIB)
    job.checkpoint()
    job.look_at_node(0)
    assert (held(job).checkpoints, held(job).free_bytes) == (3, 39 * GIB), "0 is not known"


class WatchedJob(Job):
    """Its node is looked at beside each flush; the cache has 28 GiB."""

    def compute(self, steps: int, beside_s: float = 0.0, flush: FlushCompleted | None = None) -> None:
        if flush is not None:
            held_bytes = int(str(self.in_force["SCR_CACHE_SIZE"])) * self.checkpoint_bytes
            self.look_at_node(28 * GIB - held_bytes)
        super().compute(steps, beside_s, flush)


def test_nor_is_what_was_written_since_missing_twice() -> None:
    """From the free bytes, and once more since it is not held: a look is told before the flush has ended."""
    job = WatchedJob({"SCR_COPY_TYPE": "SINGLE"}, floor="PROCESS", mutability=REAL)
    job.past_the_cache_s = 20.0
    job.settled()
    assert (job.in_force["SCR_CACHE_BYPASS"], job.in_force["SCR_CACHE_SIZE"]) == (0, 2)
    before = job.words
    for gib in (6, 8, 10, 12):
        job.checkpoint_bytes = gib * GIB
        job.checkpoint()
    assert job.words == before
