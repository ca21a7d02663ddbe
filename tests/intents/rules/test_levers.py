"""The levers: which joint settings a job may try, each effect once, all of them inside the rails."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.interval.failures import Failures
from scrtune.intents.events import NodeObserved, SettingsObserved, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.mutability import RunMutability
from scrtune.intents.observe.affinity import CoreAffinity
from scrtune.intents.observe.faults.fault_model import FaultModel
from scrtune.intents.observe.faults.fault_tolerance import FaultTolerance
from scrtune.intents.observe.faults.redundancy import SURVIVES
from scrtune.intents.observe.faults.redundancy import observe as observe_redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.buffers import BufferSizes
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.durability import permits
from scrtune.intents.rules.explain import describe, why_fixed
from scrtune.intents.rules.guards import NEVER, veto
from scrtune.intents.rules.levers import LEVERS, NAMES, domain, joint_settings
from scrtune.intents.rules.situation import MAX_FLUSH_THREADS, Situation
from scrtune.intents.settings import DEFAULTS, difference, is_asynchronous, is_cached
from scrtune.scr_config.catalogue import CATALOGUE
from scrtune.scr_config.constraints import fatal, unfit_for_file

MIB, GIB = 1024**2, 1024**3
SEEN = Evidence(count=5, window_s=60.0, source="test")
CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}
LEVER = {lever.name: lever for lever in LEVERS}
BOUND = CoreAffinity(
    evidence=SEEN,
    cpus=tuple(range(16)),
    bound=True,
    unbound=tuple(range(4, 16)),
    processes=4,
    used_cores=4.0,
    spare_cores=12.0,
)
FREE = msgspec.structs.replace(BOUND, bound=False, unbound=())


def situation(  # noqa: PLR0913 - everything a lever looks at
    user: Values | None = None,
    *,
    nodes: int = 4,
    files: int = 8,
    affinity: CoreAffinity = BOUND,
    buffers: BufferSizes | None = None,
    memory: int = 256 * GIB,
    is_virtual: bool = False,
    mutability: RunMutability | None = None,
    sources: dict[str, str] | None = None,
    **job: str | bool,
) -> Situation:
    """A job of 4 ranks on each node that checkpoints 1 GiB of a rank, of whose user `user` is explicit."""
    own = {**DEFAULTS, **(user or {})}
    given = {**dict.fromkeys(user or {}, "user config"), **(sources or {})}
    observed = SettingsObserved(settings=own, sources=given, ranks=4 * nodes, nodes=nodes, **job)
    flush = FlushBehaviour(
        evidence=SEEN,
        checkpoint_bytes=4 * nodes * GIB,
        files=4 * nodes * files,
        interval_s=60,
        flush_s=20,
    )
    return Situation(
        intents=Intents(
            affinity=affinity,
            buffers=buffers or BufferSizes(),
            redundancy=observe_redundancy(observed, own),
            flush=flush,
        ),
        own=own,
        settings=own,
        job=observed,
        node=NodeObserved(
            host="n",
            cpus=(),
            memory_available_bytes=memory,
            cache_free_bytes=memory,
            is_virtual=is_virtual,
        ),
        mutability=mutability or RunMutability(),
    )


def exposed(faults: FaultModel, exposure_s: float) -> Situation:
    """A job on 64 nodes whose checkpoints are for `exposure_s` only in the cache, under XOR."""
    now = situation({**CACHED, "SCR_COPY_TYPE": "XOR"}, nodes=64)
    tolerance = FaultTolerance(nodes=64, scheme="XOR", tolerated=1, exposure_s=exposure_s, faults=faults)
    return msgspec.structs.replace(now, intents=msgspec.structs.replace(now.intents, tolerance=tolerance))


def values(now: Situation, name: str) -> set[object]:
    return {each[name] for each in joint_settings(now)}


def test_the_users_own_settings_come_first() -> None:
    for user in ({}, CACHED, {**CACHED, "SCR_COPY_TYPE": "PARTNER", "SCR_FLUSH": 3}):
        now = situation(user)
        assert next(joint_settings(now)) == now.own


def test_what_pays_in_the_study_is_one_step_away_also_from_scrs_defaults() -> None:
    """Cache, asynchronous flush, idle CPUs and one thread at once; single steps there are worse than none."""
    best = {
        **DEFAULTS,
        **CACHED,
        "SCR_FLUSH_ASYNC": 1,
        "SCR_FLUSH_TYPE": "PTHREAD",
        "SCRTUNE_FLUSH_CPUS": "4-15",
        "SCRTUNE_FLUSH_THREADS": 1,
    }
    asked = [name for name in NAMES if name != "SCR_FILE_BUF_SIZE"]
    assert any(all(each[name] == best[name] for name in asked) for each in joint_settings(situation()))


def test_where_a_checkpoint_must_be_safe_before_the_next_there_is_one_place_in_the_cache() -> None:
    """SCR_Start_output waits for the flush before it, to have room: no estimate of ours is needed."""
    assert values(situation(), "SCR_CACHE_SIZE") == {1}
    assert values(situation(CACHED), "SCR_CACHE_SIZE") == {1, 2}


@pytest.mark.parametrize("user", [{}, {"SCR_CACHE_BYPASS": 1}, {"SCR_COPY_TYPE": "XOR"}])
def test_a_user_past_the_cache_may_cache_in_one_place_whatever_they_would_have(user: Values) -> None:
    """Their SCR_CACHE_SIZE had no effect so far, and the cache may have no room for as many datasets."""
    own = {**user, "SCR_CACHE_SIZE": 4}
    cached = [each for each in joint_settings(situation(own)) if is_cached(each)]
    for is_blocking in (False, True):
        places = {each["SCR_CACHE_SIZE"] for each in cached if is_asynchronous(each) is not is_blocking}
        assert 1 in places or not places
    assert cached


def test_under_bypass_there_is_nothing_else_to_change() -> None:
    bypassing = [each for each in joint_settings(situation(CACHED)) if not is_cached(each)]
    assert bypassing == [{**DEFAULTS, **CACHED, "SCR_CACHE_BYPASS": 1}]


def test_what_has_no_effect_under_a_setting_keeps_the_users_value() -> None:
    for each in joint_settings(situation(CACHED)):
        if each["SCR_FLUSH_TYPE"] == "SYNC":
            assert (each["SCR_FLUSH_ASYNC"], each["SCRTUNE_FLUSH_THREADS"]) == (0, 0)
        if each["SCR_COPY_TYPE"] == "SINGLE":
            assert each["SCR_MPI_BUF_SIZE"] == DEFAULTS["SCR_MPI_BUF_SIZE"]
        if not is_asynchronous(each):
            assert each["SCR_CACHE_SIZE"] == DEFAULTS["SCR_CACHE_SIZE"]


class TestDomains:
    def test_a_scheme_needs_sets_that_are_larger_than_what_it_survives(self) -> None:
        assert values(situation(CACHED, nodes=4), "SCR_COPY_TYPE") == {"SINGLE", "PARTNER", "XOR", "RS"}
        assert values(situation(CACHED, nodes=2), "SCR_COPY_TYPE") == {"SINGLE", "PARTNER", "XOR"}
        assert values(situation(CACHED, nodes=1), "SCR_COPY_TYPE") == {"SINGLE"}
        small = {**CACHED, "SCR_SET_SIZE": 2}
        assert "RS" not in values(situation(small, nodes=8), "SCR_COPY_TYPE")

    def test_no_scheme_that_survives_less_than_the_users(self) -> None:
        user = {**CACHED, "SCR_COPY_TYPE": "XOR"}
        assert values(situation(user), "SCR_COPY_TYPE") == {"PARTNER", "XOR", "RS"}
        cached = [each for each in joint_settings(situation({})) if is_cached(each)]
        assert {each["SCR_COPY_TYPE"] for each in cached} == {"SINGLE", "PARTNER", "XOR", "RS"}

    def test_flushes_may_be_as_rare_as_the_users_and_no_rarer(self) -> None:
        assert values(situation({**CACHED, "SCR_FLUSH": 4}), "SCR_FLUSH") == {1, 2, 4}
        assert values(situation({**CACHED, "SCR_FLUSH": 7}), "SCR_FLUSH") == {1, 2, 4, 7}
        cached = [each for each in joint_settings(situation({})) if is_cached(each)]
        assert {each["SCR_FLUSH"] for each in cached} == {1}

    def test_strict_durability_leaves_no_flush_beside_the_steps(self) -> None:
        for now in (situation({"SCR_CACHE_BYPASS": 1}), situation(CACHED, durability="strict")):
            assert not any(is_asynchronous(each) for each in joint_settings(now))
            assert any(is_cached(each) for each in joint_settings(now))

    @pytest.mark.parametrize(("files", "threads"), [(1, {1}), (3, {1, 2, 3}), (45, {1, 2, 3, 16})])
    def test_threads_are_no_more_than_files_and_axl_allows(self, files: int, threads: set[int]) -> None:
        found = domain(LEVER["SCRTUNE_FLUSH_THREADS"], situation(CACHED, files=files))
        assert found[0] == 0, "the user's own: AXL's number"
        assert set(found[1:]) == threads
        assert max(threads) <= MAX_FLUSH_THREADS

    def test_idle_cpus_are_a_lever_where_ranks_are_bound(self) -> None:
        assert domain(LEVER["SCRTUNE_FLUSH_CPUS"], situation(CACHED)) == ("", "4-15")
        assert domain(LEVER["SCRTUNE_FLUSH_CPUS"], situation(CACHED, affinity=FREE)) == ("",)
        full = msgspec.structs.replace(BOUND, unbound=())
        assert domain(LEVER["SCRTUNE_FLUSH_CPUS"], situation(CACHED, affinity=full)) == ("",)

    @pytest.mark.parametrize(
        ("spare", "values"),
        [(4.0, (0,)), (3.9, (0, 19)), (0.0, (0, 19))],
    )
    def test_flush_threads_may_yield_where_not_each_of_4_ranks_has_a_core_for_them(
        self, spare: float, values: tuple[int, ...]
    ) -> None:
        affinity = msgspec.structs.replace(FREE, spare_cores=spare)
        assert domain(LEVER["SCRTUNE_FLUSH_NICE"], situation(CACHED, affinity=affinity)) == values

    @pytest.mark.parametrize("spare", [4.0, 0.0])
    def test_whose_own_flush_threads_yield_can_have_the_ranks_priority_again(self, spare: float) -> None:
        affinity = msgspec.structs.replace(FREE, spare_cores=spare)
        own = {**CACHED, "SCRTUNE_FLUSH_NICE": 19}
        assert domain(LEVER["SCRTUNE_FLUSH_NICE"], situation(own, affinity=affinity)) == (19, 0)

    def test_they_yield_only_beside_the_computation_and_on_the_ranks_cores(self) -> None:
        affinity = msgspec.structs.replace(BOUND, spare_cores=0.5)
        nice = [
            each
            for each in joint_settings(situation(CACHED, affinity=affinity))
            if each["SCRTUNE_FLUSH_NICE"]
        ]
        assert nice
        assert all(is_asynchronous(each) and not each["SCRTUNE_FLUSH_CPUS"] for each in nice)

    @pytest.mark.parametrize(("is_virtual", "values"), [(True, (0, 1)), (False, (0,))])
    def test_pages_are_used_again_past_the_cache_of_a_virtual_machine(
        self, is_virtual: bool, values: tuple[int, ...]
    ) -> None:
        now = situation({"SCR_COPY_TYPE": "SINGLE"}, is_virtual=is_virtual)
        assert domain(LEVER["SCRTUNE_DROP_BEHIND"], now) == values
        dropping = [each for each in joint_settings(now) if each["SCRTUNE_DROP_BEHIND"]]
        assert {is_cached(each) for each in dropping} == ({False, True} if is_virtual else set())

    def test_buffers_of_all_threads_take_at_most_5_percent_of_the_memory(self) -> None:
        small = {**CACHED, "SCR_FILE_BUF_SIZE": 16 * 1024}
        for memory in (64 * MIB, 512 * MIB, 2 * GIB, 64 * GIB):
            now = situation(small, memory=memory)
            _, *others = domain(LEVER["SCR_FILE_BUF_SIZE"], now)
            assert all(4 * 8 * int(each) <= 0.05 * memory for each in others)
        assert len(domain(LEVER["SCR_FILE_BUF_SIZE"], now)) > 1

    @pytest.mark.parametrize(
        ("nodes", "own", "set_sizes"),
        [(8, 8, (8,)), (16, 8, (8, 16)), (17, 9, (9,)), (8, 3, (3, 8)), (3, 2, (2,)), (1, 2, (2,))],
    )
    def test_sets_are_as_large_as_intent_5_allows_where_that_makes_larger_ones(
        self, nodes: int, own: int, set_sizes: tuple[int, ...]
    ) -> None:
        now = situation({**CACHED, "SCR_COPY_TYPE": "XOR", "SCR_SET_SIZE": own}, nodes=nodes)
        assert domain(LEVER["SCR_SET_SIZE"], now) == set_sizes
        larger = [each for each in joint_settings(now) if each["SCR_SET_SIZE"] != own]
        assert {each["SCR_COPY_TYPE"] for each in larger} <= {"XOR", "RS"}

    def test_no_set_is_larger_where_nodes_are_lost_often(self) -> None:
        """While it is not known how long a checkpoint is only in the cache it is taken for an hour."""
        often = FaultModel(nodes=64, failures=Failures(observed_s=86_400.0, unknown=400, nodes=64))
        seldom = FaultModel(nodes=64)
        sizes = [
            domain(LEVER["SCR_SET_SIZE"], exposed(faults, exposure_s))
            for faults, exposure_s in ((often, 600.0), (seldom, 600.0), (seldom, 0.0), (often, 0.0))
        ]
        assert sizes == [(8,), (8, 64), (8, 32), (8,)]

    def test_messages_are_never_made_smaller(self) -> None:
        encoded = {**CACHED, "SCR_COPY_TYPE": "XOR"}
        assert values(situation({**encoded, "SCR_MPI_BUF_SIZE": 4096}), "SCR_MPI_BUF_SIZE") == {4096, MIB}
        assert values(situation({**encoded, "SCR_MPI_BUF_SIZE": 8 * MIB}), "SCR_MPI_BUF_SIZE") == {8 * MIB}

    def test_the_cache_holds_the_dataset_that_is_flushed_and_the_one_that_is_written(self) -> None:
        assert values(situation(CACHED), "SCR_CACHE_SIZE") == {1, 2}
        assert values(situation({**CACHED, "SCR_CACHE_SIZE": 5}), "SCR_CACHE_SIZE") == {2, 5}


class TestNotByUs:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("source", ["environment", "edited"])
    def test_a_lever_that_the_user_holds_keeps_its_value_and_says_why(self, name: str, source: str) -> None:
        now = situation({**CACHED, "SCR_COPY_TYPE": "XOR"}, sources={name: source})
        assert values(now, name) == {now.own[name]}
        assert name in why_fixed(LEVER[name], now)

    def test_with_override_what_the_environment_sets_may_change_and_an_edit_may_not(self) -> None:
        sources = {"SCR_FLUSH_ASYNC": "environment", "SCR_COPY_TYPE": "edited"}
        now = situation(CACHED, sources=sources, override=True)
        assert values(now, "SCR_FLUSH_ASYNC") == {0, 1}
        assert values(now, "SCR_COPY_TYPE") == {"SINGLE"}

    def test_one_that_scr_does_not_read_or_that_nothing_obeys_is_none(self) -> None:
        every = dict.fromkeys(NAMES, "live")
        words = {**every, "SCR_FILE_BUF_SIZE": "inert", "SCRTUNE_FLUSH_THREADS": "launch"}
        now = situation(CACHED, mutability=RunMutability(parameters=words))
        assert values(now, "SCR_FILE_BUF_SIZE") == {DEFAULTS["SCR_FILE_BUF_SIZE"]}
        assert values(now, "SCRTUNE_FLUSH_THREADS") == {0}
        assert values(now, "SCR_FLUSH_ASYNC") == {0, 1}


def test_every_lever_says_what_for_and_how_that_is_known() -> None:
    assert set(NAMES) <= DEFAULTS.keys()
    assert not NEVER & set(NAMES)
    for lever in LEVERS:
        assert lever.intent in Intents().named()
        assert lever.why
        assert lever.source


def test_a_change_is_named_after_what_it_moves() -> None:
    made = describe({"SCR_FLUSH_ASYNC": 0}, {"SCR_FLUSH_ASYNC": 1}, 1.5, "because")
    assert (made.rule, made.intent) == ("flush before the computation goes on", "flush")
    urgent = describe({"SCRTUNE_FLUSH_NICE": 0}, {"SCRTUNE_FLUSH_NICE": 19}, 1.5, "because")
    assert urgent.rule == "flush with the priority of the ranks"
    joint = describe({"SCR_CACHE_BYPASS": 0, "SCR_FLUSH_ASYNC": 1}, {}, 1.5, "because")
    assert joint.rule == "write to the cache, and flush from there, and 1 more"
    assert (
        describe({"SCR_CACHE_BYPASS": 1}, {}, 0, "").rule == "write to the prefix directory, past the cache"
    )


def test_a_change_back_to_what_the_user_has_is_named_so_and_names_no_other() -> None:
    back = describe({"SCR_MPI_BUF_SIZE": 2**14}, {"SCR_MPI_BUF_SIZE": 2**14}, 0.1, "because")
    assert back.rule == "your own SCR_MPI_BUF_SIZE"
    own = {"SCR_MPI_BUF_SIZE": 2**14, "SCR_CACHE_SIZE": 1}
    both = describe({"SCR_MPI_BUF_SIZE": 2**14, "SCR_CACHE_SIZE": 2}, own, 0.1, "because")
    assert both.rule == "room for the dataset being flushed and the one being written, and 1 more"


def test_a_source_of_several_levers_is_named_once() -> None:
    changes = {
        "SCR_FLUSH_ASYNC": 1,
        "SCR_CACHE_BYPASS": 0,
        "SCRTUNE_FLUSH_THREADS": 1,
        "SCR_FLUSH_TYPE": "PTHREAD",
    }
    named = describe(changes, {}, 0.1, "because").source.split("; ")
    assert len(named) == len(set(named)) > 1
    assert not [each for each in named for more in named if more.startswith(f"{each}:")], "said more exactly"


users: st.SearchStrategy[Values] = st.fixed_dictionaries(
    {},
    optional={
        "SCR_CACHE_BYPASS": st.sampled_from([0, 1]),
        "SCR_CACHE_SIZE": st.integers(1, 6),
        "SCR_COPY_TYPE": st.sampled_from(sorted(SURVIVES)),
        "SCR_FILE_BUF_SIZE": st.sampled_from([4096, MIB, 32 * MIB, 64 * MIB]),
        "SCR_FLUSH": st.integers(0, 12),
        "SCR_FLUSH_ASYNC": st.sampled_from([0, 1]),
        "SCR_FLUSH_TYPE": st.sampled_from(["SYNC", "PTHREAD"]),
        "SCR_MPI_BUF_SIZE": st.sampled_from([4096, MIB, 8 * MIB]),
        "SCR_SET_SIZE": st.integers(1, 9),
    },
)
words = st.sampled_from(["live", "live on rank 0", "re-init", "launch", "inert"])


@given(
    user=users,
    durability=st.sampled_from(["", "", "strict", "next"]),
    floor=st.sampled_from(["", "", "PROCESS", "NODE", "RS"]),
    nodes=st.integers(1, 9),
    files=st.sampled_from([1, 2, 45]),
    affinity=st.sampled_from([BOUND, FREE, CoreAffinity()]),
    mutability=st.just({}) | st.fixed_dictionaries(dict.fromkeys(DEFAULTS, words)),
    source=st.sampled_from(["user config", "environment", "edited", "default"]),
)
def test_nothing_that_is_yielded_is_outside_the_rails(  # noqa: PLR0913, PLR0917 - of a job
    user: Values,
    durability: str,
    floor: str,
    nodes: int,
    files: int,
    affinity: CoreAffinity,
    mutability: dict[str, str],
    source: str,
) -> None:
    now = situation(
        user,
        nodes=nodes,
        files=files,
        affinity=affinity,
        mutability=RunMutability(parameters=mutability, found={**DEFAULTS, **user}),
        sources=dict.fromkeys(user, source),
        durability=durability,
        floor=floor,
    )
    own, *others = joint_settings(now)
    assert own == now.own
    seen = {tuple(own[name] for name in NAMES)}
    for each in others:
        changes = difference(each, own)
        assert changes.keys() <= set(NAMES)
        assert permits(now.rails, each), changes
        reason = veto(changes, now)  # what is not known yet, and room in the cache, are looked at later
        assert reason is None or "one node" in reason or "fit" in reason, reason
        assert not NEVER & changes.keys()
        for name, value in changes.items():
            assert CATALOGUE[name].accepts(value), (name, value)
        assert not unfit_for_file(changes)
        assert len(fatal(each)) <= len(fatal(own))
        seen.add(tuple(each[name] for name in NAMES))
    assert len(seen) == len(others) + 1
    assert list(joint_settings(now)) == [own, *others], "in a fixed order"
