"""The tuner's decisions as changes: a trial with what ended it and with what it gained."""

import msgspec

from scrtune.cli.views.tuner_changes import TunerChange, tuner_changes
from scrtune.intents.tune.decisions import Decision, Verdict
from scrtune.intents.tune.gains import GainView

from ...support.report_job import GAIN

TRIAL = Decision(
    generation=1,
    time_s=3.0,
    verdict=Verdict.TRIAL,
    rule="larger buffers",
    changes={"SCR_FILE_BUF_SIZE": 1 << 20},
    previous={"SCR_FILE_BUF_SIZE": 1 << 14},
    because="small",
)


def ended(verdict: Verdict, time_s: float, because: str = "") -> Decision:
    return msgspec.structs.replace(TRIAL, verdict=verdict, time_s=time_s, because=because)


def pairs(log: list[Decision]) -> list[tuple[Decision, Decision | None]]:
    return [(change.decision, change.ended) for change in tuner_changes(log, ())]


def test_a_trial_and_its_verdict_are_one_change() -> None:
    kept = ended(Verdict.ACCEPTED, 9.0, "0.42 times the cost before")
    vetoed = ended(Verdict.VETOED, 12.0)
    view = GainView(
        generation=1,
        time_s=3.0,
        rule=TRIAL.rule,
        changes=TRIAL.changes,
        previous=TRIAL.previous,
        verdict=kept.verdict,
        gain=GAIN,
    )
    made, left = tuner_changes([TRIAL, kept, vetoed], [view])
    assert made == TunerChange(number=1, decision=TRIAL, ended=kept, gain=GAIN)
    assert left == TunerChange(number=2, decision=vetoed)
    assert (made.verdict, made.word, made.is_made) == (Verdict.ACCEPTED, "kept", True)
    assert (left.verdict, left.word, left.is_made) == (Verdict.VETOED, "vetoed", False)
    assert made.what == "SCR_FILE_BUF_SIZE 16384 -> 1048576"
    assert (left.text, left.gain_text) == (f"2. larger buffers: {left.what}", "")


def test_a_change_that_costs_says_so_with_its_bounds_turned_round() -> None:
    lost = msgspec.structs.replace(GAIN, saved_s=-0.5, low_s=-0.7, high_s=0.1)
    costly = TunerChange(number=1, decision=TRIAL, gain=lost)
    assert costly.short == "1. larger buffers: costs 0.500 s (-0.100 to 0.700 s)"
    assert costly.gain_text == (
        "costs 0.500 s more than 1.500 s a checkpoint (-0.100 to 0.700 s with 90 %, after 20 checkpoints)"
    )


def test_a_run_under_other_settings_ends_a_trial_and_is_a_change_of_its_own() -> None:
    again = ended(Verdict.BASELINE, 9.0, "it differs")
    assert pairs([TRIAL, again]) == [(TRIAL, again), (again, None)]
    assert pairs([again]) == [(again, None)]


def test_a_trial_that_still_runs_is_a_change_without_an_end() -> None:
    required = ended(Verdict.REQUIRED, 1.0)
    assert pairs([required, TRIAL]) == [(required, None), (TRIAL, None)]
