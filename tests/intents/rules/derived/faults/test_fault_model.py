"""Intent 3: which scheme, over which groups of nodes, and whether two schemes in turn pay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scrtune.goodput.interval.failures import Failures
from scrtune.intents.declared import Declared
from scrtune.intents.events import AllocationObserved, KnowledgeRecalled, StorageProbed, UserEdited, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.faults.fault_model import FaultModel
from scrtune.intents.observe.faults.redundancy import FLOORS, SURVIVES
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.derived.faults.fault_model import menu_interval
from scrtune.intents.rules.parameters import declared
from scrtune.intents.tune.knowledge import Knowledge
from scrtune.scr_config.check.check import check_sources, source_of
from scrtune.scr_config.check.model import CheckContext

from .....support.simulated_job import Job
from .....support.situations import GIB, parameter, situation

CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_CACHE_SIZE": 2, "SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 10}
ENCODED: Values = {**CACHED, "SCR_COPY_TYPE": "XOR"}


class TestScheme:
    @pytest.mark.parametrize(
        ("floor", "losses", "nodes", "scheme"),
        [
            ("", 0, 8, "SINGLE"),
            ("", 1, 2, "PARTNER"),
            ("", 1, 3, "XOR"),
            ("", 2, 8, "RS"),
            ("", 2, 2, "PARTNER"),
            ("", 5, 1, "SINGLE"),
            ("NODE", None, 8, "PARTNER"),
            ("PROCESS", 1, 8, "XOR"),
            ("RS", 1, 8, "RS"),
        ],
    )
    def test_what_must_be_survived_chooses_it(
        self, floor: str, losses: int | None, nodes: int, scheme: str
    ) -> None:
        now = situation(CACHED, said=Declared(losses=losses), floor=floor, nodes=nodes)
        found = parameter("SCR_COPY_TYPE", now)
        assert (found.value, found.is_users_word, found.veto) == (scheme, True, "")

    def test_a_scheme_that_is_strong_enough_stays(self) -> None:
        now = situation({**CACHED, "SCR_COPY_TYPE": "RS"}, said=Declared(losses=1))
        assert parameter("SCR_COPY_TYPE", now).value == "RS"
        assert not [each for each, _ in declared(now) if "SCR_COPY_TYPE" in each.changes]

    def test_without_a_declaration_trials_judge_it(self) -> None:
        found = parameter("SCR_COPY_TYPE", situation(CACHED))
        assert found.value is None
        assert "a lever, judged by trials" in found.why_not

    def test_what_your_environment_sets_is_left_and_said(self) -> None:
        now = situation(CACHED, said=Declared(losses=1), sources={"SCR_COPY_TYPE": "environment"})
        assert "your environment sets it" in parameter("SCR_COPY_TYPE", now).veto
        ((_, veto),) = declared(now)
        assert veto is not None

    def test_a_scheme_that_you_pin_replaces_what_you_declared_until_you_unpin_it(self) -> None:
        job = Job(CACHED, nodes=4, declared=Declared(losses=1))
        assert job.in_force["SCR_COPY_TYPE"] == "XOR"
        job.tell(UserEdited(changes={"SCR_COPY_TYPE": "SINGLE"}, is_pin=True))
        assert job.in_force["SCR_COPY_TYPE"] == "SINGLE"
        assert not job.pipeline.intents.faults.declared
        job.tell(UserEdited(released=("SCR_COPY_TYPE",)))
        assert job.in_force["SCR_COPY_TYPE"] == "XOR"

    def test_more_losses_than_a_job_can_survive_are_clipped(self) -> None:
        found = parameter("SCR_COPY_TYPE", situation(CACHED, said=Declared(losses=9), nodes=3))
        assert (found.value, found.clipped) == ("RS", "the most of 3 nodes: 2")
        embedded = situation(CACHED, said=Declared(losses=2), engine="embedded")
        assert parameter("SCR_COPY_TYPE", embedded).value == "XOR"
        assert "no RS" in parameter("SCR_COPY_TYPE", embedded).clipped

    @given(
        st.sampled_from(["", "PROCESS", "NODE", "XOR", "RS"]),
        st.none() | st.integers(0, 6),
        st.integers(0, 6),
        st.integers(1, 40),
    )
    def test_a_stricter_word_never_means_a_weaker_scheme(
        self, floor: str, losses: int | None, more: int, nodes: int
    ) -> None:
        def strength(count: int | None) -> int:
            now = situation(CACHED, said=Declared(losses=count), floor=floor, nodes=nodes)
            return SURVIVES[str(parameter("SCR_COPY_TYPE", now).value or CACHED["SCR_COPY_TYPE"])]

        assert strength((losses or 0) + more) >= strength(losses)

    @given(
        st.permutations(["PROCESS", "NODE", "XOR", "RS"]),
        st.none() | st.integers(0, 6),
        st.integers(1, 40),
        st.sampled_from(["SINGLE", "PARTNER", "XOR", "RS"]),
    )
    def test_nor_does_a_stricter_floor(
        self, floors: list[str], losses: int | None, nodes: int, own: str
    ) -> None:
        def strength(floor: str) -> int:
            settings = {**CACHED, "SCR_COPY_TYPE": own}
            now = situation(settings, said=Declared(losses=losses), floor=floor, nodes=nodes)
            return SURVIVES[str(parameter("SCR_COPY_TYPE", now).value)]

        weaker, stricter = sorted(floors[:2], key=lambda floor: SURVIVES[FLOORS[floor]])
        assert strength(stricter) >= strength(weaker)


def switched(*sizes: int, missing: int = 0) -> AllocationObserved:
    """An allocation with so many nodes on each switch, of `missing` of which the switch is not known."""
    at = {f"n{number}{i}": f"s{number}" for number, size in enumerate(sizes) for i in range(size)}
    return AllocationObserved(
        scheduler="slurm",
        hosts=tuple(at),
        switches=dict(list(at.items())[missing:]),
    )


class TestGroups:
    def test_nodes_below_one_switch_are_one_failure_group(self) -> None:
        found = parameter("SCR_GROUP", situation(ENCODED, allocation=switched(2, 2, 2, 2)))
        assert found.value == "SWITCH"
        assert found.lines[:2] == ("SCR_GROUP=SWITCH", "GROUPS=n00 SWITCH=s0")
        assert len(found.lines) == 9
        assert "store 1.33 x the data, not 1.14 x" in " ".join(found.inputs)

    @pytest.mark.parametrize(
        ("allocation", "settings", "why"),
        [
            (None, ENCODED, "no switches are known"),
            (switched(4, 4, missing=1), ENCODED, "no switches are known"),
            (switched(8), ENCODED, "all nodes hang on one switch"),
            (switched(5, 3), ENCODED, "unequally many"),
            (switched(1, 1, 1, 1, 1, 1, 1, 1), ENCODED, "NODE is the same"),
            (switched(4, 4, 4), ENCODED, "other nodes than the job"),
            (switched(4, 4), CACHED, "nothing is encoded"),
            (switched(4, 4), {**ENCODED, "SCR_CACHE_BYPASS": 1}, "nothing is encoded"),
        ],
    )
    def test_else_node_stays_and_it_is_said_why(
        self, allocation: AllocationObserved | None, settings: Values, why: str
    ) -> None:
        found = parameter("SCR_GROUP", situation(settings, allocation=allocation))
        assert (found.value, found.lines) == (None, ())
        assert why in found.why_not

    def test_a_group_of_yours_stands(self) -> None:
        now = situation({**ENCODED, "SCR_GROUP": "POWER"}, allocation=switched(4, 4))
        assert parameter("SCR_GROUP", now).overruled == "your own value stands (user config)"


FREQUENT = Failures(observed_s=864_000.0, cache=90, prefix=10, nodes=8)
"""In ten days: nine of ten ended processes alone, as SINGLE showed."""
MEASURED = FlushBehaviour(
    evidence=Evidence(count=10), checkpoint_bytes=4 * GIB, interval_s=600.0, flush_s=60.0, write_s=2.0
)


class TestMenu:
    @pytest.mark.parametrize(("write_s", "encode_s", "share", "every"), [(1, 1, 0.5, 1), (1, 4, 0.8, 4)])
    def test_every_nth_by_the_cost_and_the_failures_of_each_level(
        self, write_s: float, encode_s: float, share: float, every: int
    ) -> None:
        assert menu_interval(write_s, encode_s, share) == every

    @given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 0.98), st.floats(0, 0.01))
    def test_the_more_failures_spare_the_nodes_the_rarer_is_the_encode(
        self, write_s: float, encode_s: float, share: float, more: float
    ) -> None:
        assert menu_interval(write_s, encode_s, share + more) >= menu_interval(write_s, encode_s, share)

    def test_where_failures_mostly_spare_the_nodes_two_schemes_pay(self) -> None:
        probed = situation(CACHED, flush=MEASURED, failures=FREQUENT)
        rates = StorageProbed(host="n", cache_read_bytes_per_s=GIB / 8, cache_write_bytes_per_s=GIB)
        found = parameter("CKPT", replace(probed, probe=rates))
        assert found.value is None
        assert found.gain_s > found.gain_sd_s > 0
        assert found.lines[-1].startswith("CKPT=1 INTERVAL=")
        text = "\n".join(found.lines)
        findings = check_sources([source_of("menu", text)], CheckContext())
        assert not [each for each in findings if each.severity == "error"]

    @pytest.mark.parametrize(
        ("settings", "described", "why"),
        [
            (CACHED, {"nodes": 1}, "falls back to SINGLE"),
            ({**CACHED, "SCR_CACHE_BYPASS": 1}, {}, "bypass the cache"),
            ({**CACHED, "SCR_FLUSH": 1}, {}, "every checkpoint is flushed"),
            (ENCODED, {}, "every checkpoint must survive what XOR survives"),
            (CACHED, {"free_bytes": GIB}, "do not fit"),
            (CACHED, {}, "neither measured nor probed"),
        ],
    )
    def test_else_it_is_said_why_not(self, settings: Values, described: dict[str, int], why: str) -> None:
        found = parameter("CKPT", situation(settings, **described))
        assert found.lines == ()
        assert why in found.why_not


def test_the_failures_of_earlier_jobs_count_by_their_node_seconds() -> None:
    seen = FaultModel(nodes=8, failures=Failures(observed_s=86_400.0, unknown=2, nodes=8))
    more = FaultModel(nodes=8, failures=seen.failures, earlier=4, earlier_node_s=8 * 2 * 86_400.0)
    assert more.rate.failures == 6
    assert more.rate.time_s == pytest.approx(3 * 86_400.0)
    assert 43_200 < more.rate.mtbf_s < seen.rate.mtbf_s < FaultModel(nodes=8).rate.mtbf_s


def test_a_job_teaches_the_next_one_how_often_it_fails() -> None:
    job = Job(CACHED, nodes=4).checkpoints(3)
    before = Knowledge(jobs=2, checkpoints=9, failures=3, node_s=1000.0)
    other = Job(CACHED, nodes=4)
    other.tell(KnowledgeRecalled(knowledge=before))
    other.checkpoints(3)
    first, second = job.pipeline.knowledge, other.pipeline.knowledge
    assert first is not None
    assert second is not None
    assert first.node_s > 0
    assert (second.failures, second.node_s) == (3, pytest.approx(1000.0 + first.node_s))
    assert other.pipeline.intents.faults.rate.failures == 3
    assert "3 of earlier jobs" in other.pipeline.intents.faults.evidence.source


def test_sentences_say_what_must_be_survived_and_how_often_something_fails() -> None:
    assert "has not described itself" in FaultModel().sentence()
    said = situation(CACHED, said=Declared(losses=1), allocation=switched(4, 4)).intents.faults.sentence()
    assert "must survive 1 lost node (XOR, declared)" in said
    assert "2 switches" in said
    alone = Job(CACHED, floor="NODE").pipeline.intents.faults.sentence()
    assert "must survive 1 lost node (PARTNER, declared; on 1 node no scheme does)" in alone
