"""What the user writes in the config file while a job runs wins, and is explained."""

from typing import Any

import msgspec
import pytest

from scrtune.intents.effects import RewriteConfig, Tell
from scrtune.intents.events import Event, UserEdited, ValueSource
from scrtune.intents.pipeline import Pipeline

from ..support.simulated_job import CACHED, T0, Job, replayed, state


def tuned() -> Job:
    """A job for which the asynchronous flush has won."""
    job = Job(CACHED).checkpoints(8)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 1
    return job


def test_what_the_user_writes_is_never_changed_again_whatever_it_costs() -> None:
    job = tuned()
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0}))
    for _ in range(60):
        job.checkpoint()
        assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0
    lever = next(each for each in job.pipeline.levers() if each.name == "SCR_FLUSH_ASYNC")
    assert lever.why == "SCR_FLUSH_ASYNC: you gave it in the config file while the job ran, which wins"


def test_it_is_the_new_baseline_and_the_log_says_why() -> None:
    job = tuned()
    generation = job.pipeline.advice.generation
    job.tell(UserEdited(changes={"SCR_FLUSH": 7}))
    pipeline = job.pipeline
    assert pipeline.tuner is not None
    assert pipeline.job is not None
    assert pipeline.tuner.baseline["SCR_FLUSH"] == pipeline.settings["SCR_FLUSH"] == 7
    assert pipeline.job.sources["SCR_FLUSH"] == ValueSource.EDITED
    assert pipeline.advice.generation == generation + 1
    assert pipeline.advice.settings["SCR_FLUSH"] == 7
    edit = pipeline.decisions[-1]
    assert (edit.rule, edit.changes, edit.previous) == (
        "your edit of the config file",
        {"SCR_FLUSH": 7},
        {"SCR_FLUSH": 1},
    )
    assert [type(effect) for effect in job.effects[-2:]] == [RewriteConfig, Tell]


def test_what_had_won_wins_again_under_the_edited_settings() -> None:
    job = tuned()
    job.tell(UserEdited(changes={"SCR_SET_SIZE": 4}))
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0, "the baseline comes first"
    job.checkpoints(12)
    assert job.words == ["trial", "accepted", "required", "trial", "accepted"]
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 1
    assert job.pipeline.advice.settings["SCR_SET_SIZE"] == 4


def test_an_edit_within_a_trial_ends_it() -> None:
    job = Job(CACHED).until("trial")
    assert job.words == ["trial"]
    job.tell(UserEdited(changes={"SCR_FLUSH": 2}))
    assert [verdict for _, verdict in job.verdicts] == ["trial", "reverted", "required"]
    assert job.pipeline.settings == {**Job(CACHED).pipeline.settings, "SCR_FLUSH": 2}


def test_a_line_that_the_user_deletes_means_scr_s_default_and_stays_so() -> None:
    job = tuned()
    job.tell(UserEdited(removed=("SCR_FLUSH_ASYNC", "SCR_FLUSH", "SCR_PREFIX")))
    job.checkpoints(30)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0
    assert job.pipeline.advice.settings["SCR_FLUSH"] == 10


@pytest.mark.parametrize(("declared", "edited"), [("XOR", "SINGLE"), ("SINGLE", "PARTNER"), ("", "PARTNER")])
def test_a_scheme_that_the_user_writes_is_their_floor_too(declared: str, edited: str) -> None:
    job = Job(CACHED, nodes=4, floor=declared).checkpoints(6)
    job.tell(UserEdited(changes={"SCR_COPY_TYPE": edited}))
    job.checkpoints(30)
    assert job.pipeline.intents.redundancy.floor == edited
    assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == edited
    job.start(job.pipeline.advice.settings)
    job.checkpoints(6)
    assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == edited, "in the next run as well"


def test_a_floor_that_the_edit_does_not_touch_is_kept() -> None:
    job = Job(CACHED, nodes=4, floor="XOR")
    job.tell(UserEdited(changes={"SCR_FLUSH": 3}))
    assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == "XOR"


@pytest.mark.parametrize("reads_our_file", [True, False])
def test_the_next_run_keeps_it(reads_our_file: bool) -> None:
    job = tuned()
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0, "SCR_FLUSH": 3}))
    job.checkpoints(3)
    job.start(job.pipeline.advice.settings if reads_our_file else CACHED)
    job.checkpoints(30)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0
    assert job.pipeline.advice.settings["SCR_FLUSH"] == 3


def test_what_the_environment_sets_or_what_is_no_value_is_refused_once_and_told() -> None:
    job = Job(CACHED)
    job.start(sources={"SCR_FLUSH": "environment"})
    advice, before = job.pipeline.advice, len(job.pipeline.decisions)
    for _ in range(2):
        job.tell(UserEdited(changes={"SCR_FLUSH": 9}, refused=("SCR_SET_SIZE: 'ten' is not a number",)))
    assert job.pipeline.advice.settings == advice.settings
    assert [each.because for each in job.pipeline.decisions][before:] == [
        "SCR_SET_SIZE: 'ten' is not a number",
        "SCR_FLUSH: your environment sets it, which wins (scrtune run --override allows it)",
    ]
    assert [effect for effect in job.effects if isinstance(effect, RewriteConfig)][-1].advice == advice


def test_with_override_the_edit_wins_over_the_environment_and_override_does_not_win_over_the_edit() -> None:
    job = Job(CACHED, override=True)
    job.start(sources={"SCR_FLUSH_ASYNC": "environment"})
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0}))
    job.checkpoints(20)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0


def test_before_the_job_has_said_what_it_runs_under_there_is_nothing_to_do() -> None:
    assert Pipeline().handle(UserEdited(changes={"SCR_FLUSH": 1}), T0) == []


@pytest.mark.parametrize("codec", [msgspec.msgpack, msgspec.json])
def test_edits_go_through_the_journal_and_are_replayed_with_the_same_decisions(codec: Any) -> None:
    job = Job(CACHED, noise=0.2).checkpoints(6)
    job.tell(UserEdited(changes={"SCR_FLUSH": 2}, removed=("SCR_SET_SIZE",)))
    job.checkpoints(10)
    job.tell(UserEdited(changes={"SCR_COPY_TYPE": "PARTNER"}, refused=("SCR_DEBUG: 'x' is not 0 or 1",)))
    job.checkpoints(10)
    again, effects = replayed([(now, codec.decode(codec.encode(e), type=Event)) for now, e in job.journal])
    assert effects == job.effects
    assert state(again, job.now) == state(job.pipeline, job.now)
