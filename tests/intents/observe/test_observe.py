"""The parts the intents are made of: sizes, fits, cores, redundancy, flushes, runs."""

import pytest

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.events import OutputCompleted
from scrtune.intents.events import Access, NodeObserved, ProcessUse, SettingsObserved, TraceDigest, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.affinity import AffinityObserver
from scrtune.intents.observe.faults.redundancy import keeps_floor, observe, storage_factor
from scrtune.intents.observe.io.buffers import BufferObserver
from scrtune.intents.observe.io.flush import FlushObserver
from scrtune.units import bytes_text

GIB, MIB = 1024**3, 1024**2
S: Values = {"SCR_FLUSH": 1}


def access(tier: str, op: str, sizes: dict[int, int]) -> Access:
    return Access(
        tier=tier,
        op=op,
        count=sum(sizes.values()),
        bytes=sum(size * count for size, count in sizes.items()),
        duration_s=1.0,
        start_s=10.0,
        end_s=12.0,
        sizes=sizes,
    )


def output(total_bytes: int, *, observed: int) -> OutputCompleted:
    return OutputCompleted(
        dataset=1, name="d", start_s=10.0, end_s=12.0, generation=0, bytes=total_bytes, observed=observed
    )


def checkpoint(dataset: int, cost_s: float, *, flushed: bool = False, **fields: float) -> CheckpointCost:
    return CheckpointCost(
        dataset=dataset, generation=0, time_s=float(dataset), blocking_s=cost_s, flushed=flushed, **fields
    )


class TestBuffers:
    def test_writes_to_the_cache_are_the_applications_before_all_others(self) -> None:
        observer = BufferObserver()
        assert observer.observe().evidence.confidence == "none"
        observer.add(
            TraceDigest(accesses=(access("prefix", "write", {MIB: 99}), access("scr", "write", {7: 9})))
        )
        assert observer.observe().p90_bytes == MIB
        observer.add(TraceDigest(accesses=(access("cache", "write", {4096: 20}),)))
        seen = observer.observe()
        assert (seen.p90_bytes, seen.evidence.count, seen.operation) == (4096, 20, "write")
        assert "4 KiB 100%" in seen.sentence()

    def test_a_job_that_only_reads_is_known_by_its_reads(self) -> None:
        observer = BufferObserver()
        observer.add(TraceDigest(accesses=(access("other", "read", {512: 3}), access("other", "sync", {}))))
        assert (observer.observe().operation, observer.observe().p90_bytes) == ("read", 512)

    def test_a_trace_with_few_of_the_bytes_that_outputs_wrote_is_no_high_confidence(self) -> None:
        observer = BufferObserver()
        observer.add_output(output(64 * MIB, observed=30))
        assert observer.observe().evidence.confidence == "none"
        assert "the trace has 0 B of the 64 MiB" in observer.observe().sentence()
        observer.add(TraceDigest(accesses=(access("prefix", "write", {128: 20}),)))
        seen = observer.observe()
        assert (seen.evidence.count, seen.evidence.confidence) == (20, "low")
        assert (seen.seen_bytes, seen.written_bytes) == (20 * 128, 64 * MIB)
        assert "open() or fopen()" in seen.sentence()
        observer.add(TraceDigest(accesses=(access("cache", "write", {MIB: 40}),)))
        seen = observer.observe()
        assert (seen.written_bytes, seen.evidence.confidence) == (0, "high")
        assert "the trace has" not in seen.sentence()

    def test_one_process_that_was_traced_for_many_stands_for_what_they_wrote(self) -> None:
        observer = BufferObserver()
        observer.add_output(output(64 * MIB, observed=16))
        observer.add(TraceDigest(accesses=(access("cache", "write", {MIB: 16}),), alike=4))
        seen = observer.observe()
        assert (seen.evidence.count, seen.evidence.confidence, seen.written_bytes) == (16, "high", 0)

    def test_what_other_nodes_wrote_and_what_was_not_traced_to_its_end_is_not_missed(self) -> None:
        observer = BufferObserver()
        observer.add(TraceDigest(accesses=(access("cache", "write", {MIB: 16}),)))
        observer.add_output(output(64 * MIB, observed=16))
        assert observer.observe(nodes=4).evidence.confidence == "high"
        assert observer.observe(nodes=1).evidence.confidence == "low"
        observer.add_output(output(1024 * MIB, observed=2000))
        observer.add_output(output(1024 * MIB, observed=0))
        assert observer.observe(nodes=4).evidence.confidence == "high"


class TestAffinity:
    def test_idle_cores_are_those_in_no_mask_and_spare_ones_those_not_used(self) -> None:
        observer = AffinityObserver()
        uses = tuple(ProcessUse(pid=pid, cpus=(pid,), cores_used=0.75) for pid in (0, 1))
        observer.add(NodeObserved(host="n", cpus=tuple(range(8)), processes=uses), 10.0)
        observer.add(NodeObserved(host="n", cpus=tuple(range(8))), 20.0)
        seen = observer.found
        assert (seen.bound, seen.unbound, seen.processes) == (True, (2, 3, 4, 5, 6, 7), 2)
        assert (seen.used_cores, seen.spare_cores) == (1.5, 6.5)
        assert seen.evidence.count == 1, "a look that saw no process says nothing about the application"

    def test_an_overloaded_node_has_nothing_to_spare(self) -> None:
        observer = AffinityObserver()
        uses = (ProcessUse(pid=1, cpus=(0, 1), cores_used=3.0),)
        observer.add(NodeObserved(host="n", cpus=(0, 1), processes=uses), 0.0)
        assert (observer.found.spare_cores, observer.found.bound) == (0.0, False)


