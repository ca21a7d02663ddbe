"""The rules by which the evidence of several nodes becomes that of the job."""

import pickle
import sys
from copy import deepcopy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import OutputCompleted
from scrtune.intents.events import (
    Access,
    LeaderChanged,
    NodeLeft,
    NodeObserved,
    ProcessUse,
    SettingsObserved,
    StorageProbed,
    TraceDigest,
)
from scrtune.intents.observe.nodes import Nodes, stragglers
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.settings import DEFAULTS

GIB = 1024**3


def look(
    host: str, used: float = 1.0, cpus: int = 8, masks: tuple[tuple[int, ...], ...] = ((0,),), **fields: int
) -> NodeObserved:
    uses = tuple(
        ProcessUse(pid=10 + number, cpus=mask, cores_used=used / len(masks))
        for number, mask in enumerate(masks)
    )
    return NodeObserved(host=host, cpus=tuple(range(cpus)), processes=uses, **fields)


def nodes(*looks: NodeObserved) -> Nodes:
    found = Nodes()
    for number, each in enumerate(looks):
        found.add_look(each, float(number), is_cached=True)
    return found


def digest(host: str, sizes: dict[int, int], duration_s: float = 1.0) -> TraceDigest:
    access = Access(
        tier="prefix",
        op="write",
        count=sum(sizes.values()),
        bytes=sum(size * count for size, count in sizes.items()),
        duration_s=duration_s,
        start_s=1.0,
        end_s=2.0,
        sizes=sizes,
    )
    return TraceDigest(events=access.count, accesses=(access,), processes=((host, 1),))


class TestCores:
    """Affinity: the worst case."""

    def test_of_one_node_it_is_what_that_node_shows(self) -> None:
        one = nodes(look("n1")).affinity
        assert (one.nodes, one.host, one.spare_cores) == (1, "", 7.0)
        assert "others" not in one.sentence()

    def test_the_node_with_the_fewest_spare_cores_counts(self) -> None:
        merged = nodes(look("n1", 4.0), look("n2", 4.0), look("n3", 7.0), look("n4", 4.0)).affinity
        assert (merged.nodes, merged.host, merged.spare_cores, merged.others_spare_cores) == (
            4,
            "n3",
            1.0,
            4.0,
        )
        assert "1.00 spare on node n3, 4.00 on the others (their median)" in merged.sentence()

    def test_only_a_cpu_that_is_idle_on_every_node_is_idle(self) -> None:
        merged = nodes(look("n1", masks=((0, 1),)), look("n2", masks=((0,), (5,)))).affinity
        assert (merged.bound, merged.unbound, merged.idle_cores) == (True, (2, 3, 4, 6, 7), 5)
        assert (merged.mask_cores, merged.processes) == (1, 2)

    def test_a_node_that_is_not_bound_leaves_none_idle(self) -> None:
        merged = nodes(look("n1"), look("n2", masks=(tuple(range(8)),))).affinity
        assert (merged.bound, merged.unbound, merged.idle_cores) == (True, (), 0)

    def test_it_is_as_certain_as_the_node_that_was_looked_at_least(self) -> None:
        seen = nodes(*[look("n1")] * 12, look("n2"))
        assert (seen.affinity.evidence.count, seen.affinity.evidence.confidence) == (1, "low")
        assert seen.affinity.evidence.source == "psutil on each of 2 nodes"

    def test_what_rank_0_wants_between_outputs_is_what_each_rank_does(self) -> None:
        found = nodes(look("n1", 0.5), look("n2", 0.5), look("n3", 2.0))
        found.add_output(OutputCompleted(dataset=1, name="c", start_s=0, end_s=1))
        found.add_output(OutputCompleted(dataset=2, name="c", start_s=5, end_s=6, cpu_s=3, run_delay_s=1))
        merged = found.affinity
        assert (merged.host, merged.spare_cores, merged.others_spare_cores) == ("n3", 6.0, 7.0)
        assert [each.spare_cores for each in found.evidence()] == [7.0, 7.0, 6.0]
        assert deepcopy(found).affinity == merged, "also in what is pickled"

    @given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 8)), min_size=1, max_size=20))
    def test_one_more_node_never_leaves_more_to_spare(self, seen: list[tuple[str, float]]) -> None:
        found = nodes(*(look(host, used) for host, used in seen))
        before = found.affinity
        found.add_look(look("another", 3.0), 100.0, is_cached=False)
        assert found.affinity.spare_cores <= before.spare_cores
        assert set(found.affinity.unbound) <= set(before.unbound)


