"""The checkpoint interval that failures make worth it: when it is chosen, and within which bounds."""

from math import ceil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.interval.failure_rate import posterior, typical
from scrtune.goodput.interval.failures import Failures
from scrtune.goodput.interval.model import daly
from scrtune.intents.events import Durability, SettingsObserved, Value, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.mutability import RunMutability
from scrtune.intents.observe.faults.redundancy import observe as observe_redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.derived.interval import IntervalFinding, in_force, interval, users_own
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS

UNSET: Values = {"SCR_CHECKPOINT_SECONDS": 0, "SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_OVERHEAD": 0.0}
OWN: Values = {**DEFAULTS, **UNSET, "SCR_CHECKPOINT_INTERVAL": 2}
ASYNC: Values = {
    "SCR_CACHE_BYPASS": 0,
    "SCR_COPY_TYPE": "SINGLE",
    "SCR_FLUSH": 1,
    "SCR_FLUSH_ASYNC": 1,
    "SCR_FLUSH_TYPE": "PTHREAD",
    "SCR_CACHE_SIZE": 2,
}
NODES = 64
T0 = 1_700_000_000.0
NONE = Failures()


def situation(
    settings: Values | None = None,
    *,
    flush: FlushBehaviour | None = None,
    obeyed: int = 3,
    count: int = 3,
    age_s: float = 1e6,
    **job: float | str | bool | dict[str, str],
) -> Situation:
    """A job on 64 nodes that took 3 checkpoints, one in 20 s, when SCR_Need_checkpoint said so."""
    own = {**OWN, **(settings or {})}
    described = {"interval": "auto", "nodes": NODES, "ranks": NODES, **job}
    observed = SettingsObserved(settings=own, **described)
    flush = flush or FlushBehaviour(interval_s=21.0, blocking_s=1.0)
    return Situation(
        intents=Intents(
            redundancy=observe_redundancy(observed, own),
            flush=msgspec.structs.replace(flush, evidence=Evidence(count=count, end_s=T0 + age_s)),
        ),
        own=own,
        settings=own,
        job=observed,
        start_s=T0,
        obeyed=obeyed,
        mutability=RunMutability(parameters=observed.mutability, found=own),
    )


def found(now: Situation, cost_s: float = 1.0, failures: Failures = NONE) -> IntervalFinding:
    return interval(msgspec.structs.replace(now, felt_s=cost_s, failures=failures))


def chosen(now: Situation, cost_s: float = 1.0, failures: Failures = NONE) -> Values:
    proposal = found(now, cost_s, failures).proposal
    return proposal.changes if proposal else {}


def seconds(now: Situation, cost_s: float = 1.0, failures: Failures = NONE) -> Value | None:
    return found(now, cost_s, failures).view.other


def mtbf_s(failures: Failures = NONE) -> float:
    return posterior(failures, typical(NODES)).mtbf_s


def test_it_is_dalys_for_the_mean_rate_in_whole_seconds_and_nothing_else_rules() -> None:
    expected = ceil(daly(1.0, mtbf_s()))
    assert 500 < expected < 600
    now = situation()
    assert chosen(now) == {"SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": expected}
    by_overhead = situation({"SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_OVERHEAD": 5.0})
    assert chosen(by_overhead) == {"SCR_CHECKPOINT_OVERHEAD": 0.0, "SCR_CHECKPOINT_SECONDS": expected}


def test_it_says_what_it_rests_on_and_what_it_gains() -> None:
    seen = found(situation())
    assert seen.proposal is not None
    assert "Daly" in seen.proposal.source
    assert "a checkpoint takes 1.000 s, a failure destroys an interval every" in seen.proposal.because
    assert "instead of every 20.00 s saves" in seen.proposal.because
    per_interval = float(str(seen.view.other)) / 21
    assert seen.proposal.expected_gain_s == seen.view.gain_s == pytest.approx(per_interval, rel=0.15)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (situation(interval=""), "--interval auto"),
        (situation(interval="own"), "--interval auto"),
        (situation(obeyed=2), "SCR_Need_checkpoint"),
        (situation(count=2), "not settled"),
        (situation(flush=FlushBehaviour(interval_s=1.0, blocking_s=1.0)), "not settled"),
        (situation(sources={"SCR_CHECKPOINT_INTERVAL": "environment"}), "your environment sets it"),
        (situation(sources={"SCR_CHECKPOINT_SECONDS": "environment"}), "your environment sets it"),
        (situation(sources={"SCR_CHECKPOINT_SECONDS": "edited"}), "you gave it"),
        (situation(mutability={"SCR_CHECKPOINT_SECONDS": "live"}), "only a launch can change it"),
    ],
)
def test_it_stays_and_says_why(now: Situation, why: str) -> None:
    seen = found(now)
    assert seen.proposal is None
    assert why in seen.view.why


