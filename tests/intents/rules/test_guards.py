"""Guard rails: what is never tried, whatever it would save."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import NodeObserved, SettingsObserved, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.mutability import RunMutability
from scrtune.intents.observe.faults.redundancy import SURVIVES, effective
from scrtune.intents.observe.faults.redundancy import observe as observe_redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.guards import NEVER, outgrown, veto
from scrtune.intents.rules.situation import Held, Situation
from scrtune.intents.settings import DEFAULTS

GIB = 1024**3
PLENTY = NodeObserved(host="n", cpus=(), cache_free_bytes=1000 * GIB)
CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_CACHE_SIZE": 2}


def situation(
    settings: Values | None = None,
    *,
    sources: dict[str, str] | None = None,
    node: NodeObserved | None = None,
    count: int = 10,
    **job: int | str | bool,
) -> Situation:
    """A job of 8 ranks on 4 nodes whose user gave `settings` explicitly, unless `sources` say otherwise."""
    every = {**DEFAULTS, **(settings or {})}
    if sources is None:
        sources = dict.fromkeys(settings or {}, "user config")
    observed = SettingsObserved(settings=every, sources=sources, **{"ranks": 8, "nodes": 4, **job})
    return Situation(
        intents=Intents(
            redundancy=observe_redundancy(observed, every),
            flush=FlushBehaviour(
                evidence=Evidence(count=count), checkpoint_bytes=40 * GIB, largest_bytes=40 * GIB
            ),
        ),
        own=every,
        settings=every,
        held=None
        if every["SCR_CACHE_BYPASS"]
        else Held(count, every, (node or PLENTY).cache_free_bytes, 40 * GIB),
        job=observed,
        node=node or PLENTY,
    )


def free(gib: float, memory: float = 0) -> NodeObserved:
    return NodeObserved(
        host="n", cpus=(), cache_free_bytes=int(gib * GIB), memory_available_bytes=int(memory * GIB)
    )


def change(**changes: int | str) -> Values:
    return dict(changes)


def test_files_that_would_meet_in_the_cache_stay_out_of_it() -> None:
    meet = msgspec.structs.replace(situation(), why_no_cache="they would meet")
    to_the_cache = change(SCR_CACHE_BYPASS=0, SCR_FLUSH=1)
    assert veto(to_the_cache, meet) == "they would meet"
    assert veto(to_the_cache, situation()) is None
    assert veto(change(SCR_FLUSH=1), meet) is None
    cached = msgspec.structs.replace(situation(CACHED), why_no_cache="they would meet")
    assert veto(change(SCR_CACHE_BYPASS=0, SCR_FLUSH=1), cached) is None, "the user's own choice"


@pytest.mark.parametrize("name", sorted(NEVER))
def test_deleting_and_moving_data_is_the_users_decision(name: str) -> None:
    reason = veto(change(**{name: 1, "SCR_FLUSH": 1}), situation())
    assert reason is not None
    assert name in reason
    assert "only the user" in reason


def test_what_the_environment_sets_is_not_changed() -> None:
    now = situation(sources={"SCR_FLUSH": "environment", "SCR_FLUSH_ASYNC": "user config"})
    reason = veto(change(SCR_FLUSH=1, SCR_FLUSH_ASYNC=1), now)
    assert reason is not None
    assert "SCR_FLUSH: your environment sets it" in reason
    assert "--override" in reason
    assert veto(change(SCR_FLUSH_ASYNC=1), now) is None
    assert veto(change(SCR_FLUSH=DEFAULTS["SCR_FLUSH"]), now) is None, "no change, no veto"


def test_the_user_may_allow_it() -> None:
    assert veto(change(SCR_FLUSH=1), situation(sources={"SCR_FLUSH": "environment"}, override=True)) is None


def test_a_cache_that_is_not_the_users_alone_is_used_under_no_option() -> None:
    now = situation({"SCR_CACHE_BYPASS": 1}, sources={"SCR_CACHE_BYPASS": "unsafe cache"}, override=True)
    assert veto(change(SCR_CACHE_BYPASS=0), now) == (
        "SCR_CACHE_BYPASS: the cache directory is not yours alone, so that nothing is cached"
    )
    assert now.rails.because == "the cache directory is not yours alone"


class TestDurability:
    def test_never_below_what_was_declared(self) -> None:
        now = situation(CACHED, floor="NODE")
        reason = veto(change(SCR_COPY_TYPE="SINGLE"), now)
        assert reason is not None
        assert "less durable than what is asked for (the declared redundancy floor PARTNER" in reason
        assert veto(change(SCR_COPY_TYPE="PARTNER"), now) is None

    def test_nor_below_the_users_own_scheme(self) -> None:
        reason = veto(change(SCR_COPY_TYPE="SINGLE"), situation(CACHED))
        assert reason is not None
        assert "your SCR_COPY_TYPE XOR" in reason

    def test_nor_flushed_less_often(self) -> None:
        now = situation({**CACHED, "SCR_FLUSH": 3})
        assert veto(change(SCR_FLUSH=4), now) is not None
        assert veto(change(SCR_FLUSH=2), now) is None

    def test_who_bypasses_the_cache_explicitly_waits_for_the_prefix_directory(self) -> None:
        now = situation({"SCR_CACHE_BYPASS": 1})
        cached = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1}
        assert veto(cached, now) is None
        assert veto({**cached, "SCR_FLUSH": 2}, now) is not None
        assert veto({**cached, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}, now) is not None

    def test_moving_into_the_cache_counts_with_the_scheme_in_force(self) -> None:
        now = situation({"SCR_COPY_TYPE": "SINGLE"}, floor="NODE")
        assert veto(change(SCR_CACHE_BYPASS=0), now) is not None
        assert veto(change(SCR_CACHE_BYPASS=0, SCR_COPY_TYPE="PARTNER"), now) is None

    def test_on_one_node_no_cache_survives_the_nodes_loss(self) -> None:
        into_the_cache = change(SCR_CACHE_BYPASS=0, SCR_COPY_TYPE="PARTNER")
        reason = veto(into_the_cache, situation(nodes=1, floor="NODE"))
        assert reason is not None
        assert "on one node" in reason
        assert veto(into_the_cache, situation(nodes=1, floor="PROCESS")) is None

    def test_a_job_that_caches_on_one_node_keeps_what_it_has(self) -> None:
        assert veto(change(SCR_FLUSH_ASYNC=1), situation(CACHED, nodes=1, floor="NODE")) is None

    def test_and_may_come_back_to_it_from_the_prefix_directory(self) -> None:
        past = msgspec.structs.replace(
            situation(CACHED, nodes=1, floor="NODE"), settings={**DEFAULTS, "SCR_CACHE_BYPASS": 1}
        )
        assert veto(change(SCR_CACHE_BYPASS=0, SCR_FLUSH=1, SCR_CACHE_SIZE=2), past) is None

    @given(
        st.sampled_from(sorted(SURVIVES)),
        st.sampled_from(["", "PROCESS", "NODE", *SURVIVES]),
        st.sampled_from(sorted(SURVIVES)),
        st.integers(1, 5),
        st.integers(0, 1),
    )
    def test_whatever_passes_survives_what_was_asked_for(
        self, own: str, floor: str, wanted: str, nodes: int, bypass: int
    ) -> None:
        now = situation({"SCR_CACHE_BYPASS": bypass, "SCR_COPY_TYPE": own}, floor=floor, nodes=nodes)
        if veto(change(SCR_CACHE_BYPASS=0, SCR_COPY_TYPE=wanted, SCR_FLUSH=1), now) is not None:
            return
        if now.rails.durability is None:
            assert SURVIVES[wanted] >= SURVIVES[now.rails.floor]
            if bypass:
                assert SURVIVES[effective(wanted, nodes)] >= SURVIVES[now.rails.floor]


def test_files_that_are_written_again_stay_in_the_cache() -> None:
    again = msgspec.structs.replace(situation(CACHED), why_no_bypass="its only good copy is there")
    assert veto(change(SCR_CACHE_BYPASS=1), again) == "its only good copy is there"
    assert veto(change(SCR_FLUSH=1), again) is None
    assert veto(change(SCR_CACHE_BYPASS=1), situation(CACHED)) is None


def test_what_this_scr_does_not_read_and_what_nothing_obeys_is_not_changed() -> None:
    words = {"SCR_FLUSH_WIDTH": "inert", "SCRTUNE_FLUSH_THREADS": "launch"}
    now = msgspec.structs.replace(situation(CACHED), mutability=RunMutability(parameters=words))
    assert veto(change(SCR_FLUSH_WIDTH=1), now) == "SCR_FLUSH_WIDTH: this SCR does not read it"
    reason = veto(change(SCRTUNE_FLUSH_THREADS=1), now)
    assert reason is not None
    assert "nothing in this job applies it" in reason


def test_what_the_user_edited_is_theirs_also_where_they_allow_the_rest() -> None:
    now = situation(CACHED, sources={"SCR_FLUSH": "edited"}, override=True)
    reason = veto(change(SCR_FLUSH=1), now)
    assert reason is not None
    assert "you gave it in the config file" in reason


class TestCapacity:
    """A checkpoint is 40 GiB on 4 nodes: 10 GiB a node, times the storage factor."""

    @pytest.mark.parametrize(("scheme", "factor"), [("SINGLE", 1), ("PARTNER", 2), ("XOR", 4 / 3), ("RS", 2)])
    def test_one_more_dataset_must_fit_into_80_percent_of_what_is_free(
        self, scheme: str, factor: float
    ) -> None:
        needed = 10 * factor / 0.8
        for gib, fits in ((needed * 1.001, True), (needed * 0.999, False)):
            now = situation({**CACHED, "SCR_COPY_TYPE": scheme}, node=free(gib))
            assert (veto(change(SCR_CACHE_SIZE=3), now) is None) is fits

    def test_what_is_not_there_yet_needs_room_too(self) -> None:
        assert veto(change(SCR_CACHE_SIZE=3), situation(CACHED, count=0, node=free(30))) is not None
        assert veto(change(SCR_CACHE_SIZE=3), situation(CACHED, count=9, node=free(30))) is None

    def test_moving_into_the_cache_needs_room_for_all_of_it(self) -> None:
        moved = change(SCR_CACHE_BYPASS=0, SCR_CACHE_SIZE=2, SCR_FLUSH=1)
        assert veto(moved, situation(node=free(2 * 13.34 / 0.8))) is None
        reason = veto(moved, situation(node=free(2 * 13.33 / 0.8)))
        assert reason is not None
        assert "do not fit into 80%" in reason

    def test_a_dearer_scheme_needs_room_for_what_is_held_already(self) -> None:
        single = {**CACHED, "SCR_COPY_TYPE": "SINGLE"}
        assert veto(change(SCR_COPY_TYPE="PARTNER"), situation(single, node=free(20))) is not None
        assert veto(change(SCR_COPY_TYPE="PARTNER"), situation(single, node=free(26))) is None

    def test_what_is_held_with_a_dearer_scheme_stays_beside_the_first_datasets_of_a_cheaper_one(self) -> None:
        """One of 20 GiB, two of 13.3 instead: the first of them is there before that one is given up."""
        partner = {**CACHED, "SCR_COPY_TYPE": "PARTNER", "SCR_CACHE_SIZE": 1}
        cheaper = change(SCR_COPY_TYPE="XOR", SCR_CACHE_SIZE=2)
        assert veto(cheaper, situation(partner, node=free(16.6))) is not None
        assert veto(cheaper, situation(partner, node=free(16.7))) is None
        assert veto(change(SCR_COPY_TYPE="XOR"), situation(partner, node=free(1))) is None

    def test_what_an_output_past_the_cache_evicted_is_not_room_and_held_as_well(self) -> None:
        """Back in the cache, whose node was looked at while nothing was in it: 20 GiB beside two of 10."""
        single = {**CACHED, "SCR_COPY_TYPE": "SINGLE"}
        back = msgspec.structs.replace(situation(single, node=free(20)), node=free(40))
        assert veto(change(SCR_CACHE_SIZE=4), back) is not None
        assert veto(change(SCR_CACHE_SIZE=3), back) is None

    @pytest.mark.parametrize(("free_gib", "fits"), [(3.0, False), (9.0, False), (17.0, True), (40.0, True)])
    def test_the_way_back_needs_room_for_what_is_more_than_was_held(
        self, free_gib: float, fits: bool
    ) -> None:
        """The datasets of before may still be there, or evicted: 26.7 GiB of two, with 17 GiB beside them."""
        inside = situation(CACHED, node=free(17))
        outside = {**inside.settings, "SCR_CACHE_BYPASS": 1}
        past = msgspec.structs.replace(inside, settings=outside, node=free(free_gib))
        assert veto(change(SCR_CACHE_BYPASS=0), past) is None, "it was there before"
        assert (veto(change(SCR_CACHE_BYPASS=0, SCR_CACHE_SIZE=3), past) is None) is fits

    @pytest.mark.parametrize(("room_gib", "fits"), [(24, False), (26, True)])
    def test_a_second_dataset_needs_the_same_room_before_the_move_into_the_cache_and_after_it(
        self, room_gib: float, fits: bool
    ) -> None:
        """10 GiB of each on this node."""
        single: Values = {"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_SIZE": 1, "SCR_FLUSH": 1}
        past = situation({"SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 1}, node=free(room_gib))
        assert (veto(change(SCR_CACHE_BYPASS=0, SCR_CACHE_SIZE=2), past) is None) is fits
        one_inside = situation({**CACHED, **single}, node=free(room_gib - 10))
        moved = msgspec.structs.replace(one_inside, own=past.own)
        assert (veto(change(SCR_CACHE_SIZE=2), moved) is None) is fits

    @pytest.mark.parametrize(("gib", "fits"), [(40, True), (119, True), (121, False)])
    def test_grown_checkpoints_must_fit_where_only_scrtune_put_them(self, gib: int, fits: bool) -> None:
        """Two datasets of SINGLE, 10 GiB of each on this node, with 40 GiB free beside them."""
        chosen = situation({**CACHED, "SCR_COPY_TYPE": "SINGLE"}, node=free(40))
        flush = msgspec.structs.replace(chosen.intents.flush, checkpoint_bytes=gib * GIB)
        grown = msgspec.structs.replace(chosen, intents=msgspec.structs.replace(chosen.intents, flush=flush))
        assert not outgrown(grown), "the user's own settings are theirs"
        tuned = msgspec.structs.replace(grown, own={**chosen.own, "SCR_CACHE_BYPASS": 1})
        assert (not outgrown(tuned)) is fits

    def test_the_largest_checkpoint_so_far_must_fit_not_the_last_one(self) -> None:
        now = situation(CACHED, node=free(20))
        assert veto(change(SCR_CACHE_SIZE=3), now) is None
        flush = msgspec.structs.replace(now.intents.flush, largest_bytes=80 * GIB)
        after_a_larger_one = msgspec.structs.replace(
            now, intents=msgspec.structs.replace(now.intents, flush=flush)
        )
        assert veto(change(SCR_CACHE_SIZE=3), after_a_larger_one) is not None

    @pytest.mark.parametrize(("members", "factor"), [(2, 2), (4, 4 / 3), (8, 4 / 3)])
    def test_parity_takes_the_more_room_the_smaller_the_sets_are(self, members: int, factor: float) -> None:
        """One more dataset, and what two have more than in the user's own sets of four nodes."""
        needed = 10 * (3 * factor - 2 * 4 / 3) / 0.8
        for gib, fits in ((needed * 1.001, True), (needed * 0.999, False)):
            now = situation({**CACHED, "SCR_COPY_TYPE": "XOR"}, node=free(gib))
            assert (veto(change(SCR_CACHE_SIZE=3, SCR_SET_SIZE=members), now) is None) is fits

    def test_less_always_fits(self) -> None:
        now = situation(
            {**CACHED, "SCR_CACHE_SIZE": 9, "SCR_COPY_TYPE": "PARTNER"}, floor="SINGLE", node=free(0)
        )
        assert veto(change(SCR_COPY_TYPE="SINGLE"), now) is None
        assert veto(change(SCR_CACHE_SIZE=2), now) is None

    def test_a_cache_in_memory_has_at_most_what_the_node_has(self) -> None:
        now = situation(CACHED, cache="/dev/shm/scr", node=free(1000, memory=15))  # noqa: S108
        assert veto(change(SCR_CACHE_SIZE=3), now) is not None
        assert (
            veto(change(SCR_CACHE_SIZE=3), situation(CACHED, cache="/ssd", node=free(1000, memory=15)))
            is None
        )

    def test_what_is_not_known_is_not_tried_but_may_be_recommended(self) -> None:
        reason = veto(change(SCR_CACHE_SIZE=3), situation(CACHED, node=free(0)))
        assert reason == "the free space of the cache is not known"
        assert veto(change(SCR_CACHE_SIZE=3), situation(CACHED, node=free(0), tuning=False)) is None

    def test_what_does_not_touch_the_cache_needs_no_room(self) -> None:
        assert (
            veto(change(SCR_FLUSH_ASYNC=1, SCRTUNE_FLUSH_THREADS=4), situation(CACHED, node=free(0))) is None
        )