class TestRoom:
    """Memory, cache and rates: the least, each by itself."""

    def test_memory_and_cache_are_of_the_node_that_has_least(self) -> None:
        found = nodes(
            look("n1", memory_available_bytes=4 * GIB, cache_free_bytes=9 * GIB, link_bytes_per_s=25e9),
            look("n2", memory_available_bytes=8 * GIB, cache_free_bytes=2 * GIB, is_virtual=True),
            look("n3", memory_available_bytes=9 * GIB, cache_free_bytes=3 * GIB, link_bytes_per_s=5e9),
        )
        assert found.look is not None
        assert found.look.is_virtual, "as one of them is"
        assert (found.look.memory_available_bytes, found.look.cache_free_bytes) == (4 * GIB, 2 * GIB)
        assert (found.look.host, found.look.link_bytes_per_s) == ("n1", 5e9)

    @pytest.mark.parametrize(("limits", "counts"), [((600, 400, 500), 400), ((600, 0, 500), 0)])
    def test_of_what_may_be_dirty_the_least_counts_and_nothing_where_a_node_does_not_say(
        self, limits: tuple[int, ...], counts: int
    ) -> None:
        found = nodes(*(look(f"n{number}", dirty_limit_bytes=each) for number, each in enumerate(limits)))
        assert found.look is not None
        assert found.look.dirty_limit_bytes == counts

    def test_nothing_is_made_up_where_no_node_was_seen(self) -> None:
        assert (Nodes().look, Nodes().probe, Nodes().evidence()) == (None, None, ())
        assert Nodes().free_with_datasets == 0

    def test_room_beside_datasets_is_the_least_where_there_are_any(self) -> None:
        found = nodes(look("n1", cache_free_bytes=5), look("n2", cache_free_bytes=3))
        assert not found.add_look(look("n2", cache_free_bytes=1), 4.0, is_cached=False)
        assert not found.add_look(look("n2", cache_free_bytes=0), 4.0, is_cached=True), "0 is not known"
        assert found.free_with_datasets == 3

    def test_room_seen_during_an_output_counts_only_after_a_look_before_it_and_if_it_is_less(self) -> None:
        found = nodes(look("n1", cache_free_bytes=5))
        assert found.end_looks(1.0)
        found.add_look(look("n1", cache_free_bytes=9), 11.0, is_cached=True)
        assert not found.end_looks(10.0)
        assert found.free_with_datasets == 5
        for now, free_bytes in ((15.0, 6), (21.0, 10), (22.0, 4)):
            found.add_look(look("n1", cache_free_bytes=free_bytes), now, is_cached=True)
        assert found.end_looks(20.0)
        assert found.free_with_datasets == 4

    def test_of_another_node_it_counts_when_it_was_looked_at_not_when_that_was_heard(self) -> None:
        found = nodes(look("n1", cache_free_bytes=5))
        found.end_looks(1.0)
        late = msgspec.structs.replace(look("n1", cache_free_bytes=9), time_s=11.0)
        found.add_look(late, 12.5, is_cached=True)
        assert not found.end_looks(10.0)
        found.add_look(msgspec.structs.replace(late, time_s=1e10), 14.0, is_cached=True)
        assert found.end_looks(15.0), "a clock that is ahead"

    def test_of_rates_the_lowest_that_was_measured_counts(self) -> None:
        found = Nodes()
        found.add_probe(StorageProbed(host="n1", cache_write_bytes_per_s=5.0, xor_bytes_per_s=2.0), 0.0)
        found.add_probe(StorageProbed(host="n2", cache_write_bytes_per_s=3.0, xor_bytes_per_s=4.0), 0.0)
        found.add_probe(StorageProbed(host="n3", problem="the cache is full"), 0.0)
        assert found.probe is not None
        assert (found.probe.host, found.probe.cache_write_bytes_per_s, found.probe.xor_bytes_per_s) == (
            "n2",
            3.0,
            2.0,
        )

    def test_a_node_that_has_left_is_no_worst_case_any_more(self) -> None:
        found = nodes(look("n1", 7.0, cache_free_bytes=1), look("n2", 2.0, cache_free_bytes=5))
        found.forget("n1")
        found.forget("never there")
        assert found.affinity.spare_cores == 6.0
        assert found.look is not None
        assert found.look.cache_free_bytes == 5

    def test_memory_is_bounded_in_nodes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scrtune.intents.observe.nodes.MOST_NODES", 10)
        found = nodes(*(look(f"n{number}") for number in range(50)))
        assert [each.host for each in found.evidence()] == [f"n{number}" for number in range(40, 50)]


