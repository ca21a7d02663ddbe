"""Intent 4: the cache is deleted at the first start alone, and on the user's word alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import RestartCompleted
from scrtune.intents.contradictions import contradictions
from scrtune.intents.declared import Declared
from scrtune.intents.effects import Tell
from scrtune.intents.rules.parameters import declared

from .....support.simulated_job import CACHED, Job
from .....support.situations import parameter, situation

CLEAN = Declared(clean_start=True)


@pytest.mark.parametrize("name", ["SCR_CACHE_PURGE", "SCR_DISTRIBUTE"])
def test_nothing_is_deleted_unasked(name: str) -> None:
    found = parameter(name, situation())
    assert (found.value, found.why_not) == (None, "only on your word: scrtune run --clean-start")


def test_after_the_first_start_it_is_switched_off_for_restarts() -> None:
    now = situation({"SCR_CACHE_PURGE": 1}, said=CLEAN)
    found = parameter("SCR_CACHE_PURGE", now)
    assert (found.value, found.is_users_word, found.veto) == (0, True, "")
    ((change, veto),) = declared(now)
    assert (change.changes, veto) == ({"SCR_CACHE_PURGE": 0}, None)
    assert "SCR_CACHE_PURGE does it" in parameter("SCR_DISTRIBUTE", now).why_not


def test_a_start_that_was_not_the_first_is_left() -> None:
    found = parameter("SCR_CACHE_PURGE", situation(said=CLEAN))
    assert found.value is None
    assert "first one" in found.why_not


def test_a_purge_that_the_environment_sets_is_yours() -> None:
    now = situation({"SCR_CACHE_PURGE": 1}, said=CLEAN, sources={"SCR_CACHE_PURGE": "environment"})
    assert "your environment sets it" in parameter("SCR_CACHE_PURGE", now).veto


def test_the_next_launch_finds_it_switched_off_and_the_run_after_it_changes_nothing() -> None:
    real = {"SCR_FLUSH": "live", "SCR_FLUSH_ASYNC": "live"}
    job = Job({**CACHED, "SCR_CACHE_PURGE": 1}, declared=CLEAN, mutability=real)
    assert job.pipeline.advice.at_launch == {"SCR_CACHE_PURGE": 0}
    assert (job.pipeline.advice.kept or {})["SCR_CACHE_PURGE"] == 0
    before = len(job.pipeline.decisions)
    job.relaunch()
    job.tell(RestartCompleted(dataset=1, name="a", start_s=job.now, end_s=job.now, source="rebuild"))
    assert (job.pipeline.advice.kept or {})["SCR_CACHE_PURGE"] == 0
    changed = [each for each in list(job.pipeline.decisions)[before:] if each.verdict.value == "required"]
    assert not changed
    assert not [each for each in job.effects if isinstance(each, Tell) and each.level == "warning"]
    assert "run 2 went on from 'a' (rebuild)" in job.pipeline.intents.clean_start.sentence()


def test_a_clean_start_that_went_on_from_a_checkpoint_is_told() -> None:
    job = Job(CACHED, declared=CLEAN)
    told = job.tell(RestartCompleted(dataset=1, name="a", start_s=job.now, end_s=job.now, source="prefix"))
    (warning,) = told
    assert isinstance(warning, Tell)
    assert "the first run went on from 'a' (prefix)" in warning.text
    assert "SCR_FETCH=0" in warning.text
    assert job.pipeline.job is not None
    assert contradictions(job.pipeline.job, job.pipeline.intents) == (warning.text,)


@given(st.booleans(), st.lists(st.sampled_from(["", "cache", "rebuild", "prefix"]), max_size=4))
def test_however_the_job_goes_on_the_cache_is_deleted_once_at_most_and_on_the_users_word(
    is_said: bool, restarts: list[str]
) -> None:
    """What each SCR_Init of the job finds: a restart may need the cache."""
    first = {**CACHED, "SCR_CACHE_PURGE": 1} if is_said else CACHED
    job = Job(first, declared=CLEAN if is_said else Declared())
    for source in restarts:
        assert not job.in_force.get("SCR_CACHE_PURGE")
        job.relaunch()
        if source:
            job.tell(RestartCompleted(dataset=1, name="a", start_s=job.now, end_s=job.now, source=source))
    assert not job.in_force.get("SCR_CACHE_PURGE")
