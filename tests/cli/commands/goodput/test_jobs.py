"""Which jobs of logs are shown, and what is said of each."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from scrtune.cli.main import main
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.goodput.events import (
    JobStarted,
)

from ....support.goodput_command import PRIMER, log_of, only_job, rows, run, view


def test_of_very_many_jobs_those_are_shown_of_which_most_is_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    at = time.time() - 3600
    with log.open("w") as file:
        for number in range(1000):
            for step in range(1 + (number == 700)):
                told = {
                    "type": "step_completed",
                    "step": step,
                    "start_s": at + step,
                    "end_s": at + step + 0.5,
                }
                file.write(json.dumps({**told, "job_name": f"job{number:04}"}) + "\n")
    ran = CliRunner().invoke(main, ["goodput", str(log), "--format", "json"])
    names = [job["job_name"] for job in json.loads(ran.stdout)["jobs"]]
    assert names == [f"job{number:04}" for number in (*range(199), 700)]
    assert "800 more jobs are not shown; name one with --job-name" in ran.stderr
    named = CliRunner().invoke(main, ["goodput", str(log), "--format", "json", "--job-name", "job0900"])
    assert [job["job_name"] for job in json.loads(named.stdout)["jobs"]] == ["job0900"]


def test_all_jobs_of_a_log_are_shown_or_the_one_that_is_named(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        *(
            {"job_name": name, key: time_s}
            for name in ("b", "a")
            for key, time_s in (("job_start_time", 1), ("job_end_time", 9))
        ),
    )
    assert [job["job_name"] for job in view(log)["jobs"]] == ["a", "b"]
    assert [job["job_name"] for job in view(log, "--job-name", "b")["jobs"]] == ["b"]
    assert run(log).stdout.count("=== Goodput Analysis for Job: ") == 2
    missing = run(log, "--job-name", "c")
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert missing.stderr == "scrtune: no job 'c' in these logs; there are 'a', 'b'\n"


def test_what_names_no_job_belongs_to_the_one_that_is_named(tmp_path: Path) -> None:
    save = {
        "step": 1,
        "event_type": "save",
        "checkpoint_manager_blocking_start_time": 5.0,
        "checkpoint_manager_blocking_duration_secs": 2.0,
    }
    named = [{"job_name": "a", "job_start_time": 1}, {"job_name": "a", "job_end_time": 9}]
    together = only_job(log_of(tmp_path / "one", *named), log_of(tmp_path / "two", save))
    assert together["conserving"]["buckets"]["checkpoint_other"] == 2.0
    hint = f"scrtune: {tmp_path / 'two'}: names no job and counts for 'a'; if it is of another, give it alone"
    assert run(tmp_path / "one", tmp_path / "two").stderr == f"{hint}\n"
    alone = log_of(tmp_path / "two", save)
    assert only_job(alone)["job_name"] == run(alone).stderr == ""


def test_what_two_files_have_alike_counts_once(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(PRIMER.read_bytes())
    assert only_job(PRIMER, copy) == only_job(PRIMER)


def test_regular_numbers_that_are_far_apart_are_one_step_each(tmp_path: Path) -> None:
    told = [{"job_name": "rl", "step_count": 4096 * n, "step_start_time": 10 + 2 * n} for n in range(20)]
    log = log_of(tmp_path / "log", {"job_name": "rl", "job_start_time": 1}, *told)
    assert only_job(log)["steps"]["stride"] == 4096
    shown = run(log).stdout
    assert "\n20 steps (4096 numbers apart), 0 checkpoints, 1 run; goodput" in shown
    assert "19, 2.00 s on average; one for each 4096 numbers, 0.5 ms a number" in shown
    assert "step 0: 2.00 s, " in shown
    slowest = [row for row in rows(log) if row["what"].startswith("slow_step:4096:")]
    assert [float(row["seconds"]) for row in slowest] == [2.0]


def test_what_a_job_does_not_have_is_not_shown_and_no_time_is_rounded_to_nothing(tmp_path: Path) -> None:
    at = "2025-09-27T04:00:{:02}"
    kinds = ("job_started", "checkpoint_saved", "job_terminated")
    told = [
        {"timestamp": at.format(3 * n), "job_name": "a", "event_type": kind} for n, kind in enumerate(kinds)
    ]
    shown = run(log_of(tmp_path / "log", *told)).stdout
    assert "Loaded" not in shown
    assert "| Total Runtime (hours) | 0.0017  |" in shown


def test_what_is_estimated_is_said_in_every_form(tmp_path: Path) -> None:
    at = "2025-09-27T04:{}:00"
    minutes = [
        *((0, "job_started", 0), (5, "checkpoint_loaded", 0), (15, "checkpoint_saved", 100)),
        *((21, "job_started", 0), (25, "checkpoint_loaded", 100), (35, "checkpoint_saved", 200)),
    ]
    log = log_of(
        tmp_path / "log",
        *(
            {"timestamp": at.format(f"{minute:02}"), "job_name": "a", "event_type": kind, "step": step}
            for minute, kind, step in minutes
        ),
    )
    job = only_job(log)
    assert job["estimated"] == {"runs": 1, "lost_s": 180.0, "most_s": 360.0}
    assert job["conserving"]["buckets"]["wasted_progress"] == 180.0
    assert "Estimated: 180.000 s of wasted_progress, which may be 0 to 360.000 s" in run(log).stdout
    (row,) = (row for row in rows(log) if row["policy"] == "estimated")
    assert (row["what"], float(row["seconds"])) == ("wasted_progress", 180.0)
    assert run(log, "--html", tmp_path / "page").exit_code == 0
    page = (tmp_path / "page").read_text()
    assert "Estimated: 180.000 s of wasted_progress" in page
    assert "a run broke off" in page


def test_which_of_several_jobs_is_shown_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path))
    for name in ("first", "second"):
        path = JobPaths.of(name, base=tmp_path).journal
        path.parent.parent.mkdir(mode=0o700)
        path.parent.mkdir(mode=0o700)
        journal = Journal(path)
        journal.append(9.0, JobStarted(time_s=1.0))
        journal.flush(9.0)
        journal.close()
        assert ("of 2 jobs here" in run().stderr) == (name == "second")
    shown = run()
    assert "name another one with --job-id" in shown.stderr
    assert run("--job-id", "first").stderr == ""