class TestStragglers:
    """A node far behind the others is named, with its number and theirs."""

    def test_each_number_of_which_a_node_has_less_than_half(self) -> None:
        found = nodes(
            *(look(host, 4.0, cache_free_bytes=10 * GIB) for host in ("n1", "n2", "n4")),
            look("n3", 7.0, cache_free_bytes=GIB, link_bytes_per_s=GIB),
            look("n5", 4.0, cache_free_bytes=10 * GIB, link_bytes_per_s=10 * GIB),
        )
        assert list(stragglers(found.evidence())) == [
            "node n3 has 1.0 spare cores, the others 4.0",
            "node n3 has 1 GiB free in the cache, the others 10 GiB",
            "node n3 has 1 GiB/s on the network's link, the others 10 GiB/s",
        ]

    def test_a_node_that_writes_slower_is_found_by_its_trace(self) -> None:
        found = Nodes()
        for host, duration_s in (("n1", 1.0), ("n2", 1.0), ("n3", 4.0)):
            found.add_digest(digest(host, {1024**2: 1024}, duration_s), 0.0)
        (sentence,) = stragglers(found.evidence())
        assert sentence == ("node n3 has 256 MiB/s into the prefix directory, the others 1 GiB/s")

    def test_nodes_that_are_alike_and_one_alone_have_none(self) -> None:
        assert not list(stragglers(nodes(look("n1"), look("n2", 1.5)).evidence()))
        assert not list(stragglers(nodes(look("n1", 8.0)).evidence()))


class TestInThePipeline:
    """What the pipeline makes of events of several nodes."""

    def pipeline(self, *events: NodeObserved | TraceDigest | NodeLeft | OutputCompleted) -> Pipeline:
        pipeline = Pipeline()
        pipeline.handle(SettingsObserved(settings=DEFAULTS.copy(), ranks=4, nodes=2), 0.0)
        for event in events:
            pipeline.handle(event, 1.0)
        return pipeline

    def test_sizes_are_summed(self) -> None:
        sizes = self.pipeline(digest("n1", {4096: 3}), digest("n2", {4096: 1, 100: 1})).intents.buffers
        assert (sizes.evidence.count, sizes.bytes) == (5, 4 * 4096 + 100)

    def test_what_the_trace_lacks_is_held_against_the_nodes_that_sent_theirs(self) -> None:
        wrote = OutputCompleted(
            dataset=1, name="d", start_s=0.1, end_s=0.2, bytes=1000 * 4096, observed=10, files=1
        )
        half = {4096: 250}
        assert self.pipeline(wrote, digest("n1", half)).intents.buffers.written_bytes == 0
        both = self.pipeline(wrote, digest("n1", half), digest("n2", half)).intents.buffers
        assert both.written_bytes == 0
        missing = self.pipeline(wrote, digest("n1", half), digest("n2", {4096: 100})).intents.buffers
        assert missing.written_bytes == 1000 * 4096

    def test_the_situation_has_the_worst_of_the_nodes(self) -> None:
        pipeline = self.pipeline(
            look("n1", 2.0, memory_available_bytes=5, cache_free_bytes=7),
            look("n2", 6.0, memory_available_bytes=9, cache_free_bytes=3),
        )
        now = pipeline.situation
        assert now.node is not None
        assert (now.node.memory_available_bytes, now.node.cache_free_bytes) == (5, 3)
        assert now.intents.affinity.spare_cores == 2.0
        assert [each.host for each in pipeline.observers.nodes.evidence()] == ["n1", "n2"]
        pipeline.handle(NodeLeft(host="n2"), 2.0)
        assert pipeline.situation.intents.affinity.spare_cores == 6.0

    def test_it_knows_who_led_since_when(self) -> None:
        pipeline = Pipeline()
        for number in range(150):
            event = LeaderChanged(host=f"n{number}", term=number, why="a test")
            pipeline.handle(event, float(number))
        assert (pipeline.leaders[-1].host, pipeline.leaders[-1].since_s) == ("n149", 149.0)
        assert len(pipeline.leaders) == 100


class TestSnapshots:
    """Pickled nodes: what a daemon writes of them, and starts anew with."""

    def test_a_copy_goes_on_as_the_nodes_themselves(self) -> None:
        found = nodes(look("n2"), look("n1", used=3.0))
        found.add_probe(StorageProbed(host="n1", time_s=3.0, cache_write_bytes_per_s=1e9), 3.0)
        found.add_digest(digest("n2", {4096: 10}), 4.0)
        copy = deepcopy(found)  # by what is pickled
        for each in (found, copy):
            each.add_look(look("n1", used=2.0, cache_free_bytes=7), 5.0, is_cached=True)
        assert copy.evidence() == found.evidence()
        assert (copy.affinity, copy.look, copy.probe) == (found.affinity, found.look, found.probe)
        assert copy.free_with_datasets == found.free_with_datasets

    def test_thousands_of_nodes_are_pickled_without_as_many_objects_more(self) -> None:
        found = nodes(*(look(f"n{number}") for number in range(2000)))
        seen = []

        class Probe:
            def __reduce__(self) -> tuple[type, tuple[()]]:
                seen.append(sys.getallocatedblocks())
                return int, ()

        pickle.dumps((Probe(), found, Probe()), 5)
        assert seen[1] - seen[0] < 500
