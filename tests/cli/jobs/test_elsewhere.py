"""A job that another node decides about, in a run directory that nodes share; with Slurm: test_slurm.py."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.errors import FAILURE
from scrtune.client.paths import JobPaths
from scrtune.intents.effects import Advice
from scrtune.scr_config.decision import decision_text
from scrtune.scr_config.ownership import signed

from ...support.ended_job import JOB, ended_job, run_directory

pytestmark = pytest.mark.usefixtures("base")

Scrtune = Callable[..., Result]


@pytest.fixture
def elsewhere() -> JobPaths:
    """A job that node n1 has decided about, and that has left nothing on this node."""
    here = ended_job("j")
    here.decision.write_text(decision_text(Advice(generation=1, settings={"SCR_COPY_TYPE": "XOR"})))
    there = JobPaths.of("j", "n1")
    here.root.rename(there.root)
    return there


def status(scrtune: Scrtune) -> dict[str, Any]:
    ran = scrtune("status", "--job-id", "j", "--format", "json")
    assert ran.exit_code == 0, ran.stderr
    return dict(msgspec.json.decode(ran.stdout))


@pytest.mark.parametrize("has_own", [False, True])
def test_what_has_ended_there_is_read_here(scrtune: Scrtune, elsewhere: JobPaths, has_own: bool) -> None:
    elsewhere.last_status.write_text("{}")
    if has_own:
        run_directory("j")  # of a node whose daemon never decided
    shown = status(scrtune)
    assert (shown["host"], shown["checkpoints"], shown["running"]) == ("n1", 1, False)
    assert "export SCR_COPY_TYPE=XOR\n" in scrtune("env", "--job-id", "j").stdout


def test_what_may_still_run_there_is_not_called_ended(scrtune: Scrtune, elsewhere: JobPaths) -> None:
    for command in ("status", "explain", "env", "off"):
        ran = scrtune(command, "--job-id", "j")
        assert (ran.exit_code, ran.stdout) == (FAILURE, "")
        assert "decided about on node n1: run this command there" in ran.stderr


def test_a_job_that_runs_here_alone_is_this_nodes(
    scrtune: Scrtune, elsewhere: JobPaths, real_daemon: Any
) -> None:
    """One of that name ran on another node before."""
    elsewhere.last_status.write_text("{}")
    real_daemon.start().tell(*JOB[:1])
    real_daemon.until_events(1)
    shown = status(scrtune)
    assert (shown["host"], shown["running"]) == (real_daemon.paths.host, True)


def test_a_node_that_did_not_decide_names_the_one_that_did(scrtune: Scrtune) -> None:
    """Nothing but the prefix directory is shared."""
    here = ended_job("j", JOB[:1])
    conf = here.base.parent / "prefix" / "j" / "scr.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(signed("at 2026-11-21T12:00:00Z on n1, generation 3. a test", "SCR_FLUSH=1\n"))
    here.last_status.write_bytes(msgspec.json.encode({"config": str(conf)}))
    ran = scrtune("explain", "--job-id", "j")
    assert ran.exit_code == FAILURE
    assert "decided about on node n1: run this command there" in ran.stderr
    conf.write_text("SCR_FLUSH=1\n")
    assert scrtune("explain", "--job-id", "j").exit_code == 0, "nobody has decided"


def test_the_node_that_leads_is_the_one_to_ask(scrtune: Scrtune) -> None:
    """One that has decided before it was cut off knows who leads now."""
    here = ended_job("j")
    here.decision.write_text(decision_text(Advice(generation=1, settings={"SCR_COPY_TYPE": "XOR"})))
    assert scrtune("explain", "--job-id", "j").exit_code == 0
    here.last_status.write_bytes(msgspec.json.encode({"cluster": {"leader": "n2"}}))
    ran = scrtune("explain", "--job-id", "j")
    assert ran.exit_code == FAILURE
    assert "decided about on node n2: run this command there" in ran.stderr
    here.last_status.write_bytes(msgspec.json.encode({"cluster": {"leader": here.host}}))
    assert scrtune("explain", "--job-id", "j").exit_code == 0