class TestRedundancy:
    def test_storage_factors_are_those_of_scrs_documentation(self) -> None:
        assert [storage_factor("XOR", n) for n in (2, 4, 8)] == [
            2.0,
            pytest.approx(4 / 3),
            pytest.approx(8 / 7),
        ]
        assert (storage_factor("SINGLE", 8), storage_factor("PARTNER", 8), storage_factor("RS", 8)) == (
            1,
            2,
            8 / 6,
        )

    def test_without_a_declaration_the_users_own_scheme_is_the_floor(self) -> None:
        seen = observe(SettingsObserved(settings={"SCR_COPY_TYPE": "PARTNER"}, nodes=4))
        assert (seen.floor, seen.declared, seen.effective) == ("PARTNER", False, "PARTNER")

    def test_on_one_node_scr_falls_back_to_single(self) -> None:
        seen = observe(SettingsObserved(settings={}, nodes=1, floor="node"))
        assert (seen.scheme, seen.effective, seen.floor, seen.declared) == ("XOR", "SINGLE", "PARTNER", True)
        assert "falls back" in seen.sentence()

    def test_nonsense_has_defaults(self) -> None:
        seen = observe(SettingsObserved(settings={"SCR_SET_SIZE": "many"}, ranks=0, nodes=-1))
        assert (seen.ranks, seen.nodes, seen.set_size) == (1, 1, 8)

    @pytest.mark.parametrize(
        ("scheme", "floor", "keeps"),
        [("SINGLE", "XOR", False), ("XOR", "PARTNER", True), ("XOR", "RS", False), ("RS", "XOR", True)],
    )
    def test_a_scheme_keeps_a_floor_that_survives_no_more(self, scheme: str, floor: str, keeps: bool) -> None:
        assert keeps_floor(scheme, floor) is keeps


class TestFlush:
    def test_means_are_over_all_checkpoints_also_those_not_flushed(self) -> None:
        observer = FlushObserver()
        for dataset in range(1, 21):
            flushed = dataset % 10 == 0
            observer.add(
                checkpoint(
                    dataset,
                    1.0,
                    flushed=flushed,
                    interval_s=10.0,
                    flush_s=8.0 if flushed else 0.0,
                    blocked_on_flush_s=8.0 if flushed else 0.0,
                ),
                S,
            )
        seen = observer.observe(S)
        assert (seen.blocked_on_flush_s, seen.flush_s, seen.flushed_share) == (0.8, 8.0, pytest.approx(0.1))
        assert seen.load == pytest.approx(0.8 / 9.2)
        assert seen.places == 2

    def test_a_flush_longer_than_the_interval_needs_more_places(self) -> None:
        observer = FlushObserver()
        observer.add(checkpoint(1, 1.0, flushed=True, interval_s=10.0, flush_s=21.0), S)
        assert observer.observe(S).places == 4

    def test_what_is_not_known_yet_is_not_taken_for_nothing(self) -> None:
        observer = FlushObserver()
        observer.add(checkpoint(1, 1.0, flushed=True, flush_s=9.0), S)
        assert observer.observe(S).load is None
        assert "of the interval" not in observer.observe(S).sentence()

    def test_what_its_threads_took_of_cores_is_that_of_flushes_that_told_it(self) -> None:
        observer = FlushObserver()
        observer.add(checkpoint(1, 1.0, flushed=True, flush_s=9.0), S)
        assert "for a core" not in observer.observe(S).sentence()
        observer.add(checkpoint(2, 1.0, flushed=True, flush_s=9.0, flush_cpu_s=0.5, flush_delay_s=7.0), S)
        seen = observer.observe(S)
        assert (seen.flush_cpu_s, seen.flush_delay_s) == (0.5, 7.0)
        assert "ran for 0.500 s and waited 7.000 s for a core" in seen.sentence()

    def test_settings_are_told_apart_and_the_last_four_remembered(self) -> None:
        observer = FlushObserver()
        for number in range(6):
            observer.add(checkpoint(number, float(number)), {"SCR_FLUSH": number})
        assert observer.observe({"SCR_FLUSH": 5}).blocking_s == 5
        assert observer.observe({"SCR_FLUSH": 2}).blocking_s == 2
        assert observer.observe({"SCR_FLUSH": 1}).evidence.count == 0

    def test_before_the_first_checkpoint_under_new_settings_the_size_of_the_last_one_is_known(self) -> None:
        observer = FlushObserver()
        assert observer.observe(S).sentence() == "no checkpoint was completed yet"
        observer.add(checkpoint(1, 1.0, bytes=64 * MIB, files=2), S)
        seen = observer.observe({})
        assert (seen.evidence.count, seen.checkpoint_bytes, seen.files) == (0, 64 * MIB, 2)
        assert seen.sentence().endswith("yet under these settings; the last one was 64 MiB in 2 files")


@pytest.mark.parametrize(
    ("count", "confidence"), [(0, "none"), (1, "low"), (2, "low"), (3, "medium"), (9, "medium"), (10, "high")]
)
def test_confidence_grows_with_evidence(count: int, confidence: str) -> None:
    assert Evidence(count=count).confidence == confidence


def test_bytes_are_written_as_people_do() -> None:
    assert [bytes_text(count) for count in (320, 4096, 1.5 * MIB, 3 * GIB, 5 * 1024 * GIB)] == [
        "320 B",
        "4 KiB",
        "1.5 MiB",
        "3 GiB",
        "5 TiB",
    ]
