"""Rules: what is proposed when, with which values and which expected gain."""

from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import NodeObserved, SettingsObserved, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.affinity import CoreAffinity
from scrtune.intents.observe.buffers import BufferSizes
from scrtune.intents.observe.flush import FlushBehaviour
from scrtune.intents.observe.redundancy import observe as observe_redundancy
from scrtune.intents.rules import policy
from scrtune.intents.rules.guards import NEVER
from scrtune.intents.rules.policy import RULES, cached_write_prior_s, cpu_list, proposals
from scrtune.intents.rules.situation import DEFAULTS, Intents, Proposal, Situation
from scrtune.scr_config.catalogue import CATALOGUE
from scrtune.scr_config.constraints import fatal, unfit_for_file

MIB, GIB = 1024**2, 1024**3
SEEN = Evidence(count=5, window_s=60.0, source="test")
CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1}
ASYNC: Values = {**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_CACHE_SIZE": 2}
FLUSH = FlushBehaviour(
    evidence=SEEN,
    checkpoint_bytes=4 * GIB,
    files=32,
    interval_s=100.0,
    blocking_s=12.0,
    write_s=1.0,
    encode_s=1.0,
    flush_s=10.0,
    blocked_on_flush_s=10.0,
)
CORES = CoreAffinity(evidence=SEEN, cpus=tuple(range(16)), processes=4, used_cores=4.0, spare_cores=12.0)


def situation(  # noqa: PLR0913 - everything a rule looks at
    settings: Values | None = None,
    *,
    flush: FlushBehaviour = FLUSH,
    affinity: CoreAffinity = CORES,
    buffers: BufferSizes | None = None,
    floor: str = "",
    nodes: int = 2,
    memory: int = 64 * GIB,
) -> Situation:
    every = {**DEFAULTS, **(settings or {})}
    job = SettingsObserved(settings=every, ranks=4 * nodes, nodes=nodes, floor=floor)
    return Situation(
        intents=Intents(
            affinity=affinity,
            buffers=buffers or BufferSizes(),
            flush=flush,
            redundancy=observe_redundancy(job, str(every["SCR_COPY_TYPE"])),
        ),
        settings=every,
        job=job,
        node=NodeObserved(host="n", cpus=(), memory_available_bytes=memory, cache_free_bytes=memory),
    )


def changed(flush: FlushBehaviour = FLUSH, **fields: float) -> FlushBehaviour:
    return msgspec.structs.replace(flush, **fields)


def made(rule: policy.Rule, now: Situation) -> Proposal:
    proposal = rule(now)
    assert proposal is not None
    return proposal


def test_the_defaults_are_those_of_scr() -> None:
    for name, value in DEFAULTS.items():
        assert CATALOGUE[name].accepts(value)
        if CATALOGUE[name].default is not None:
            assert CATALOGUE[name].default == value


class TestRedundancy:
    def test_a_declared_floor_is_met_whatever_it_costs(self) -> None:
        now = situation({"SCR_COPY_TYPE": "SINGLE"}, floor="NODE")
        first = proposals(now)[0]
        assert (first.required, first.changes) == (True, {"SCR_COPY_TYPE": "PARTNER"})

    def test_without_a_declaration_nothing_is_taken_from_the_users_scheme(self) -> None:
        assert policy.cheaper_redundancy(situation(CACHED)) is None
        assert policy.required_redundancy(situation(CACHED)) is None

    def test_what_was_declared_unneeded_is_saved(self) -> None:
        proposal = made(policy.cheaper_redundancy, situation(CACHED, floor="PROCESS"))
        assert (proposal.changes, proposal.expected_gain_s) == ({"SCR_COPY_TYPE": "SINGLE"}, 1.0)

    def test_on_one_node_there_is_nothing_to_save(self) -> None:
        assert policy.cheaper_redundancy(situation(CACHED, floor="PROCESS", nodes=1)) is None


class TestCacheInsteadOfBypass:
    BYPASS = changed(blocking_s=30.0, write_s=30.0, encode_s=0.0, flush_s=0.0, blocked_on_flush_s=0.0)

    def test_every_checkpoint_still_reaches_the_prefix_directory(self) -> None:
        proposal = made(policy.cache_instead_of_bypass, situation(flush=self.BYPASS, floor="SINGLE"))
        assert proposal.changes["SCR_FLUSH"] == 1
        assert proposal.changes["SCR_COPY_TYPE"] == "SINGLE"
        assert proposal.changes["SCR_CACHE_BYPASS"] == 0
        assert "survives what SINGLE survives" in proposal.because

    def test_the_gain_is_reckoned_for_one_node(self) -> None:
        proposal = made(policy.cache_instead_of_bypass, situation(flush=self.BYPASS, floor="SINGLE", nodes=4))
        assert proposal.expected_gain_s == pytest.approx(30 - 1 / 2)
        partner = made(policy.cache_instead_of_bypass, situation(flush=self.BYPASS, floor="NODE", nodes=4))
        assert partner.expected_gain_s == pytest.approx(30 - 3 / 2)

    @pytest.mark.parametrize(
        "now",
        [
            situation(flush=BYPASS, affinity=msgspec.structs.replace(CORES, spare_cores=0.9)),
            situation(flush=changed(BYPASS, interval_s=70.0)),
            situation(flush=changed(BYPASS, interval_s=0.0)),
            situation(CACHED, flush=BYPASS),
            situation(flush=FlushBehaviour()),
        ],
        ids=["no spare core", "no time between two", "interval not known", "cached already", "nothing seen"],
    )
    def test_only_with_a_core_and_time_to_flush(self, now: Situation) -> None:
        assert policy.cache_instead_of_bypass(now) is None


class TestAsynchronousFlush:
    def test_what_blocks_is_what_can_be_gained(self) -> None:
        proposal = made(policy.asynchronous_flush, situation(CACHED))
        assert proposal.expected_gain_s == 10.0
        assert proposal.changes == {"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_CACHE_SIZE": 2}

    def test_a_bigger_cache_of_the_users_is_kept(self) -> None:
        proposal = made(policy.asynchronous_flush, situation({**CACHED, "SCR_CACHE_SIZE": 6}))
        assert proposal.changes["SCR_CACHE_SIZE"] == 6

    def test_of_type_sync_a_flush_blocks_although_it_is_called_asynchronous(self) -> None:
        assert policy.asynchronous_flush(situation({**CACHED, "SCR_FLUSH_ASYNC": 1})) is not None
        assert policy.asynchronous_flush(situation(ASYNC)) is None

    def test_when_only_every_tenth_checkpoint_is_flushed_the_load_is_a_tenth(self) -> None:
        tenth = changed(flush_s=90.0, flushed_share=0.1, blocked_on_flush_s=9.0)
        assert (
            made(
                policy.asynchronous_flush, situation({**CACHED, "SCR_FLUSH": 10}, flush=tenth)
            ).expected_gain_s
            == 9
        )

    @pytest.mark.parametrize(
        "flush", [changed(flush_s=80.0), changed(interval_s=0.0), changed(blocked_on_flush_s=0.0)]
    )
    def test_not_when_it_does_not_fit_or_is_not_known(self, flush: FlushBehaviour) -> None:
        assert policy.asynchronous_flush(situation(CACHED, flush=flush)) is None


class TestRoomInTheCache:
    WAITING = changed(blocked_on_flush_s=0.0, wait_s=5.0, flush_s=120.0)

    def test_as_many_places_as_flushes_take_intervals(self) -> None:
        proposal = made(policy.room_in_the_cache, situation(ASYNC, flush=self.WAITING))
        assert (proposal.changes, proposal.expected_gain_s) == ({"SCR_CACHE_SIZE": 3}, 5.0)

    def test_not_when_nobody_waits_or_there_is_room(self) -> None:
        assert policy.room_in_the_cache(situation(ASYNC, flush=changed(self.WAITING, wait_s=0.0))) is None
        assert policy.room_in_the_cache(situation({**ASYNC, "SCR_CACHE_SIZE": 3}, flush=self.WAITING)) is None


class TestFlushCores:
    BOUND = msgspec.structs.replace(CORES, bound=True, unbound=(4, 5, 6, 7, 12))

    def test_flush_threads_get_the_cores_in_no_mask(self) -> None:
        proposal = made(policy.unbound_flush, situation(CACHED, affinity=self.BOUND))
        assert proposal.changes == {"SCRTUNE_FLUSH_CPUS": "4-7,12"}
        assert proposal.expected_gain_s == pytest.approx(10 * (1 - 23.0 / 41.4))

    def test_not_when_the_ranks_are_not_bound(self) -> None:
        assert policy.unbound_flush(situation(CACHED)) is None

    @pytest.mark.parametrize(
        ("cpus", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((7, 6, 9), "6-7,9")]
    )
    def test_cpu_lists_are_written_as_linux_does(self, cpus: tuple[int, ...], text: str) -> None:
        assert cpu_list(cpus) == text


class TestFlushThreads:
    def test_of_type_sync_one_thread_copies_until_the_type_changes(self) -> None:
        proposal = made(policy.flush_threads, situation(CACHED))
        assert proposal.changes == {
            "SCRTUNE_FLUSH_THREADS": 3,
            "SCR_FLUSH_WIDTH": 8,
            "SCR_FLUSH_TYPE": "PTHREAD",
        }
        assert proposal.expected_gain_s == pytest.approx(10 * (1 - 0.549 / 0.756))

    def test_beside_the_computation_threads_that_have_no_core_are_taken_away(self) -> None:
        slow = changed(blocked_on_flush_s=0.0, slowdown_s=4.0)
        few = msgspec.structs.replace(CORES, spare_cores=4.5)
        proposal = made(policy.flush_threads, situation(ASYNC, flush=slow, affinity=few))
        assert proposal.changes["SCRTUNE_FLUSH_THREADS"] == 1
        assert proposal.expected_gain_s == pytest.approx(4 * (1 - 10.6 / 20.0) * 3 / 4)

    def test_while_it_blocks_fewer_threads_help_nobody(self) -> None:
        few = msgspec.structs.replace(CORES, spare_cores=0.0)
        now = situation({**CACHED, "SCR_FLUSH_TYPE": "PTHREAD"}, affinity=few)
        assert policy.flush_threads(now) is None

    def test_no_more_threads_than_files(self) -> None:
        proposal = made(policy.flush_threads, situation(CACHED, flush=changed(files=16)))
        assert proposal.changes["SCRTUNE_FLUSH_THREADS"] == 2


class TestBuffers:
    BUFFERS = BufferSizes(
        evidence=SEEN,
        p90_bytes=5 * MIB + 1,
        call_s=1e-3,
    )
    SMALL: ClassVar[Values] = {**CACHED, "SCR_FILE_BUF_SIZE": MIB // 4}

    def test_the_buffer_is_the_applications_p90(self) -> None:
        proposal = made(policy.file_buffer, situation(self.SMALL, buffers=self.BUFFERS))
        wanted = 5 * MIB + 64 * 1024
        assert proposal.changes == {"SCR_FILE_BUF_SIZE": wanted}
        calls = 4 * GIB * (4 / MIB - 1 / wanted)
        assert proposal.expected_gain_s == pytest.approx(calls * 1e-3 / 8)

    def test_within_a_stripe_and_32_mib(self) -> None:
        for p90_bytes, wanted in ((1, MIB), (10 * GIB, 32 * MIB)):
            buffers = msgspec.structs.replace(self.BUFFERS, p90_bytes=p90_bytes)
            assert made(policy.file_buffer, situation(self.SMALL, buffers=buffers)).changes == {
                "SCR_FILE_BUF_SIZE": wanted
            }

    def test_all_buffers_of_a_node_take_at_most_5_percent_of_its_memory(self) -> None:
        now = situation({**self.SMALL, "SCR_FLUSH_TYPE": "PTHREAD"}, buffers=self.BUFFERS, memory=640 * MIB)
        size = made(policy.file_buffer, now).changes["SCR_FILE_BUF_SIZE"]
        assert size == 2 * MIB
        assert size * now.ranks_per_node * now.flush_threads <= 0.05 * 640 * MIB

    def test_a_buffer_is_never_made_smaller_nor_for_want_of_memory(self) -> None:
        assert policy.file_buffer(situation(CACHED, buffers=self.BUFFERS)) is None
        assert policy.file_buffer(situation(self.SMALL, buffers=self.BUFFERS, memory=MIB)) is None

    def test_a_flush_that_nobody_feels_gains_nothing(self) -> None:
        hidden = changed(blocked_on_flush_s=0.0)
        now = situation({**ASYNC, "SCR_FILE_BUF_SIZE": MIB // 4}, flush=hidden, buffers=self.BUFFERS)
        assert made(policy.file_buffer, now).expected_gain_s == 0
        assert "file buffer of the application's size" not in [each.rule for each in proposals(now)]

    def test_small_mpi_buffers_only_matter_where_something_is_encoded(self) -> None:
        small: Values = {**CACHED, "SCR_MPI_BUF_SIZE": 1024}
        assert made(policy.mpi_buffer, situation(small)).changes == {"SCR_MPI_BUF_SIZE": MIB}
        assert made(policy.mpi_buffer, situation(small)).expected_gain_s == 1.0, "no more than encoding takes"
        assert policy.mpi_buffer(situation(small, nodes=1)) is None
        assert policy.mpi_buffer(situation(CACHED)) is None


def test_required_first_then_by_expected_gain() -> None:
    gains = [each.expected_gain_s for each in proposals(situation(CACHED))]
    assert gains == sorted(gains, reverse=True)
    assert len(gains) >= 2


def test_a_gain_that_could_not_be_seen_is_not_proposed() -> None:
    tiny = changed(encode_s=0.04 * FLUSH.blocking_s)
    rules = [each.rule for each in proposals(situation(CACHED, floor="SINGLE", flush=tiny))]
    assert "no more redundancy than declared" not in rules


fractions = st.floats(0, 1000)
values = {
    "SCR_CACHE_BYPASS": st.integers(0, 1),
    "SCR_CACHE_SIZE": st.integers(-1, 9),
    "SCR_COPY_TYPE": st.sampled_from(["SINGLE", "PARTNER", "XOR", "RS", "FILE"]),
    "SCR_FILE_BUF_SIZE": st.integers(0, GIB),
    "SCR_FLUSH": st.integers(0, 20),
    "SCR_FLUSH_ASYNC": st.integers(0, 1),
    "SCR_FLUSH_TYPE": st.sampled_from(["SYNC", "PTHREAD"]),
    "SCR_MPI_BUF_SIZE": st.integers(0, 2 * MIB),
    "SCRTUNE_FLUSH_THREADS": st.integers(0, 16),
    "SCRTUNE_FLUSH_CPUS": st.sampled_from(["", "1-3"]),
}
situations = st.builds(
    situation,
    st.fixed_dictionaries({}, optional=values),
    flush=st.builds(
        FlushBehaviour,
        evidence=st.just(SEEN),
        checkpoint_bytes=st.integers(0, 10**13),
        files=st.integers(0, 10**4),
        flushed_share=st.floats(0, 1),
        slowdown_s=st.floats(-100, 1000),
        **dict.fromkeys(
            ("interval_s", "blocking_s", "write_s", "encode_s", "flush_s", "blocked_on_flush_s", "wait_s"),
            fractions,
        ),
    ),
    affinity=st.builds(
        CoreAffinity,
        evidence=st.just(SEEN),
        cpus=st.just(tuple(range(8))),
        bound=st.booleans(),
        unbound=st.sampled_from([(), (1, 2, 3), (5,)]),
        spare_cores=st.floats(0, 64),
    ),
    buffers=st.builds(BufferSizes, p90_bytes=st.integers(0, 10**10)),
    floor=st.sampled_from(["", "PROCESS", "NODE", "XOR", "RS", "nonsense"]),
    nodes=st.integers(1, 9),
    memory=st.integers(0, 10**12),
)


@given(situations)
def test_whatever_the_situation_proposals_are_valid_new_and_worth_it(now: Situation) -> None:
    cost_s = now.intents.flush.blocking_s + max(0.0, now.intents.flush.slowdown_s)
    for proposal in proposals(now):
        assert proposal.changes
        assert all(now.settings.get(name) != value for name, value in proposal.changes.items())
        assert not NEVER & proposal.changes.keys()
        assert not fatal(proposal.changes)
        assert not unfit_for_file(proposal.changes)
        assert proposal.changes.keys() <= DEFAULTS.keys(), "so that there is a value to go back to"
        assert proposal.because
        assert proposal.source
        assert proposal.intent in now.intents.named()
        if not proposal.required:
            assert 0 < proposal.expected_gain_s <= 2 * cost_s + 2 * now.intents.flush.write_s + 2000


@given(situations)
def test_what_a_rule_proposed_it_does_not_propose_once_it_is_in_force(now: Situation) -> None:
    for rule in RULES:
        if (proposal := rule(now)) is None or not proposal.beyond(now.settings).changes:
            continue
        settings = {**now.settings, **proposal.changes}
        redundancy = msgspec.structs.replace(
            now.intents.redundancy,
            scheme=str(settings["SCR_COPY_TYPE"]),
            effective=str(settings["SCR_COPY_TYPE"]) if now.intents.redundancy.nodes > 1 else "SINGLE",
        )
        intents = msgspec.structs.replace(now.intents, redundancy=redundancy)
        after = msgspec.structs.replace(now, settings=settings, intents=intents)
        again = rule(after)
        assert again is None or not again.beyond(settings).changes


def test_the_prior_of_a_cached_write_includes_the_copies() -> None:
    assert cached_write_prior_s(2 * GIB, "SINGLE", 1) == 1.0
    assert cached_write_prior_s(2 * GIB, "PARTNER", 4) == 3.0
    assert cached_write_prior_s(2 * GIB, "XOR", 5) == 2.25
