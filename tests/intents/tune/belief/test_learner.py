"""What the belief about a job is made from, and when it is made anew."""

from math import exp, log

import numpy as np
import pytest

from scrtune.intents.events import KnowledgeRecalled, StorageProbed, StorageTargetsObserved, Values
from scrtune.intents.tune.belief.belief import Belief
from scrtune.intents.tune.knowledge import Knowledge

from ....support.simulated_job import CACHED, GIB, Job

BETWEEN_S = 20.0
"""Two steps of a :class:`Job`, before its first checkpoint as well."""


def belief_of(job: Job) -> Belief:
    assert job.pipeline.tuner is not None
    belief = job.pipeline.tuner.belief
    assert belief is not None
    return belief


def believed_rate(job: Job, name: str) -> float:
    """Return the median of a rate in GiB/s."""
    log_rate, _ = belief_of(job).learnt_rates()[name]
    return exp(log_rate) / GIB


def test_a_long_flush_is_no_computation_before_the_first_checkpoint() -> None:
    job = Job({**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"})
    job.slower = 10.0  # the flush takes twice as long as the computation
    job.checkpoints(2)
    assert belief_of(job).shape.between_s == pytest.approx(BETWEEN_S)


class TestMadeAnew:
    def test_not_while_nothing_new_is_known(self) -> None:
        job = Job({})
        job.checkpoints(1)
        first = belief_of(job)
        job.checkpoints(8)
        assert belief_of(job) is first

    def test_with_a_probe_that_came_late(self) -> None:
        believed = {}
        for rate in (GIB / 8, 8 * GIB):
            job = Job({}, cache="/dev/shm/scr")  # noqa: S108 - only a name
            job.checkpoints(1)
            job.tell(StorageProbed(host="n", cache_write_bytes_per_s=rate))
            job.checkpoints(1)
            believed[rate] = believed_rate(job, "cache_bytes_per_s")
        assert believed[8 * GIB] > 10 * believed[GIB / 8]

    @pytest.mark.parametrize(
        ("memory_gib", "dirty_gib"), [((4096, 12, 1), (0, 0, 0)), ((64, 64, 64), (8, 2, 0.1))]
    )
    def test_of_a_large_checkpoint_the_page_cache_takes_a_part_at_the_rate_of_memory(
        self, memory_gib: tuple[float, ...], dirty_gib: tuple[float, ...]
    ) -> None:
        """What may be dirty is more than a checkpoint of 4 GiB, or nearly half of it, or next to nothing."""
        believed = []
        for memory, dirty in zip(memory_gib, dirty_gib, strict=True):
            job = Job({}, cache="/local/scr")
            job.memory_bytes, job.dirty_limit_bytes = int(memory * GIB), int(dirty * GIB)
            job.look_at_node()
            rates = {"cache_write_bytes_per_s": 4.0 * GIB, "cache_sync_bytes_per_s": GIB / 2}
            job.tell(StorageProbed(host="n", **rates))
            job.checkpoints(1)
            believed.append(believed_rate(job, "cache_bytes_per_s"))
        assert believed[0] > 1.3 * believed[1] > 1.5 * believed[2]

    @pytest.mark.parametrize(("link", "sent"), [(1.0, 0.7), (40.0, 28.0)])
    def test_an_encode_sends_at_seven_tenths_of_the_networks_link(self, link: float, sent: float) -> None:
        job = Job({}, nodes=4)
        job.link_bytes_per_s = link * GIB
        job.look_at_node()
        job.checkpoints(1)
        assert believed_rate(job, "encode_send_bytes_per_s") == pytest.approx(sent, rel=0.4)

    def test_on_nfs_all_nodes_are_expected_to_share_less(self) -> None:
        believed = {}
        for kind in ("nfs", "lustre"):
            job = Job(CACHED, nodes=8)
            job.tell(StorageTargetsObserved(host="n", file_system=kind))
            job.checkpoints(1)
            believed[kind] = believed_rate(job, "shared_bytes_per_s")
        assert believed["lustre"] > 2 * believed["nfs"]

    @pytest.mark.parametrize(("spread", "believed"), [(0.1, 1.0), (0.6, 8.0)])
    def test_of_a_rate_of_earlier_jobs_and_the_probe_the_surer_one_counts(
        self, spread: float, believed: float
    ) -> None:
        """That of earlier jobs is of whole checkpoints: no page cache is to be taken off it."""
        job = Job({}, cache="/local/scr")
        job.memory_bytes = 16 * GIB if spread < 0.5 else 4096 * GIB
        job.look_at_node()
        rates = {"cache_bytes_per_s": (log(GIB), spread)}
        job.tell(KnowledgeRecalled(knowledge=Knowledge(jobs=1, checkpoints=20, rates=rates)))
        job.tell(StorageProbed(host="n", cache_write_bytes_per_s=8.0 * GIB, cache_sync_bytes_per_s=GIB / 8))
        job.checkpoints(1)
        assert believed_rate(job, "cache_bytes_per_s") == pytest.approx(believed, rel=0.3)

    def test_with_values_that_became_possible(self) -> None:
        job = Job({})
        job.checkpoints(1)
        assert not any(each["SCRTUNE_FLUSH_NICE"] for each in belief_of(job).candidates)
        for _ in range(3):
            job.look_at_node(cores_used=4.0)  # of 16, by each of 4 ranks
        job.checkpoints(1)
        assert any(each["SCRTUNE_FLUSH_NICE"] for each in belief_of(job).candidates)

    def test_when_the_interval_has_become_another(self) -> None:
        job = Job({})
        job.checkpoints(20)
        for _ in range(12):
            job.compute(8)
            job.checkpoints(1)
        assert belief_of(job).shape.between_s > 2 * BETWEEN_S


class TestFlushesThatAreRare:
    """With SCR_FLUSH=4 four flushes in a row are sixteen checkpoints."""

    def past_the_cache_s(self, factor: float) -> float:
        """Return what is believed of a checkpoint past the cache, the last flush `factor` times as slow."""
        rare: Values = {**CACHED, "SCR_FLUSH": 4, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
        job = Job(rare, tuning=False)
        job.checkpoints(15, flush_every=4)
        job.slower = factor
        job.checkpoints(1, flush_every=4)
        belief = belief_of(job)
        past = next(i for i, each in enumerate(belief.candidates) if each["SCR_CACHE_BYPASS"])
        return float(np.median(belief.totals[past]))

    def test_one_that_was_far_faster_says_that_the_prefix_directory_is(self) -> None:
        assert self.past_the_cache_s(0.3) < 0.5 * self.past_the_cache_s(1.0)

    def test_one_that_was_slower_may_be_a_spike(self) -> None:
        assert self.past_the_cache_s(3.0) < 1.5 * self.past_the_cache_s(1.0)


def test_when_the_machine_has_changed_the_flushes_that_show_it_are_all_that_count() -> None:
    """Each fourth checkpoint is flushed: the four slow flushes are of 13 checkpoints."""
    job = Job({**CACHED, "SCR_FLUSH": 4}, tuning=False).checkpoints(24, flush_every=4)
    job.flush_slower = 3.0
    job.checkpoints(16, flush_every=4)
    assert job.pipeline.tuner is not None
    learner = job.pipeline.tuner.learner
    assert learner.is_shifted
    assert [round(each.flush_s / 12, 1) for each in learner.observations.all if each.flushed] == [
        pytest.approx(1, abs=0.2)
    ] * 4


@pytest.mark.parametrize(("slower", "is_shifted"), [(1 / 3, True), (2.0, False), (3.0, True)])
def test_two_checkpoints_far_from_two_before_them_say_that_the_machine_has_changed(
    slower: float, *, is_shifted: bool
) -> None:
    """The user's own settings come back after others, and cost another multiple of what they did."""
    job = Job({}, tuning=False).checkpoints(2)
    job.slower = slower
    job.checkpoints(2)
    assert job.pipeline.tuner is not None
    assert job.pipeline.tuner.learner.is_shifted is is_shifted


def test_an_interval_that_has_hardly_changed_keeps_the_candidates() -> None:
    job = Job({}).checkpoints(1)
    before = belief_of(job)
    job.compute(1)  # a third step: 30 s instead of 20, of which the median is 25
    job.checkpoints(1)
    assert belief_of(job) is not before
    assert len(belief_of(job).candidates) <= len(before.candidates) + 1
