"""`scrtune explain`: what each trial was to bring, what it brought, and why each lever is as it is."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.daemon.views import ExplainView, GoodputView, StatusView

from ...support.ended_job import BEGUN_S, run_directory
from ...support.simulated_job import CACHED, Job, ObedientJob

pytestmark = pytest.mark.usefixtures("base")

Scrtune = Callable[..., Result]
KINDS: dict[str, Any] = {"explain": ExplainView, "goodput": GoodputView, "status": StatusView}
SLOW = 6.0
"""Seconds that steps lose beside a flush which took 4 s before: an asynchronous one does not pay."""


def view(scrtune: Scrtune, command: str, *options: str) -> Any:
    shown = scrtune(command, "--format", "json", *options)
    assert shown.exit_code == 0, shown.stderr
    return msgspec.json.decode(shown.stdout, type=KINDS[command])


def ended(job_id: str, job: Job) -> JobPaths:
    """The journal of a simulated job, in its run directory."""
    paths = run_directory(job_id)
    journal = Journal(paths.journal)
    for now, event in job.journal:
        journal.append(now, event)
    journal.flush(BEGUN_S)
    journal.close()
    return paths


def explained(scrtune: Scrtune, job_id: str) -> str:
    return " ".join(scrtune("explain", "--job-id", job_id).stdout.split())


@pytest.mark.parametrize(
    ("slowed_s", "verdict", "words"),
    [
        (0.1, "kept", r"saves \d\.\d\d\d s of \d\.\d\d\d s a checkpoint \(\d"),
        (SLOW, "taken back", r"(saves|costs) \d\.\d\d\d s (of|more than) \d\.\d\d\d s a checkpoint \(-?\d"),
    ],
)
def test_a_trial_says_what_was_expected_seen_and_believed_and_what_was_left_of_the_budget(
    scrtune: Scrtune, slowed_s: float, verdict: str, words: str
) -> None:
    ended("j", Job(CACHED, noise=0).checkpoints(20, slowed_s=slowed_s))
    found = view(scrtune, "explain")
    trial = next(each for each in found.decisions if each.verdict.value == "trial")
    shown = explained(scrtune, "j")
    assert verdict in shown
    assert f"expected {trial.expected.text} a checkpoint" in shown
    assert f"seen {trial.seen.text}, the last of {trial.checkpoints}" in shown
    assert re.search("believed " + words, shown), shown
    probable = f"cheaper with probability {trial.comparison.p_better:.2f}"
    between = f"({trial.comparison.low:.2f} to {trial.comparison.high:.2f})"
    assert f"{trial.comparison.ratio:.2f} times the cost before {between}, {probable}" in shown
    assert re.search(r"budget \d+\.\d+ m?s were left for trials, \d+\.\d+ m?s after it", shown)
    assert found.gains == view(scrtune, "goodput").gains


def test_a_running_job_says_what_its_journal_will_say(scrtune: Scrtune, real_daemon: Any) -> None:
    ended("j", Job(CACHED, noise=0).checkpoints(20))
    at_the_end = view(scrtune, "explain", "--job-id", "j")
    assert at_the_end.gains
    assert at_the_end.levers
    real_daemon.start()
    running = view(scrtune, "explain", "--job-id", "j")
    assert (running.gains, running.levers) == (at_the_end.gains, at_the_end.levers)


def test_every_lever_says_why_it_is_as_it_is(scrtune: Scrtune) -> None:
    job = Job(CACHED, noise=0).checkpoints(20, slowed_s=SLOW)
    while job.trying is not None:
        job.checkpoint(slowed_s=SLOW)
    ended("j", job)
    found = {each.name: each for each in view(scrtune, "explain").levers}
    assert all(each.why for each in found.values())
    assert found["SCR_FLUSH_ASYNC"].other == 1
    assert "each would overwrite the one before" in found["SCR_CACHE_BYPASS"].why
    assert "your SCR_COPY_TYPE SINGLE" in found["SCR_COPY_TYPE"].why
    table = explained(scrtune, "j").partition("Why each lever is as it is")[2]
    for name, each in found.items():
        assert f"{name} " in table
        assert each.why in table


def test_a_lever_that_the_environment_sets_or_this_scr_does_not_read_says_so(scrtune: Scrtune) -> None:
    job = Job(CACHED, noise=0, mutability={"SCR_FLUSH_ASYNC": "live", "SCR_FLUSH_TYPE": "inert"})
    job.start(sources={"SCR_FLUSH_ASYNC": "environment"})
    ended("j", job.checkpoints(5))
    why = {each.name: each.why for each in view(scrtune, "explain").levers}
    assert why["SCR_FLUSH_ASYNC"] == (
        "SCR_FLUSH_ASYNC: your environment sets it, which wins (scrtune run --override allows it)"
    )
    assert why["SCR_FLUSH_TYPE"] == "SCR_FLUSH_TYPE: this SCR does not read it"


def test_of_a_job_that_has_ended_nothing_is_said_to_go_on(scrtune: Scrtune) -> None:
    job = Job(CACHED, noise=0).until("trial")
    ended("j", job)
    status, shown = " ".join(scrtune("status").stdout.split()), explained(scrtune, "j")
    assert job.trying is not None
    assert f"on trial at the end {job.trying.key}" in status
    assert "trying" not in status
    assert "undecided" in shown
    assert "trials may still cost" not in shown
    ended("k", Job(CACHED))
    assert "No change: no checkpoint was measured." in explained(scrtune, "k")


def test_while_a_trial_runs_its_levers_are_on_trial(scrtune: Scrtune) -> None:
    ended("j", Job(CACHED, noise=0).until("trial"))
    found = {each.name: each for each in view(scrtune, "explain").levers}
    lever = found["SCR_FLUSH_ASYNC"]
    assert (lever.value, lever.other, lever.why) == (1, 0, "on trial, against this value")
    assert "seen nothing" in explained(scrtune, "j")


def test_a_job_without_a_checkpoint_says_that(scrtune: Scrtune) -> None:
    ended("j", Job(CACHED))
    assert "No change: no checkpoint was measured." in explained(scrtune, "j")
    assert "no checkpoint was measured yet" in {each.why for each in view(scrtune, "explain").levers}


def test_a_job_in_which_nothing_pays_refers_to_the_levers(scrtune: Scrtune) -> None:
    job = Job({**CACHED, "SCR_CACHE_BYPASS": 1}, noise=0)
    ended("j", job.checkpoints(10))
    assert view(scrtune, "explain").decisions == ()
    assert "No change: the table of levers says why." in explained(scrtune, "j")
    savings = view(scrtune, "status").savings
    assert (savings.for_good, savings.saved_s) == ({}, 0.0)
    assert savings.why_nothing


@pytest.mark.parametrize("mode", ["recommend", "observe"])
def test_a_job_that_is_not_tuned_says_so_and_proposes_if_asked(scrtune: Scrtune, mode: str) -> None:
    ended("j", Job(CACHED, noise=0, tuning=False, recommend=mode == "recommend").checkpoints(6))
    shown, found = explained(scrtune, "j"), view(scrtune, "explain")
    assert f"Nothing is changed: --mode {mode}." in shown
    assert "trials may still cost" not in shown
    assert (found.mode, found.decisions, found.settings) == (mode, (), found.baseline)
    savings = view(scrtune, "status").savings
    if mode == "observe":
        assert (found.proposals, found.levers, savings.for_good, savings.why_nothing) == ((), (), {}, "")
        return
    (proposal,) = found.proposals
    assert proposal.changes["SCR_FLUSH_ASYNC"] == 1
    assert (savings.for_good, savings.is_tried) == (proposal.changes, False)
    assert "Proposals (nothing was changed; `scrtune env` has them)" in shown
    exported = scrtune("env", "--job-id", "j").stdout
    assert "export SCR_FLUSH_ASYNC=1" in exported


def test_what_tuning_saved_is_what_the_gains_add_up_to(scrtune: Scrtune) -> None:
    ended("won", Job(CACHED, noise=0).checkpoints(20))
    won = view(scrtune, "status", "--job-id", "won").savings
    gains = view(scrtune, "goodput", "--job-id", "won").gains
    assert won.saved_s == pytest.approx(sum(each.gain.total_s for each in gains))
    assert won.saved_s > 60, "3.9 s of each of some twenty"
    assert won.for_good["SCR_FLUSH_ASYNC"] == 1
    assert (won.reverted_s, won.why_nothing) == (0, "")
    ended("lost", Job(CACHED, noise=0).checkpoints(20, slowed_s=SLOW))
    lost = view(scrtune, "status", "--job-id", "lost").savings
    assert lost.saved_s == pytest.approx(-lost.reverted_s)
    assert lost.reverted_s > 0
    assert lost.for_good == {}


def test_the_interval_that_scrtune_chose_is_explained_and_yours_stays_yours(scrtune: Scrtune) -> None:
    ended("j", ObedientJob().checkpoints(20))
    shown, found = explained(scrtune, "j"), view(scrtune, "explain")
    assert "SCR_CHECKPOINT_INTERVAL 2 -> 0, SCR_CHECKPOINT_SECONDS 0 -> " in shown
    assert "source J. T. Daly, FGCS 22(3), 2006" in shown
    assert "a failure destroys an interval every" in shown
    seconds = found.settings["SCR_CHECKPOINT_SECONDS"]
    assert (found.baseline["SCR_CHECKPOINT_SECONDS"], found.baseline["SCR_CHECKPOINT_INTERVAL"]) == (0, 2)
    interval = view(scrtune, "status").savings.interval
    assert interval == {"SCR_CHECKPOINT_INTERVAL": 0, "SCR_CHECKPOINT_SECONDS": seconds}


def test_with_mode_recommend_the_interval_is_proposed_and_exported(scrtune: Scrtune) -> None:
    ended("j", ObedientJob(tuning=False).checkpoints(6))
    proposal = view(scrtune, "explain").proposals[0]
    assert proposal.changes.keys() == {"SCR_CHECKPOINT_INTERVAL", "SCR_CHECKPOINT_SECONDS"}
    seconds = proposal.changes["SCR_CHECKPOINT_SECONDS"]
    assert f"export SCR_CHECKPOINT_SECONDS={seconds}\n" in scrtune("env", "--job-id", "j").stdout
    assert view(scrtune, "status").savings.interval == {}
