"""Intent 11: what the end of an allocation and applications beside this one ask for."""

from math import ceil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.checkpoint_rate import CheckpointRate
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.observe.workflow import Workflow
from scrtune.intents.rules.derived.workflow import workflow
from scrtune.intents.rules.parameter import DerivedParameter, Phase
from scrtune.intents.rules.parameters import derived
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS

CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 10}
ASYNC: Values = {**CACHED, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
TEN_MINUTES = FlushBehaviour(interval_s=600.0, blocking_s=4.0, blocked_on_flush_s=3.0, flush_s=30.0)
FOUR_HOURS = Workflow(left_s=4 * 3600.0, steps=("0 simulate",), longest_step_s=10.0)
TWO = msgspec.structs.replace(FOUR_HOURS, steps=("0 simulate", "1 analyse"))


def situation(
    settings: Values,
    seen: Workflow = FOUR_HOURS,
    flush: FlushBehaviour = TEN_MINUTES,
    *,
    obeyed: int = 3,
    count: int = 3,
) -> Situation:
    own = {**DEFAULTS, **settings}
    return Situation(
        intents=Intents(
            flush=msgspec.structs.replace(flush, evidence=Evidence(count=count)),
            rate=CheckpointRate(p90_s=700.0),
            workflow=seen,
        ),
        own=own,
        settings=own,
        obeyed=obeyed,
    )


def parameters(now: Situation) -> dict[str, DerivedParameter]:
    return {each.name: each for each in workflow(now)}


def halt(now: Situation) -> DerivedParameter:
    return parameters(now)["SCR_HALT_SECONDS"]


@pytest.mark.parametrize(
    ("settings", "obeyed", "seconds"),
    [
        (CACHED, 3, 1.5 * (10 + 1 + 30)),
        (ASYNC, 3, 1.5 * (10 + 1 + 30 + 30)),  # the flush before may still be under way
        ({"SCR_CACHE_BYPASS": 1, "SCR_FLUSH": 10}, 0, 0.0),  # every checkpoint is in the prefix directory
        (CACHED, 0, 1.5 * (700 + 1 + 30)),  # it asks when it checkpoints, if at all
    ],
)
def test_scr_halts_so_early_that_the_last_flush_is_in_time(
    settings: Values, obeyed: int, seconds: float
) -> None:
    found = halt(situation(settings, obeyed=obeyed))
    assert found.value == (ceil(seconds) or None)
    assert found.phase is Phase.FINALIZE
    assert "the allocation ends in 4.0 h" in found.inputs
    assert (found.value is None) == (found.gain_s == 0)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (situation(CACHED, Workflow()), "is not known"),
        (situation(CACHED, count=2), "not settled"),
        (situation({**CACHED, "SCR_FLUSH": 1}, flush=msgspec.structs.replace(TEN_MINUTES, interval_s=60.0)),
         "cost more than"),
        (situation({**CACHED, "SCR_HALT_SECONDS": 600}), "yours, 600 s, is enough"),
    ],
)  # fmt: skip
def test_it_says_why_it_does_not_halt(now: Situation, why: str) -> None:
    assert halt(now).value is None
    assert why in halt(now).why_not


def test_one_of_the_users_that_is_too_late_is_told() -> None:
    assert halt(situation({**CACHED, "SCR_HALT_SECONDS": 30})).value == 62


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_slower_flush_never_halts_later(flush_s: float, more_s: float, step_s: float) -> None:
    seen = msgspec.structs.replace(FOUR_HOURS, longest_step_s=step_s)
    rare = msgspec.structs.replace(TEN_MINUTES, interval_s=1e5)
    before, after = (
        halt(situation(ASYNC, seen, msgspec.structs.replace(rare, flush_s=each)))
        for each in (flush_s, flush_s + more_s)
    )
    assert float(str(after.value)) >= float(str(before.value))


@pytest.mark.parametrize(
    ("settings", "seen", "why"),
    [
        (ASYNC, FOUR_HOURS, "one application"),
        ({"SCR_CACHE_BYPASS": 1}, TWO, "nothing is flushed"),
    ],
)
def test_no_flush_outlasts_an_application_that_nobody_waits_for(
    settings: Values, seen: Workflow, why: str
) -> None:
    found = parameters(situation(settings, seen))["SCR_FLUSH_POSTSTAGE"]
    assert found.value is None
    assert why in found.why_not


@pytest.mark.parametrize(
    ("kind", "why"), [("PTHREAD", "BBAPI to it, none of type PTHREAD"), ("BBAPI", "crashes")]
)
def test_in_a_workflow_a_flush_after_the_end_would_pay_and_is_refused(kind: str, why: str) -> None:
    now = situation({**ASYNC, "SCR_FLUSH_TYPE": kind}, msgspec.structs.replace(TWO, runs=3))
    (found,) = (each for each in derived(now) if each.name == "SCR_FLUSH_POSTSTAGE")
    assert found.value == 1
    assert found.gain_s == 90.0, "the last flush of each of three runs"
    assert why in found.veto
