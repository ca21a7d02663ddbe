"""Intents 8 and 10: the pace, the flushes and the size of the cache, within what the user declared."""

from math import ceil, sqrt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.interval.failure_rate import posterior, typical
from scrtune.goodput.interval.failures import Failures
from scrtune.goodput.interval.model import daly
from scrtune.intents.declared import Declared
from scrtune.intents.events import AllocationObserved, Durability, SettingsObserved, Value, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.checkpoints_required import observe as observe_required
from scrtune.intents.observe.faults.redundancy import observe as observe_redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.observe.workflow import Workflow
from scrtune.intents.rules.derived.checkpoint_rate import checkpoint_rate
from scrtune.intents.rules.derived.interval import IntervalFinding, interval
from scrtune.intents.rules.parameter import DerivedParameter, Phase
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS

T0 = 1_700_000_000.0
NODES = 64
SECONDS, CALLS, OVERHEAD = "SCR_CHECKPOINT_SECONDS", "SCR_CHECKPOINT_INTERVAL", "SCR_CHECKPOINT_OVERHEAD"
CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 10, "SCR_CACHE_SIZE": 1}
ASYNC: Values = {**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_CACHE_SIZE": 2}
EVERY_20_S = FlushBehaviour(interval_s=21.0, blocking_s=1.0, write_s=0.8, encode_s=0.2)
FLUSHED = FlushBehaviour(
    interval_s=601.0, blocking_s=3.0, write_s=0.8, encode_s=0.2, blocked_on_flush_s=2.0, flush_s=20.0,
    flushed_share=0.1,
)  # fmt: skip


def situation(  # noqa: PLR0913 - all of a job
    settings: Values | None = None,
    *,
    declared: Declared | None = None,
    flush: FlushBehaviour = EVERY_20_S,
    taken: int = 10,
    ran_s: float = 1e6,
    left_s: float | None = None,
    obeyed: int = 3,
    count: int = 3,
    auto: bool = False,
    durability: str = "",
) -> Situation:
    """A job on 64 nodes that took 10 checkpoints of a second each, one in 20 s of work."""
    own = {**DEFAULTS, SECONDS: 0, CALLS: 2, OVERHEAD: 0.0, **(settings or {})}
    declared = declared or Declared()
    job = SettingsObserved(
        settings=own,
        sources=dict.fromkeys(settings or {}, "user config"),
        nodes=NODES,
        ranks=NODES,
        declared=declared,
        interval="auto" if auto else "",
        durability=durability,
    )
    now_s = T0 + ran_s
    allocation = None if left_s is None else AllocationObserved(scheduler="slurm", end_s=now_s + left_s)
    return Situation(
        intents=Intents(
            redundancy=observe_redundancy(job, own),
            flush=msgspec.structs.replace(flush, evidence=Evidence(count=count, end_s=now_s)),
            checkpoints=observe_required(declared, taken, ran_s, allocation, now_s),
        ),
        own=own,
        settings=own,
        job=job,
        start_s=T0,
        checkpoints=taken,
        obeyed=obeyed,
        failures=Failures(observed_s=ran_s, nodes=NODES),
        felt_s=1.0,
        allocation=allocation,
    )


def parameters(now: Situation) -> dict[str, DerivedParameter]:
    return {each.name: each for each in checkpoint_rate(now)}


def mtbf_s(now: Situation) -> float:
    return posterior(now.failures, typical(NODES)).mtbf_s


class TestWhatIsRecommended:
    """Nobody asked for a change: it is advice for the next launch."""

    def test_the_pace_is_dalys_and_one_parameter_paces(self) -> None:
        now = situation()
        found = parameters(now)
        assert found[SECONDS].value == min(3600, ceil(daly(1.0, mtbf_s(now))))
        assert found[CALLS].value == 0, "else SCR takes one whenever either says so"
        assert found[OVERHEAD].value is None, "it is 0 already"
        assert found[SECONDS].intent == found[OVERHEAD].intent == "checkpoint rate"
        assert found[SECONDS].phase is Phase.BETWEEN_OUTPUTS
        assert found[SECONDS].gain_s > 0
        assert found[SECONDS].gain_sd_s > 0
        assert found[CALLS].gain_s == 0.0, "what all three gain is said once"
        assert "a checkpoint takes 1.000 s" in found[SECONDS].inputs
        assert interval(now).proposal is None, "it is the user's"

    @pytest.mark.parametrize(
        ("now", "why"),
        [
            (situation(obeyed=2), "SCR_Need_checkpoint"),
            (situation(count=2), "not settled"),
            (msgspec.structs.replace(situation(), felt_s=0.0), "not settled"),
            (situation({CALLS: 0, SECONDS: 1400}), "save too little"),
        ],
    )
    def test_it_says_why_it_recommends_nothing(self, now: Situation, why: str) -> None:
        found = parameters(now)
        for name in (SECONDS, CALLS, OVERHEAD):
            assert found[name].value is None
            assert why in found[name].why_not
            assert found[name].gain_s == 0.0

    def test_a_pace_that_the_user_set_is_not_advised_in_halves(self) -> None:
        """With SCR_CHECKPOINT_INTERVAL=2 in their file other seconds beside it would change nothing."""
        found = parameters(situation({CALLS: 2}))
        assert found[SECONDS].value
        assert f"the pace is yours ({CALLS}=2)" in found[SECONDS].veto
        declared = situation({CALLS: 2}, declared=Declared(overhead=0.001))
        for now in (situation({CALLS: 2}, auto=True), declared, situation()):
            assert parameters(now)[CALLS].value == 0
            assert not parameters(now)[CALLS].veto

    def test_every_parameter_has_a_rule_and_a_source(self) -> None:
        for now in (situation(), situation(ASYNC, flush=FLUSHED), situation(obeyed=0)):
            for each in checkpoint_rate(now):
                assert each.rule
                assert each.source
                assert (each.value is None) == bool(each.why_not)


def decided(now: Situation) -> IntervalFinding:
    return interval(now)


def changes(now: Situation) -> Values:
    proposal = decided(now).proposal
    return proposal.changes if proposal else {}


class TestWhatIsDeclared:
    """A pace outside of it is changed, whether it was left to scrtune or not."""

    @pytest.mark.parametrize(
        ("overhead", "expected"),
        [
            (0.10, {}),  # 1 s of 21 s is less
            (0.047, {}),  # and is so within what steps allow
            (0.01, {OVERHEAD: 1.0, CALLS: 0}),
            (0.001, {OVERHEAD: 0.1, CALLS: 0}),
        ],
    )
    def test_an_overhead_is_a_bound(self, overhead: float, expected: Values) -> None:
        now = situation(declared=Declared(overhead=overhead))
        assert changes(now) == expected
        if expected:
            proposal = decided(now).proposal
            assert proposal is not None
            assert "as you declared" in proposal.because

    def test_scr_counts_neither_the_flush_nor_what_it_slows_down(self) -> None:
        """1 s of 3 s is counted, and the 2 s that a flush blocks are time in between."""
        now = situation({SECONDS: 5, CALLS: 0}, declared=Declared(overhead=0.01), flush=FLUSHED)
        now = msgspec.structs.replace(now, felt_s=3.0)
        percent = changes(now)[OVERHEAD]
        work_s = 3.0 * 99
        assert percent == pytest.approx(100 / (1.0 + work_s + 2.0), rel=0.01)

    def test_the_interval_that_pays_stays_where_it_costs_less_than_declared(self) -> None:
        now = situation(declared=Declared(overhead=0.2), auto=True)
        assert changes(now) == changes(situation(auto=True))
        assert changes(now)[SECONDS] == parameters(now)[SECONDS].value

    @pytest.mark.parametrize(
        ("declared", "left_s", "seconds"),
        [
            (Declared(checkpoints_most=100), None, None),  # the end is not known
            (Declared(checkpoints_most=100), 1000.0, None),  # 90 more, and 47 will come
            (Declared(checkpoints_most=20), 1000.0, ceil(1000 / 11 - 1)),
            (Declared(checkpoints_most=10), 1000.0, 999),  # none more
            (Declared(checkpoints_most=5), 1000.0, 999),  # there are too many already
            (Declared(checkpoints_least=20), 1000.0, None),
            (Declared(checkpoints_least=110), 1000.0, ceil(950 / 100 - 1)),
            (Declared(checkpoints_least=10), 1000.0, None),  # they were taken
            (Declared(checkpoints_least=20, run_s=1e6 + 100), None, ceil(95 / 10 - 1)),
            (Declared(checkpoints_least=20, run_s=1e6 + 100), 50.0, ceil(47.5 / 10 - 1)),
            (Declared(checkpoints_least=20, run_s=10.0), None, None),  # it should have ended long ago
        ],
    )
    def test_a_number_is_kept_to_in_the_time_that_is_left(
        self, declared: Declared, left_s: float | None, seconds: int | None
    ) -> None:
        now = situation(declared=declared, left_s=left_s)
        assert changes(now) == ({} if seconds is None else {SECONDS: seconds, CALLS: 0})
        if seconds is not None:
            assert parameters(now)[CALLS].intent == "checkpoints required"
            assert "checkpoints: " in parameters(now)[CALLS].clipped

    def test_of_contradicting_ones_the_least_number_wins_over_the_overhead(self) -> None:
        both = Declared(checkpoints_least=110, overhead=0.01)
        assert changes(situation(declared=both, left_s=1000.0))[SECONDS] == ceil(950 / 100 - 1)
        more = Declared(checkpoints_least=110, checkpoints_most=20)
        assert changes(situation(declared=more, left_s=1000.0))[SECONDS] == ceil(950 / 100 - 1)

    def test_no_interval_is_shorter_than_a_checkpoint(self) -> None:
        now = situation(declared=Declared(checkpoints_least=10_000), left_s=1000.0)
        assert changes(now)[SECONDS] == 1

    def test_an_application_that_does_not_ask_is_told_so(self) -> None:
        seen = decided(situation(declared=Declared(overhead=0.01), obeyed=0))
        assert seen.proposal is None
        assert "SCR_Need_checkpoint" in seen.view.why

    @given(st.floats(1e-3, 0.9), st.floats(0, 1), st.floats(0.1, 100), st.booleans(), st.integers(0, 1000))
    def test_a_stricter_overhead_never_means_more_checkpoints(
        self, overhead: float, share: float, cost_s: float, auto: bool, least: int
    ) -> None:
        def work_s(share: float) -> float:
            now = situation(declared=Declared(overhead=share, checkpoints_least=least), left_s=1e5, auto=auto)
            now = msgspec.structs.replace(now, felt_s=cost_s)
            (_, seen) = interval(now), changes(now)
            if seen.get(OVERHEAD):
                return cost_s * (1 - share) / share
            return float(str(seen.get(SECONDS) or 20.0))

        stricter, laxer = work_s(overhead * max(share, 1e-3)), work_s(overhead)
        assert stricter >= laxer * 0.94, "but for what steps allow"

    @given(st.integers(0, 500), st.integers(1, 500), st.floats(100, 1e6))
    def test_more_that_are_needed_never_mean_fewer(self, least: int, more: int, left_s: float) -> None:
        def seconds(least: int) -> Value:
            now = situation(declared=Declared(checkpoints_least=least), left_s=left_s)
            return changes(now).get(SECONDS, 20)

        assert float(str(seconds(least + more))) <= float(str(seconds(least)))


class TestTheLastBeforeTheAllocationEnds:
    """With `--interval auto`, where each checkpoint is flushed."""

    def seconds(self, left_s: float, **how: Values) -> Value | None:
        settings = {SECONDS: 600, CALLS: 0, **how.get("settings", {})}
        now = situation(settings, auto=True, left_s=left_s)
        seen = Workflow(left_s=left_s, longest_step_s=10.0)
        return changes(
            msgspec.structs.replace(now, intents=msgspec.structs.replace(now.intents, workflow=seen))
        ).get(SECONDS)

    @pytest.mark.parametrize(
        ("left_s", "expected"),
        [
            (1e6, None),  # it saves too little
            (621.0, ceil(600 - 1.5 * 11)),  # the next one comes after 21 s: what is set holds from then on
            (121.0, ceil(100 - 1.5 * 11)),
            (38.6, 2),
            (38.4, None),  # too late for one after the next
            (1.0, None),
        ],
    )
    def test_it_comes_before_the_end(self, left_s: float, expected: int | None) -> None:
        now_s = self.seconds(left_s)
        assert now_s == expected or (expected is None and float(str(now_s)) >= 600)

    def test_where_flushes_are_rare_it_would_not_be_among_them(self) -> None:
        assert float(str(self.seconds(121.0, settings=CACHED) or 600)) > 100


class TestHowOftenToFlush:
    """The two-level form, within what is durable enough, can be done, and comes in time."""

    def flush(
        self, *, settings: Values | None = None, flush: FlushBehaviour = FLUSHED, **how: float
    ) -> DerivedParameter:
        return parameters(situation({**CACHED, **(settings or {})}, flush=flush, **how))["SCR_FLUSH"]  # type: ignore[arg-type]

    def test_it_is_the_ratio_of_youngs_intervals_of_both_levels(self) -> None:
        """A flush takes 20 s (2 s of each checkpoint, one in ten is flushed), a checkpoint 1 s."""
        found = self.flush(settings={"SCR_FLUSH": 1000})
        known = posterior(situation(CACHED).failures, typical(NODES)).cache_share
        assert found.value == round(sqrt(20 / 1 * known / (1 - known)))
        assert "Benoit" in found.source
        assert found.gain_sd_s >= 0

    @pytest.mark.parametrize(
        ("settings", "flush", "why"),
        [
            ({"SCR_CACHE_BYPASS": 1}, FLUSHED, "past the cache"),
            ({}, EVERY_20_S, "not settled"),
        ],
    )
    def test_it_says_why_it_recommends_nothing(
        self, settings: Values, flush: FlushBehaviour, why: str
    ) -> None:
        found = self.flush(settings=settings, flush=flush)
        assert found.value is None
        assert why in found.why_not

    def test_it_is_never_rarer_than_what_is_durable_enough(self) -> None:
        found = self.flush(settings={"SCR_FLUSH": 4})
        assert found.value is None, "the user flushes every fourth, and has it already"
        assert "SCR_FLUSH=4" in found.clipped

    @pytest.mark.parametrize(("left_s", "expected"), [(1e6, 10), (4000.0, 6), (700.0, 1), (100.0, 10)])
    def test_one_of_those_still_to_come_is_flushed(self, left_s: float, expected: int) -> None:
        """Every 601 s: a run of 4,000 s that flushed every tenth would leave none when it is killed."""
        found = self.flush(left_s=left_s, obeyed=0)
        assert (found.value or 10) == expected
        if found.value:
            assert found.intent == "checkpoints required"
            assert "end before the job does" in found.clipped

    def test_a_flush_beside_the_work_ends_before_the_next(self) -> None:
        slow = msgspec.structs.replace(
            FLUSHED, flush_s=4000.0, interval_s=601.0, blocked_on_flush_s=0.0, blocking_s=1.0, slowdown_s=0.01
        )
        found = self.flush(settings={**ASYNC, "SCR_FLUSH": 20}, flush=slow, obeyed=0)
        assert found.value == ceil(4000 / 601)
        assert found.clipped == "a flush ends before the next one begins"

    @given(st.floats(0.01, 100), st.floats(1, 50))
    def test_more_expensive_flushes_are_never_more_frequent(self, blocked_s: float, factor: float) -> None:
        def every(blocked_s: float) -> int:
            flush = msgspec.structs.replace(
                FLUSHED, blocked_on_flush_s=blocked_s, blocking_s=1 + blocked_s, flush_s=10 * blocked_s
            )
            return int(str(self.flush(settings={"SCR_FLUSH": 1000}, flush=flush).value or 1000))

        assert every(blocked_s * factor) >= every(blocked_s)


class TestTheSizeOfTheCache:
    """No output waits for a flush, and nothing is kept that does not come any more."""

    @pytest.mark.parametrize(
        ("flush_s", "left_s", "expected"),
        [
            (10.0, None, 2),  # as it is
            (100.0, None, 6),  # ceil(100 / 21) + 1
            (1e9, None, 64),
            (100.0, 63.0, 3),
            (100.0, 5.0, 2),
        ],
    )
    def test_it_holds_what_is_flushed_and_what_is_written(
        self, flush_s: float, left_s: float | None, expected: int
    ) -> None:
        flush = msgspec.structs.replace(EVERY_20_S, flush_s=flush_s)
        found = parameters(situation(ASYNC, flush=flush, obeyed=0, left_s=left_s))["SCR_CACHE_SIZE"]
        assert (found.value or 2) == expected
        assert found.intent == "checkpoints required"
        assert bool(found.clipped) == (left_s is not None and expected > 2) or expected == 2

    @pytest.mark.parametrize(
        ("settings", "durability", "why"),
        [
            (CACHED, "", "one is enough"),
            (ASYNC, Durability.NEXT.value, "waits for the flush anyway"),
        ],
    )
    def test_it_says_why_more_make_no_sense(self, settings: Values, durability: str, why: str) -> None:
        flush = msgspec.structs.replace(EVERY_20_S, flush_s=100.0)
        found = parameters(situation(settings, flush=flush, durability=durability))["SCR_CACHE_SIZE"]
        assert found.value is None
        assert why in found.why_not
