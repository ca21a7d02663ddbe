"""The belief: each checkpoint informs all candidates, spikes are not evidence, and replay is exact."""

import math
import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.intents.events import NodeObserved, SettingsObserved, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.affinity import CoreAffinity
from scrtune.intents.observe.faults.redundancy import observe as observe_redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.levers import NAMES, joint_settings
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS, flush_every, is_asynchronous, is_cached
from scrtune.intents.tune.belief.belief import CANDIDATES, Belief
from scrtune.intents.tune.belief.measured import Row, measure
from scrtune.intents.tune.belief.model import GIB, PRIORS, Prior
from scrtune.intents.tune.belief.observations import Observations, ObservedCheckpoint, identity
from scrtune.intents.tune.belief.rework import NODE_FAILURES_PER_S
from scrtune.intents.tune.belief.shape import Shape

OWN: Values = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}
ASYNC: Values = {**OWN, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCRTUNE_FLUSH_THREADS": 1}
SHAPE = Shape(
    nodes=4,
    ranks_per_node=4,
    rank_bytes=1.0 * GIB,
    files=4,
    between_s=20.0,
    cores=16,
    used_cores=1.0,
    mask_cores=16,
)


def situation(own: Values = OWN, durability: str = "") -> Situation:
    job = SettingsObserved(
        settings=own,
        sources=dict.fromkeys(own, "user config"),
        ranks=16,
        nodes=4,
        durability=durability,
    )
    seen = Evidence(count=5, source="test")
    return Situation(
        intents=Intents(
            affinity=CoreAffinity(
                evidence=seen, cpus=tuple(range(16)), processes=4, used_cores=4.0, spare_cores=12.0
            ),
            redundancy=observe_redundancy(job),
            flush=FlushBehaviour(
                evidence=seen, files=64, checkpoint_bytes=16 * GIB, flush_s=4.0, interval_s=25.0
            ),
        ),
        own=own,
        settings=own,
        job=job,
        node=NodeObserved(host="n", cpus=(), memory_available_bytes=256 * GIB, cache_free_bytes=256 * GIB),
    )


def belief(own: Values = OWN, **priors: Prior) -> Belief:
    return Belief([own, ASYNC, *joint_settings(situation(own))], SHAPE, {**PRIORS, **priors}, kept=2)


PRIOR = belief()


class Told:
    """Checkpoints as they are measured: 1 s of writing, a flush of 4 s that blocks or does not."""

    def __init__(self) -> None:
        self.seen = Observations()

    def add(  # noqa: PLR0913 - of a checkpoint
        self,
        under: Values,
        times: float = 1.0,
        *,
        flushed: bool = True,
        slowdown_s: float = 0.1,
        slowdown_error_s: float = 0.05,
        reference_error_s: float = 0.0,
        flush_s: float = 4.0,
        wait_s: float = 0.0,
        flush_cpu_s: float = 0.0,
        flush_delay_s: float = 0.0,
    ) -> "Told":
        is_beside = is_asynchronous(under)
        blocked_s = 0.0 if is_beside or not flushed else flush_s * times
        self.last = CheckpointCost(
            dataset=self.seen.count + 1,
            generation=0,
            time_s=25.0 * self.seen.count,
            bytes=16 * int(GIB),
            files=64,
            wait_s=wait_s,
            blocking_s=times + blocked_s + wait_s,
            write_s=times,
            blocked_on_flush_s=blocked_s,
            flush_s=flush_s * times if flushed else 0.0,
            flushed=flushed,
            between_s=max(0.0, 25.0 - times - blocked_s - wait_s),
            slowdown_s=slowdown_s if is_beside and flushed else 0.0,
            slowdown_error_s=slowdown_error_s,
            reference_error_s=reference_error_s,
            flush_cpu_s=flush_cpu_s,
            flush_delay_s=flush_delay_s,
        )
        self.seen.add(self.last, under, run=0)
        return self

    def many(self, under: Values, count: int, seed: int = 0, noise: float = 0.1) -> "Told":
        rng = random.Random(seed)
        for _ in range(count):
            self.add(under, math.exp(rng.gauss(0, noise)))
        return self

    @property
    def all(self) -> Sequence[ObservedCheckpoint]:
        return self.seen.all


def updated(told: Told, made: Belief | None = None) -> Belief:
    made = made or belief()
    made.update(told.all)
    return made


def totals(made: Belief, under: Values) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    index = made.index(under)
    assert index is not None
    return np.asarray(made.totals[index])


def p_cheaper(made: Belief, one: Values, other: Values) -> float:
    return float(np.mean(totals(made, one) < totals(made, other)))


def test_before_anything_was_measured_it_is_the_prior_of_the_candidates() -> None:
    made = belief()
    assert made.candidates[0] == OWN
    assert made.totals.shape[0] == len(made.candidates)
    assert np.all(np.isfinite(made.totals))
    assert np.all(made.totals > 0)
    assert len({identity(each) for each in made.candidates}) == len(made.candidates)


def test_what_was_measured_under_some_settings_is_believed_of_them() -> None:
    made = updated(Told().many(OWN, 12))
    assert np.median(totals(made, OWN)) == pytest.approx(5, rel=0.08)
    assert np.std(np.log(totals(made, OWN))) < 0.1
    parts = made.breakdown(0)
    assert parts.write_s == pytest.approx(1, rel=0.15)
    assert parts.flush_s == pytest.approx(4, rel=0.15)


def test_and_informs_the_others_as_far_as_the_parts_are_shared() -> None:
    before, made = belief(), updated(Told().many(OWN, 3))
    assert np.std(np.log(totals(made, ASYNC))) < 0.6 * np.std(np.log(totals(before, ASYNC)))
    index = made.index(ASYNC)
    assert index is not None
    assert made.breakdown(index).write_s == pytest.approx(1, rel=0.2)
    assert made.breakdown(index).flush_s == pytest.approx(4, rel=0.6)
    assert p_cheaper(made, ASYNC, OWN) > 0.9, "what blocks is not in it any more"


@pytest.mark.parametrize(("spike", "under"), [(20.0, ASYNC), (0.05, OWN)])
def test_one_spike_is_no_evidence(spike: float, under: Values) -> None:
    calm = Told().many(OWN, 4).many(ASYNC, 4)
    assert p_cheaper(updated(calm), ASYNC, OWN) > 0.95
    assert p_cheaper(updated(calm.add(under, spike)), ASYNC, OWN) > 0.8


def test_nor_is_one_hiccup_of_the_steps_beside_a_flush_but_two_are() -> None:
    once = Told().many(OWN, 3).add(ASYNC, slowdown_s=8.0)
    assert p_cheaper(updated(once), ASYNC, OWN) > 0.5
    twice = once.add(ASYNC, slowdown_s=8.0)
    assert p_cheaper(updated(twice), ASYNC, OWN) < 0.2
    often = Told().many(OWN, 3).add(ASYNC, slowdown_s=8.0).many(ASYNC, 4)
    assert p_cheaper(updated(often), ASYNC, OWN) > 0.9


def test_flushes_that_outlast_the_interval_queue_up_although_the_first_outputs_do_not_wait() -> None:
    roomy = {**ASYNC, "SCR_CACHE_SIZE": 2}
    told = Told().many(OWN, 2)
    for _ in range(3):
        told.add(roomy, flush_s=40.0)
    made = Belief([OWN, roomy], SHAPE, kept=2)
    made.update(told.seen.all)
    assert made.breakdown(1).cost_s > 40.0 - SHAPE.between_s - 6.0


def test_outputs_wait_as_long_as_the_last_ones_did() -> None:
    """By the models each waits 15 s. The interval may have grown since, or the flush is faster."""
    roomy = {**ASYNC, "SCR_CACHE_SIZE": 2}
    told = Told().many(OWN, 2)
    for wait_s in (0.0, 9.0, 0.2, 0.3, 0.2):
        told.add(roomy, flush_s=40.0, wait_s=wait_s)
    made = Belief([OWN, roomy], SHAPE, kept=2)
    made.update(told.seen.all)
    assert made.breakdown(1).cost_s < 4.0


def test_costs_that_last_are_believed_whatever_the_models_say() -> None:
    told = Told().many(OWN, 4)
    for _ in range(6):
        told.add(ASYNC, 9.0, flush_s=0.5)
    made = updated(told)
    assert p_cheaper(made, ASYNC, OWN) < 0.1
    assert np.median(totals(made, ASYNC)) == pytest.approx(9.1, rel=0.25)


def test_of_a_flush_cycle_each_checkpoint_counts() -> None:
    own = {**OWN, "SCR_FLUSH": 4}
    made = belief(own)
    for number in (1, 2, 3):
        made.update(Told().add(own, flushed=False).all * number)
    assert made.breakdown(0).write_s == pytest.approx(1, rel=0.3)
    told = Told()
    for number in range(1, 13):
        told.add(own, flushed=number % 4 == 0)
    made.update(told.all)
    assert np.median(totals(made, own)) == pytest.approx(1 + 4 / 4, rel=0.1)
    beyond_s = [made.beyond_mean_s(0, flushed=flushed) for flushed in (True, False, False, False)]
    assert beyond_s[0] == pytest.approx(3, rel=0.15)
    assert sum(beyond_s) == pytest.approx(0, abs=1e-6)
    assert belief().beyond_mean_s(0, flushed=True) == 0, "every checkpoint is flushed"


def test_the_same_checkpoints_make_the_same_belief_to_the_last_digit() -> None:
    told = Told().many(OWN, 5, noise=0.3).many(ASYNC, 5, noise=0.3)
    one, other = updated(told), updated(told)
    assert np.array_equal(one.totals, other.totals)
    assert one.learnt_rates() == other.learnt_rates()
    again = updated(told, updated(Told().many(OWN, 9, seed=7)))
    assert np.array_equal(one.totals, again.totals), "it follows from all of them, not from the way there"


def test_rounding_comes_before_comparing() -> None:
    made = updated(Told().many(OWN, 5))
    assert np.array_equal(made.totals, np.round(made.totals, 9))


def test_of_candidates_without_a_difference_one_is_kept_and_of_each_value_the_best() -> None:
    made = updated(Told().many(OWN, 3))
    everything = {(name, each[name]) for each in made.candidates for name in NAMES}
    before = {identity(each): np.median(totals(made, each)) for each in made.candidates}
    made.prune([])
    assert made.candidates[:2] == [OWN, ASYNC]
    assert {(name, each[name]) for each in made.candidates for name in NAMES} == everything
    assert len(made.candidates) <= CANDIDATES + 2 + len(everything)
    for each in made.candidates:
        assert np.median(totals(made, each)) == before[identity(each)]


def test_and_what_was_seen_however_dear_it_is() -> None:
    made = updated(Told().many(OWN, 3))
    most_expensive = made.candidates[int(np.argmax(np.median(made.totals, axis=1)))]
    made.prune([])
    assert made.index(most_expensive) is None
    made = updated(Told().many(OWN, 3))
    made.prune([identity(most_expensive)])
    assert made.index(most_expensive) is not None


def test_what_a_failure_would_destroy_is_part_of_the_cost() -> None:
    rare, often = {**OWN, "SCR_FLUSH": 10}, Shape(**{**msgspec.structs.asdict(SHAPE), "nodes": 10_000})
    few = Belief([OWN, rare], SHAPE, kept=2)
    many = Belief([OWN, rare], often, kept=2)
    assert np.median(totals(few, rare)) < np.median(totals(few, OWN))
    dearer_s = NODE_FAILURES_PER_S * (10_000 - SHAPE.nodes) * 20 * 4.5 * 20
    destroyed_s = [np.median(totals(each, rare)) - each.felt_s(each.index(rare) or 0) for each in (few, many)]
    assert destroyed_s[1] == pytest.approx(destroyed_s[0] + dearer_s)


def test_it_is_no_part_of_what_a_checkpoint_is_charged() -> None:
    """It has not passed: what a change saves of it pays for no trial."""
    often = Shape(**{**msgspec.structs.asdict(SHAPE), "nodes": 1000, "between_s": 600.0})
    made = Belief([{**OWN, "SCR_FLUSH": 10}], often)
    took_s = float(made.felt[0].mean())
    seen_s = took_s + made.beyond_mean_s(0, flushed=True)
    seen = CheckpointCost(dataset=1, generation=0, time_s=0.0, blocking_s=seen_s, flushed=True)
    assert made.rework_s(0) == pytest.approx(1000 * NODE_FAILURES_PER_S * 600 * 4.5 * 600)
    assert made.charged_s(0, seen) == pytest.approx(took_s)
    assert made.totals[0].mean() == pytest.approx(took_s + made.rework_s(0))
    assert f"expected rework {made.rework_s(0):.3f}" in made.breakdown(0).text


def test_ranks_that_wait_let_a_flush_at_nice_19_have_their_cores() -> None:
    """What is left of it when the next output begins passes at the rate of an idle node."""
    few = {"cores": 4, "mask_cores": 4, "used_cores": 1.0, "between_s": 1e4}
    busy = Shape(**{**msgspec.structs.asdict(SHAPE), **few})
    own = {**OWN, "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1}
    fast = PRIORS | dict.fromkeys(("prefix_bytes_per_s", "shared_bytes_per_s"), Prior(1e15, 0.1))
    waits_s, lasts_s = [], []
    for nice in (0, 19):
        made = Belief([{**own, "SCRTUNE_FLUSH_NICE": nice}], busy, fast)
        lasts_s.append(float(made.flush_s[0]))
        waits_s.append(made.rest_s(0, 0.5 * lasts_s[-1]) / lasts_s[-1])
    assert waits_s[0] == pytest.approx(0.5)
    assert lasts_s[1] > 1.5 * lasts_s[0]
    assert waits_s[1] < 0.4


def test_what_its_threads_took_of_cores_tells_whether_a_flush_at_nice_19_waits_for_storage() -> None:
    """A flush of 8 s by threads that have no idle core: at nice 0 twice or nearly three times as fast."""
    shape = Shape(**{**msgspec.structs.asdict(SHAPE), "cores": 4, "mask_cores": 1})
    own = {**ASYNC, "SCRTUNE_FLUSH_NICE": 19}
    share = {}
    for known, took in {
        "nothing": {},
        "storage": {"flush_cpu_s": 0.1},
        "cores": {"flush_cpu_s": 0.5, "flush_delay_s": 7.0},
    }.items():
        told = Told()
        for _ in range(3):
            told.add(own, flush_s=8.0, **took)
        made = updated(told, Belief([own, ASYNC], shape, kept=2))
        share[known] = made.flush_s[1] / made.flush_s[0]
    assert share["storage"] > 1.2 * max(share["cores"], share["nothing"])


def test_waits_of_a_few_checkpoints_are_not_surer_than_the_others_without() -> None:
    """Where flushes nearly fill the interval, a wait scatters whatever the settings."""
    told = Told()
    for wait_s in (0.1, 0.3, 0.0, 0.6, 0.2, 0.4, 14.0, 0.3, 12.0, 0.5):
        told.add(ASYNC, wait_s=wait_s, flush_s=20.0)
    found = measure({0: told.all}, SHAPE.between_s, np.ones(1), np.zeros(1))
    (flushed,) = (
        value for seen, value in zip(found.rows, found.values, strict=True) if seen.row is Row.FLUSHED
    )
    assert 1.0 <= math.exp(flushed) <= 3.0, "most of them blocked 1.0 to 1.6 s"


def test_a_machine_that_changed_is_doubted_but_most_what_depends_on_the_prefix_directory() -> None:
    made = updated(Told().many(OWN, 10))
    past = {**OWN, "SCR_CACHE_BYPASS": 1}
    before = {name: np.std(np.log(totals(made, each))) for name, each in (("own", OWN), ("past", past))}
    made.shift({"prefix": 0.8, "cache": 0.3})
    assert np.std(np.log(totals(made, OWN))) > 3 * before["own"]
    assert np.std(np.log(totals(made, past))) > before["past"]
    worse = Told()
    for _ in range(4):
        worse.add(OWN, flush_s=12.0)
    made.update(worse.all)
    assert np.median(totals(made, OWN)) == pytest.approx(13, rel=0.15)


def test_a_measured_rate_narrows_what_is_learnt_of_it() -> None:
    told = Told().many(OWN, 6)
    wide, narrow = updated(told), updated(told, belief(cache_bytes_per_s=Prior(4.0 * GIB, 0.1)))
    name = "cache_bytes_per_s"
    assert narrow.learnt_rates()[name][1] < wide.learnt_rates()[name][1] < PRIORS[name].spread


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.booleans(),
            st.floats(0, 1e4),
            st.floats(-1e3, 1e3),
            st.floats(0, 1e4),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_whatever_was_measured_costs_are_finite_and_positive(
    measured: list[tuple[bool, bool, float, float, float]],
) -> None:
    told, made = Told(), PRIOR
    for is_beside, flushed, times, slowdown_s, flush_s in measured:
        under = ASYNC if is_beside else OWN
        told.add(under, times, flushed=flushed, slowdown_s=slowdown_s, flush_s=flush_s)
    made.update(told.all)
    assert np.all(np.isfinite(made.totals))
    assert np.all(made.totals > 0)
    assert all(math.isfinite(value) for pair in made.learnt_rates().values() for value in pair)
    assert all(is_cached(each) or flush_every(each) == 1 for each in made.candidates)


def test_what_is_far_off_all_that_was_expected_is_believed_of_its_settings() -> None:
    """Nobody expects it, and the next time it is the same: what else is there to believe?"""
    told = Told()
    told.add(OWN, flush_s=499.0)
    assert np.median(totals(updated(told), OWN)) == pytest.approx(500.0, rel=0.25)


def test_a_slowdown_seen_twice_is_believed_with_its_error() -> None:
    """Where models expect none, two of 3 s with an error of 1.5 s each are some, and not surely how much."""
    told = Told()
    for _ in range(2):
        told.add(ASYNC, slowdown_s=3.0, slowdown_error_s=1.5)
    found_s = totals(updated(told), ASYNC)
    assert 2.0 < np.mean(found_s) < 4.0
    assert np.std(found_s) > 0.75


@pytest.mark.parametrize(("less_s", "least", "most"), [(0.2, 0.7, 1.0), (-0.2, 0.0, 0.35)])
def test_slowdowns_that_share_a_wrong_reference_still_tell_settings_apart(
    less_s: float, least: float, most: float
) -> None:
    """Where every step is beside a flush nobody knows what one takes without, but which is shorter."""
    told, nice = Told(), {**ASYNC, "SCRTUNE_FLUSH_NICE": 19}
    for _ in range(4):
        for under, slowdown_s in ((ASYNC, -2.0), (nice, -2.0 - less_s)):
            told.add(under, slowdown_s=slowdown_s, slowdown_error_s=0.05, reference_error_s=4.0)
    made = Belief([ASYNC, nice], replace(SHAPE, used_cores=4.0), kept=2)
    made.update(told.all)
    assert least <= np.mean(totals(made, nice) < totals(made, ASYNC)) <= most


def test_of_settings_with_one_effect_those_with_the_smallest_cache_are_candidates_past_the_cache() -> None:
    """Places that no flush needs take room in the cache, which may not be there."""
    own: Values = {**OWN, "SCR_CACHE_BYPASS": 1, "SCR_CACHE_SIZE": 3}
    inside: list[Values] = [{**ASYNC, "SCR_CACHE_SIZE": size} for size in (3, 1)]
    calm = replace(SHAPE, between_s=1e6)  # in which every flush ends
    assert Belief([own, *inside], calm).candidates == [own, inside[1]]
    assert Belief([OWN, *inside], calm).candidates == [OWN, inside[0]], "who caches need not change that"