def test_it_stays_while_the_cost_of_a_checkpoint_is_not_known() -> None:
    assert found(situation(), 0.0) == found(situation(count=0))


def test_what_the_environment_sets_to_nothing_and_what_may_be_overridden_is_no_obstacle() -> None:
    sources = {"SCR_CHECKPOINT_OVERHEAD": "environment", "SCR_CHECKPOINT_INTERVAL": "user config"}
    assert chosen(situation(sources=sources))
    assert chosen(situation(sources={"SCR_CHECKPOINT_INTERVAL": "environment"}, override=True))


def test_a_live_variable_of_rank_0_is_enough() -> None:
    assert chosen(situation(mutability=dict.fromkeys(UNSET, "live on rank 0")))


@pytest.mark.parametrize(
    ("factor", "changes"), [(1.0, False), (1.3, False), (1.6, True), (0.75, False), (0.6, True)]
)
def test_it_changes_only_when_that_pays(factor: float, changes: bool) -> None:
    """Near the best interval all cost nearly the same: 1.37 times it loses 5 % of what is lost anyway."""
    best = daly(1.0, mtbf_s())
    now = situation({"SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": round(factor * best)})
    assert bool(chosen(now)) == changes
    assert changes or "too little" in found(now).view.why


def test_seconds_that_steps_stretch_are_no_reason_to_change_them() -> None:
    """Asked every five minutes, SCR says yes at the tenth although 555 s are set."""
    best = ceil(daly(1.0, mtbf_s()))
    stretched = FlushBehaviour(interval_s=1201.0, blocking_s=1.0)
    now = situation({"SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": best}, flush=stretched)
    assert not chosen(now)


def test_the_seconds_hold_what_a_flush_blocks_since_scr_counts_from_the_end_of_the_encoding() -> None:
    blocking = FlushBehaviour(interval_s=51.0, blocking_s=31.0, blocked_on_flush_s=30.0, flush_s=30.0)
    assert seconds(situation(flush=blocking)) == ceil(daly(1.0, mtbf_s()) + 30)


@pytest.mark.parametrize(
    ("settings", "flush_s", "least_s"),
    [
        ({}, 2000.0, 0.0),  # past the cache nothing is flushed
        ({**ASYNC, "SCR_FLUSH_ASYNC": 0}, 2000.0, 0.0),
        (ASYNC, 2000.0, 3000.0),
        ({**ASYNC, "SCR_CACHE_SIZE": 1}, 2000.0, 3000.0),
        ({**ASYNC, "SCR_FLUSH": 2}, 2000.0, 1500.0),
        (ASYNC, 100.0, 0.0),
    ],
)
def test_a_flush_ends_within_the_interval(settings: Values, flush_s: float, least_s: float) -> None:
    flush = FlushBehaviour(interval_s=5001.0, blocking_s=1.0, flush_s=flush_s)
    sources = dict.fromkeys(settings, "user config")
    set_s = float(str(seconds(situation(settings, sources=sources, flush=flush))))
    assert set_s == least_s or (least_s == 0 and set_s < 600)


def test_where_one_checkpoint_at_most_may_be_at_risk_the_next_output_never_meets_a_flush() -> None:
    flush = FlushBehaviour(interval_s=5001.0, blocking_s=1.0, flush_s=2000.0)
    assert seconds(situation(ASYNC, flush=flush, durability=Durability.NEXT)) == 3000


