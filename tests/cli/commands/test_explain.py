"""`scrtune explain`: what each change saved or cost."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from scrtune.daemon.journal import Journal
from scrtune.daemon.views import ExplainView, GoodputView

from ...support.ended_job import BEGUN_S, run_directory
from ...support.simulated_job import CACHED, Job

pytestmark = pytest.mark.usefixtures("base")

Scrtune = Callable[..., Result]
KINDS: dict[str, Any] = {"explain": ExplainView, "goodput": GoodputView}


def view(scrtune: Scrtune, command: str, *options: str) -> Any:
    shown = scrtune(command, "--format", "json", *options)
    assert shown.exit_code == 0, shown.stderr
    return msgspec.json.decode(shown.stdout, type=KINDS[command])


def test_each_change_says_what_it_saved_or_cost_whether_its_job_runs_or_not(
    scrtune: Scrtune, real_daemon: Any
) -> None:
    """The first job's steps lose 0.1 s beside a flush that took 4 s before; the second one's lose 6 s."""
    for job_id, slowed_s, verdict, words in (
        ("j", 0.1, "kept", r"saves 3\.900 s of 5\.000 s a checkpoint \(-?\d\.\d\d\d to"),
        ("lost", 6.0, "taken back", r"costs 2\.000 s more than 5\.000 s a checkpoint \(-?\d\.\d\d\d to"),
    ):
        paths = run_directory(job_id)
        journal = Journal(paths.journal)
        for now, event in Job(CACHED, noise=0).checkpoints(20, slowed_s=slowed_s).journal:
            journal.append(now, event)
        journal.flush(BEGUN_S)
        journal.close()
        shown = " ".join(scrtune("explain", "--job-id", job_id).stdout.split())
        assert verdict in shown
        assert re.search(words + r" \d\.\d\d\d s with 90 %, in \d pairs?\)", shown), shown
        explained = view(scrtune, "explain", "--job-id", job_id)
        assert explained.gains
        assert explained.gains == view(scrtune, "goodput", "--job-id", job_id).gains
    ended = view(scrtune, "explain", "--job-id", "j")
    daemon = real_daemon.start()
    assert daemon.view("explain").gains == ()
    assert view(scrtune, "explain", "--job-id", "j").gains == ended.gains
