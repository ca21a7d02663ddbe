"""`scrtune explain INTENT|PARAMETER`, `env`, `status` and `replay`: what follows from intents 3 to 6."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.tables.summary import summary
from scrtune.cli.views.replay import ReplayView
from scrtune.cli.views.story import Story
from scrtune.daemon.views import ExplainView, StatusView
from scrtune.intents.declared import Declared
from scrtune.intents.events import AllocationObserved, KnowledgeRecalled, Values
from scrtune.intents.tune.knowledge import Knowledge

from ...replay.test_run import write_job
from ...support.simulated_job import Job
from .test_explain import ended

pytestmark = pytest.mark.usefixtures("base")

Scrtune = Callable[..., Result]
XOR: Values = {"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 10, "SCR_CACHE_SIZE": 2}


def told(scrtune: Scrtune, *words: str) -> Story:
    shown = scrtune("explain", "--job-id", "j", "--format", "json", *words)
    assert shown.exit_code == 0, shown.stderr
    return msgspec.json.decode(shown.stdout, type=Story)


def large_job(said: Declared = Declared(), **described: int | bool) -> Job:  # noqa: B008 - frozen
    """A job on 64 nodes, 8 on a switch, whose checkpoints stay in the cache for ten intervals."""
    job = Job(XOR, noise=0, **{"nodes": 64, "ranks": 64, "declared": said, **described})
    hosts = tuple(f"n{number}" for number in range(64))
    at = {host: f"s{number // 8}" for number, host in enumerate(hosts)}
    job.tell(AllocationObserved(scheduler="slurm", hosts=hosts, switches=at))
    return job.checkpoints(12, flush_every=10)


@pytest.mark.parametrize(
    ("name", "intent", "parameters"),
    [
        (("3",), "fault model", {"SCR_COPY_TYPE", "SCR_GROUP", "CKPT"}),
        (("fault", "model"), "fault model", {"SCR_COPY_TYPE", "SCR_GROUP", "CKPT"}),
        (("clean start",), "clean start", {"SCR_CACHE_PURGE", "SCR_DISTRIBUTE"}),
        (("Intent 5",), "fault tolerance", {"SCR_SET_SIZE", "SCR_SET_FAILURES"}),
        (("HISTORY",), "history", {"SCR_PREFIX_SIZE", "SCR_PREFIX_PURGE"}),
        (("scr_set_size",), "fault tolerance", {"SCR_SET_SIZE"}),
        (("ckpt",), "fault model", {"CKPT"}),
    ],
)
def test_each_row_of_the_study_is_a_story(
    scrtune: Scrtune, name: tuple[str, ...], intent: str, parameters: set[str]
) -> None:
    ended("j", large_job())
    story = told(scrtune, *name)
    assert intent in {each.name for each in story.intents}
    assert {each.name for each in story.parameters} == parameters
    for each in story.parameters:
        assert each.rule
        assert each.source
        assert each.is_wanted or each.why_not
    titles = {section.title for section in story.sections}
    assert parameters <= titles


def test_advice_is_shown_exported_and_summed_up(scrtune: Scrtune) -> None:
    """Nodes were lost so often that no trial would find the sets that are wanted, for they cost more."""
    job, often = large_job(), Knowledge(jobs=9, checkpoints=99, failures=4000, node_s=64 * 86_400.0)
    job.tell(KnowledgeRecalled(knowledge=often))
    ended("j", job)
    (size,) = told(scrtune, "SCR_SET_SIZE").parameters
    assert (size.value, size.stands, size.is_users_word) == (2, True, False)
    assert "export SCR_SET_SIZE=2\n" in scrtune("env", "--job-id", "j").stdout
    status = msgspec.json.decode(scrtune("status", "--format", "json").stdout, type=StatusView)
    assert status.savings.advised == {"SCR_SET_SIZE": 2}
    assert any("advised, not tried: export SCR_SET_SIZE=2" in line for line in summary(status))
    shown = " ".join(scrtune("explain", "--job-id", "j").stdout.split())
    assert "SCR_SET_SIZE 2 fault tolerance advised, not tried: `scrtune env` has it" in shown


def test_what_needs_lines_is_shown_and_never_exported_alone(scrtune: Scrtune) -> None:
    ended("j", large_job())
    shown = scrtune("explain", "--job-id", "j", "SCR_GROUP").stdout
    assert "GROUPS=n63 SWITCH=s7" in shown
    assert "lines for SCR's config file, below" in " ".join(shown.split())
    assert "SCR_GROUP" not in scrtune("env", "--job-id", "j").stdout


def test_your_word_is_made_and_says_so(scrtune: Scrtune) -> None:
    ended("j", large_job(Declared(losses=3)))
    rows = {section.title: section.rows for section in told(scrtune, "5").sections}
    assert rows["SCR_SET_FAILURES"]["standing"] == "your word: made"
    assert rows["SCR_SET_FAILURES"]["is"].startswith("3, by your word")
    assert "required: SCR_SET_FAILURES - -> 3" in rows["SCR_SET_FAILURES"]["decision 1"]


def test_your_word_is_proposed_and_exported_where_nothing_is_changed(scrtune: Scrtune) -> None:
    ended("j", large_job(Declared(losses=3, keep_least=4), tuning=False))
    rows = {section.title: section.rows for section in told(scrtune, "6").sections}
    assert rows["SCR_PREFIX_SIZE"]["standing"].startswith("your word: proposed, for --mode recommend")
    exported = scrtune("env", "--job-id", "j").stdout
    for line in ("SCR_COPY_TYPE=RS", "SCR_SET_FAILURES=3", "SCR_PREFIX_SIZE=4"):
        assert f"export {line}\n" in exported


def test_a_page_has_the_same_story_without_scripts(scrtune: Scrtune) -> None:
    ended("j", large_job(Declared(losses=99)))
    page = scrtune("explain", "--job-id", "j", "--format", "html", "SCR_COPY_TYPE").stdout
    assert page.startswith("<!DOCTYPE html>")
    assert "<script" not in page
    assert "the most of 64 nodes: 63" in page
    assert "--tolerate-losses 99: a checkpoint in the cache survives 63 at most" in page
    everything = scrtune("explain", "--job-id", "j", "--format", "html").stdout
    assert "Intent 6: history" in everything
    assert "SCR_FLUSH" in everything


@pytest.mark.parametrize(
    ("name", "hint"),
    [("SCR_SET_SIZ", "did you mean SCR_SET_SIZE"), ("histry", "did you mean history"), ("13", "6 history")],
)
def test_a_name_that_is_none_says_what_is_near(scrtune: Scrtune, name: str, hint: str) -> None:
    ended("j", large_job())
    refused = scrtune("explain", "--job-id", "j", name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert hint in refused.stderr


def test_a_parameter_that_no_intent_sets_says_that(scrtune: Scrtune) -> None:
    ended("j", large_job())
    (section,) = told(scrtune, "SCR_DEBUG").sections
    assert "no intent of this job sets it" in section.rows["why"]


def test_contradictions_are_told_and_stop_nothing(scrtune: Scrtune) -> None:
    ended("j", large_job(Declared(losses=64, keep_least=5, keep_most=3)))
    shown = scrtune("explain", "--job-id", "j", "--format", "json").stdout
    found = msgspec.json.decode(shown, type=ExplainView).contradictions
    assert [each.partition(":")[0] for each in found] == ["--keep-checkpoints 5", "--tolerate-losses 64"]
    assert "Contradiction: --keep-checkpoints 5:3" in scrtune("explain", "--job-id", "j").stdout


def test_recorded_traces_give_the_same_parameters(scrtune: Scrtune, tmp_path: Path) -> None:
    trace, conf = write_job(tmp_path / "a.pfw", slower=10), tmp_path / "scr.conf"
    conf.write_text("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=XOR\n")
    asked = ("replay", trace, "--prefix", "/prefix", "--conf", conf, "--nodes", 64, "--tolerate-losses", 2)
    options = ("--keep-checkpoints", "3:10")
    view = msgspec.json.decode(scrtune(*asked, *options, "--format", "json").stdout, type=ReplayView)
    found = {each.name: each.value for each in view.parameters if each.stands}
    assert {name: found.get(name) for name in ("SCR_COPY_TYPE", "SCR_SET_FAILURES", "SCR_PREFIX_SIZE")} == {
        "SCR_COPY_TYPE": "RS",
        "SCR_SET_FAILURES": 2,
        "SCR_PREFIX_SIZE": 3,
    }
    exported = scrtune(*asked, *options, "--format", "sh").stdout
    assert "export SCR_COPY_TYPE=RS\n" in exported
    assert "export SCR_PREFIX_SIZE=3\n" in exported
    assert "your word: proposed" in scrtune(*asked, *options).stdout