@pytest.mark.parametrize(
    ("cost_s", "nodes", "expected"),
    [
        (30.0, 1, 3600),  # Daly: 6.6 h
        (100.0, 1, 5000),  # 2 % of the time is spent on checkpoints
        (5000.0, 2000, 5000),  # never more than half of the time
    ],
)
def test_it_has_bounds(cost_s: float, nodes: int, expected: int) -> None:
    assert seconds(situation(nodes=nodes, ranks=nodes), cost_s) == expected


def test_numbers_that_no_job_has_do_no_harm() -> None:
    for cost_s in (1e-300, 1e-12, 1e300):
        for blocked_s in (0.0, 5.0, 1e9):
            flush = FlushBehaviour(interval_s=2e9, blocking_s=1e9, blocked_on_flush_s=blocked_s)
            set_s = seconds(situation(flush=flush), cost_s)
            assert isinstance(set_s, int)
            assert set_s >= 1
    assert seconds(situation({"SCR_CHECKPOINT_SECONDS": "often"})) is not None


def test_it_is_made_no_longer_than_the_job_has_lasted() -> None:
    assert seconds(situation(age_s=90.0)) == 90
    rare = {"SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": 200}
    assert seconds(situation(rare, age_s=90.0)) == 200, "nor shorter for that"


def test_failures_that_the_cache_does_not_survive_count_as_often_as_they_destroy_intervals() -> None:
    rare = situation({**ASYNC, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 10})
    often = situation({**ASYNC, "SCR_COPY_TYPE": "XOR"})
    assert float(str(seconds(rare))) == pytest.approx(
        float(str(seconds(often))) / (0.85 + 10 * 0.15) ** 0.5, rel=0.02
    )
    single = situation({**ASYNC, "SCR_FLUSH": 10})
    assert float(str(seconds(single))) < float(str(seconds(rare)))


def test_what_was_seen_to_fail_counts_more_than_what_others_saw() -> None:
    seen = Failures(observed_s=5 * 86_400.0, unknown=120, nodes=NODES)
    assert float(str(seconds(situation(), failures=seen))) == pytest.approx((2 * 3600) ** 0.5, rel=0.05)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    settings = draw(st.sampled_from([{}, ASYNC, {**ASYNC, "SCR_FLUSH": 7}, {**ASYNC, "SCR_FLUSH_ASYNC": 0}]))
    nodes = draw(st.integers(1, 5000))
    flush = FlushBehaviour(interval_s=3601.0, blocking_s=1.0, flush_s=draw(st.floats(0, 1e4)))
    sources = draw(st.sampled_from([{}, dict.fromkeys(settings, "user config")]))
    return situation(settings, flush=flush, nodes=nodes, ranks=nodes, sources=sources)


@given(
    situations(), st.floats(1e-4, 1e4), st.floats(1, 100), st.tuples(st.integers(0, 50), st.integers(0, 50))
)
def test_dearer_checkpoints_never_come_sooner_and_more_failures_never_later(
    now: Situation, cost_s: float, factor: float, failures: tuple[int, int]
) -> None:
    few, more = (Failures(observed_s=1e6, unknown=count) for count in (failures[0], sum(failures)))
    here = float(str(seconds(now, cost_s, few)))
    assert here >= max(1, cost_s)
    assert float(str(seconds(now, cost_s * factor, few))) >= here
    assert float(str(seconds(now, cost_s, more))) <= here


def test_the_way_back_leads_to_what_the_user_had() -> None:
    tuned = {**OWN, "SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": 500}
    assert users_own(OWN, tuned).changes == {"SCR_CHECKPOINT_INTERVAL": 2, "SCR_CHECKPOINT_SECONDS": 0}
    assert users_own(DEFAULTS, tuned).changes == {"SCR_CHECKPOINT_SECONDS": 0}, "unset is 0"
    assert users_own(OWN, OWN).changes == {}


def test_what_was_chosen_ends_with_the_users_word() -> None:
    tuned = {**OWN, "SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": 500}
    job = situation().job
    assert job is not None
    assert in_force(tuned, job) == {name: tuned[name] for name in UNSET}
    assert in_force(DEFAULTS, job) == {}
    assert in_force(tuned, msgspec.structs.replace(job, interval="")) == {}
    edited = msgspec.structs.replace(job, sources={"SCR_CHECKPOINT_SECONDS": "edited"})
    assert in_force(tuned, job, edited) == in_force(tuned, edited, job) == {}
