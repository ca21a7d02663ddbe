"""What `status`, `explain` and the end of `run` say of a job that checkpoints absurdly often, or never."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.tables.summary import summary
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.daemon.views import ExplainView, StatusView

from ...support.simulated_job import CACHED, Job

Scrtune = Callable[..., Result]


def ended(job: Job, base: Path) -> JobPaths:
    """`job` as its daemon leaves it."""
    paths = JobPaths.of("j", base=base)
    paths.root.mkdir(parents=True)
    journal = Journal(paths.journal)
    for now, event in job.journal:
        journal.append(now, event)
    journal.flush(job.now)
    journal.close()
    return paths


def shown(scrtune: Scrtune, command: str, kind: type) -> tuple[str, str]:
    """What the view of a command says of the pace, and all of its table, on one line."""
    view = msgspec.json.decode(scrtune(command, "--format", "json").stdout, type=kind)
    return view.pace, " ".join(scrtune(command).stdout.split())


def told(scrtune: Scrtune, job: Job, base: Path) -> str:
    """What is said of the pace: the same everywhere."""
    ended(job, base)
    pace, status = shown(scrtune, "status", StatusView)
    again, explained = shown(scrtune, "explain", ExplainView)
    view = msgspec.json.decode(scrtune("status", "--format", "json").stdout, type=StatusView)
    assert pace == again
    assert pace[1:] in status
    assert pace[1:] in explained
    assert not pace or f"scrtune: {pace}" in summary(view)
    return pace


@pytest.mark.parametrize("flush_every", [1, 3])
def test_a_checkpoint_at_every_step_is_told_with_the_interval_that_goodput_recommends(
    scrtune: Scrtune, base: Path, flush_every: int
) -> None:
    job = Job({**CACHED, "SCR_FLUSH": flush_every, "SCR_FLUSH_ASYNC": 0}, tuning=False)
    for _ in range(12):
        job.checkpoint(flush_every=flush_every)
    pace = told(scrtune, job, base)
    assert pace.startswith("checkpoints come too often: after 20.00 s of work each")
    asked = scrtune("goodput", "--interval", "--format", "json")
    settings = msgspec.json.decode(asked.stdout)["settings"]
    assert " ".join(f"{name}={value}" for name, value in settings.items()) in pace


def test_checkpoints_that_come_at_a_fair_pace_are_not_talked_about(scrtune: Scrtune, base: Path) -> None:
    job = Job(CACHED, tuning=False)
    for _ in range(6):
        job.compute(60)
        job.checkpoint()
    assert not told(scrtune, job, base)


def test_on_a_real_scr_without_an_interval_no_checkpoint_is_ever_due(scrtune: Scrtune, base: Path) -> None:
    job = Job(CACHED, engine="libscr 3.1.0")
    assert "SCR_Need_checkpoint never asks for one; set SCR_CHECKPOINT_SECONDS=600" in told(
        scrtune, job, base
    )


@pytest.mark.parametrize(("seconds", "steps", "is_told"), [(0, 70, True), (0, 10, False), (900, 70, False)])
def test_a_job_that_runs_for_long_without_a_checkpoint_is_told(
    scrtune: Scrtune, base: Path, seconds: int, steps: int, is_told: bool
) -> None:
    job = Job({**CACHED, "SCR_CHECKPOINT_SECONDS": seconds}, engine="embedded")
    job.compute(steps)
    assert told(scrtune, job, base).startswith("no checkpoint in") is is_told
    job.checkpoint()
    assert not job.pipeline.pace.sentence
