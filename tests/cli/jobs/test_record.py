"""One job, told by its running daemon, by its journal and on its page: the same numbers everywhere."""

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from scrtune.cli.jobs.logs import read_journal
from scrtune.cli.main import main
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.goodput.events import GoodputEvent, JobEnded, JobStarted, StepCompleted
from scrtune.intents.events import Event

from ...support.simulated_job import CACHED, Job


def scrtune(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["goodput", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def journal_of(paths: JobPaths, records: list[tuple[float, Event]]) -> Path:
    paths.create()
    journal = Journal(paths.journal)
    for now, event in records:
        journal.append(now, event)
    journal.flush(records[-1][0])
    journal.close()
    return paths.journal


@pytest.fixture(scope="module")
def tuned() -> Job:
    """A job whose settings are tuned: flushes slow its steps down, and some trials are taken back."""
    job = Job({**CACHED, "SCR_FLUSH_ASYNC": 1}, noise=0.1).checkpoints(60, slowed_s=0.8)
    job.tell(JobEnded(time_s=job.now, exit_code=0))
    return job


@pytest.fixture
def paths(tuned: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobPaths:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path))
    made = JobPaths.of("4711", base=tmp_path)
    journal_of(made, tuned.journal)
    return made


def test_a_job_its_journal_and_its_page_say_the_same(tuned: Job, paths: JobPaths, tmp_path: Path) -> None:
    live = json.loads(scrtune("--job-id", "4711", "--format", "json"))
    (logged,) = json.loads(scrtune(paths.journal, "--format", "json"))["jobs"]
    account = msgspec.to_builtins(tuned.pipeline.account(tuned.now))
    assert account["buckets"]["flush_slowdown"] > 0
    assert live["account"] == logged["conserving"] == account
    assert live["goodput"] == logged["goodput"]
    assert live["steps"] == logged["steps"]
    assert live["steps"]["steps"] == account["steps"]
    assert live["gains"] == logged["gains"]
    assert live["gains"]
    scrtune("--job-id", "4711", "--html", tmp_path / "live.html")
    scrtune(paths.journal, "--html", tmp_path / "log.html")
    page = (tmp_path / "live.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "log.html").read_text(encoding="utf-8")
    for bucket, spent_s in account["buckets"].items():
        if spent_s >= 0.0005:  # what is shown as more than 0.000
            assert f"{bucket}</td>" in page
            assert f">{spent_s:,.3f}</td>" in page


def test_their_tables_are_the_same_below_the_metrics(paths: JobPaths) -> None:
    live = scrtune("--job-id", "4711")
    assert "What each decision gained" in live
    assert "step times" in live
    heading, below = live.split("\n", 1)
    logged = scrtune(paths.journal)
    assert heading == "=== Goodput Analysis for Job: 4711 ==="
    assert heading in logged
    assert logged.endswith(below)


def test_a_job_is_named_and_one_that_the_environment_does_not_mean_is_reported(
    paths: JobPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for wanted in (
        ("goodput",),
        ("goodput", "--window", "30s"),
        ("explain",),
        ("goodput", "--html", "out.html"),
    ):
        for own, warned in (("4711", False), ("999", True)):
            monkeypatch.setenv("SLURM_JOB_ID", own)
            result = CliRunner().invoke(main, wanted)
            assert result.exit_code == 0, result.output
            assert ("4711" in result.stdout) is ("--html" not in wanted)
            assert ("no trace here of job '999'" in result.stderr) is warned
    assert json.loads(scrtune("--format", "json"))["job_name"] == "4711"
    explained = CliRunner().invoke(main, ["explain", "--job-id", "4711", "--format", "json"])
    assert json.loads(explained.stdout)["job_id"] == "4711"
    assert explained.stderr == ""


def test_a_window_of_a_journal_has_its_share_of_what_flushes_took(paths: JobPaths) -> None:
    (whole,) = json.loads(scrtune(paths.journal, "--format", "json"))["jobs"]
    start_s, wall_s = whole["conserving"]["start_s"], whole["conserving"]["wall_s"]
    parts = [
        json.loads(scrtune(paths.journal, "--window", f"{from_s}..{until_s}", "--format", "json"))["jobs"][0]
        for from_s, until_s in (
            (start_s, start_s + wall_s / 2),
            (start_s + wall_s / 2, start_s + wall_s),
        )
    ]
    for bucket, spent_s in whole["conserving"]["buckets"].items():
        assert sum(part["conserving"]["buckets"][bucket] for part in parts) == pytest.approx(
            spent_s, abs=1e-6
        )
    assert sum(part["steps"]["steps"] for part in parts) == whole["steps"]["steps"]


@pytest.mark.parametrize(
    "wanted",
    [
        ("--window", "30s"),
        ("--policy", "both"),
        ("--reference-step-time", "0.5", "--policy", "compat", "--window", "..2100-01-01"),
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_what_is_asked_of_a_job_is_shown_as_of_its_journal(
    paths: JobPaths, wanted: tuple[str, ...], form: str
) -> None:
    of_job = scrtune("--job-id", "4711", "--format", form, *wanted)
    of_journal = scrtune(paths.journal, "--format", form, *wanted)
    if form == "json":
        of_job, of_journal = (json.loads(text)["jobs"] for text in (of_job, of_journal))
    assert of_job == of_journal


def test_two_copies_of_a_journal_are_charged_once(paths: JobPaths, tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "4711" / "node1" / "journal"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(paths.journal.read_bytes())
    once, twice = (
        list(csv.DictReader(io.StringIO(scrtune(*logs, "--format", "csv"))))
        for logs in ((paths.journal,), (paths.journal, copy))
    )
    assert once == twice


def test_a_running_jobs_account_goes_on_and_its_steps_come_from_its_journal(
    real_daemon: Any, wait_until: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(real_daemon.paths.base))
    daemon = real_daemon.start()
    begun_s = time.time() - 50
    events = [
        JobStarted(time_s=begun_s),
        *(StepCompleted(step=n, start_s=begun_s + n, end_s=begun_s + n + 1) for n in range(20)),
    ]
    daemon.tell(*events)
    daemon.until_events(len(events))
    wait_until(
        lambda: (json.loads(scrtune("--job-id", "j", "--format", "json"))["steps"] or {}).get("steps") == 20
    )
    shown = json.loads(scrtune("--job-id", "j", "--format", "json"))
    assert shown["account"]["wall_s"] > 49
    (last,) = json.loads(scrtune("--job-id", "j", "--window", "10s", "--format", "json"))["jobs"]
    assert last["window"][1] > begun_s + 49  # it ends now, not with the last event
    assert last["conserving"]["wall_s"] == pytest.approx(10)
    assert last["conserving"]["buckets"]["productive"] == 0
    assert shown["steps"]["ideal_s"] == pytest.approx(1.0)


def test_records_whose_times_cannot_be_do_not_count_and_are_reported(tmp_path: Path) -> None:
    good: list[GoodputEvent] = [JobStarted(time_s=1e9), StepCompleted(step=1, start_s=1e9, end_s=1e9 + 5)]
    bad = [
        StepCompleted(step=2, start_s=float("nan"), end_s=1e9 + 9),
        StepCompleted(step=3, start_s=1e9 + 9, end_s=9e9),
    ]
    path = journal_of(JobPaths.of("j", base=tmp_path), [(1e9 + 10, event) for event in [*good, *bad]])
    assert list(read_journal(path).events) == good
    result = CliRunner().invoke(main, ["goodput", str(path), "--format", "json"])
    view = json.loads(result.stdout)
    assert view["garbage"] == 2
    assert view["jobs"][0]["conserving"]["steps"] == 1
    assert "1 event with times that are no numbers" in result.stderr
    assert "1 event with times that cannot be" in result.stderr
