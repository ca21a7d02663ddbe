"""`scrtune goodput LOG...` at the command line: what it reads, prints, and exits with; and its page."""

import csv
import gzip
import io
import json
import os
import re
import shlex
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrtune.cli.commands.goodput import time_window
from scrtune.cli.jobs.logs import read_logs
from scrtune.cli.main import main
from scrtune.cli.views.goodput import TimeWindow
from scrtune.client.paths import JobPaths
from scrtune.client.recorder import Recorder
from scrtune.client.scr_log.library_events import Output, parse_library_line
from scrtune.client.scr_log.log import parse_line
from scrtune.client.scr_log.standalone import by_job
from scrtune.daemon.journal.journal import Journal
from scrtune.goodput.compat.goodput import GoodputRecorder
from scrtune.goodput.compat.peer.differences import Difference, differences
from scrtune.goodput.compat.peer.rules import CompatError, compat_account
from scrtune.goodput.compat.peer.store import LocalLog
from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.intents.events import TuningSwitched
from scrtune.replay.run import JobShape, replay_traces

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
SAMPLE = DATA / "goodput" / "resiliency.jsonl"
PRIMER = DATA / "goodput" / "primer.jsonl"
PRIMER_LAUNCHER = DATA / "goodput" / "primer_resiliency.jsonl"
SCR_LOG = DATA / "scr_log" / "job.log"
PAGE = (ROOT / "docs" / "goodput-logs.md").read_text(encoding="utf-8")

MOMENT = datetime(2025, 1, 1, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)

SAMPLE_TABLE = """\
=== Goodput Analysis for Job: yejingxin-dev2-goodput-n1--a3h-unittest-09261818 ===

+------------------------------------+---------+
| Metric                             | Value   |
+====================================+=========+
| Total Events                       | 27      |
+------------------------------------+---------+
| Job Started Count                  | 2       |
+------------------------------------+---------+
| Checkpoints Loaded                 | 1       |
+------------------------------------+---------+
| Checkpoints Saved                  | 20      |
+------------------------------------+---------+
| Total Runtime (hours)              | 0.03    |
+------------------------------------+---------+
| Min Loaded Step                    | 0       |
+------------------------------------+---------+
| Max Saved Step                     | 10000   |
+------------------------------------+---------+
| Step Difference                    | 10000   |
+------------------------------------+---------+
| Effective Computation Time (hours) | 0.01    |
+------------------------------------+---------+
| Goodput Percentage                 | 21.72%  |
+------------------------------------+---------+
"""
"""As the library's guide prints it."""


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["goodput", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def view(*arguments: str | Path) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def only_job(*arguments: str | Path) -> Any:
    (job,) = view(*arguments)["jobs"]
    return job


def rows(*arguments: str | Path) -> list[dict[str, str]]:
    result = run(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def spent(job: Any) -> dict[str, float]:
    """The buckets that have anything in them."""
    return {name: seconds for name, seconds in job["conserving"]["buckets"].items() if seconds}


def log_of(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


# ---- the seed's numbers ----


def test_the_sample_log_prints_the_table_of_the_guide() -> None:
    result = run(SAMPLE, "--reference-step-time", "0.002569")
    assert SAMPLE_TABLE in result.stdout
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_sample_logs_goodput_is_exact() -> None:
    job = only_job(SAMPLE, "--reference-step-time", "0.002569")
    assert job["metrics"]["goodput_percentage"] == 21.724463746960755


def test_the_sample_logs_buckets_sum_to_its_runtime_and_have_the_same_goodput() -> None:
    account = only_job(SAMPLE, "--reference-step-time", "0.002569")["conserving"]
    assert sum(account["buckets"].values()) == pytest.approx(118.253782, abs=1e-6)
    assert account["buckets"]["productive"] == pytest.approx(25.69, abs=1e-6)
    assert account["steps"] == 10_000
    assert account["buckets"]["wasted_progress"] == pytest.approx(2.334065, abs=1e-6)  # since the last save
    assert account["buckets"]["recovery"] == pytest.approx(19.47951, abs=1e-6)  # ended to started


def test_the_primers_summary_has_exactly_its_six_rows() -> None:
    job = only_job(PRIMER, "--reference-step-time", "120")
    buckets = {name: spent_s / 60 for name, spent_s in job["conserving"]["buckets"].items() if spent_s}
    assert buckets == {
        "productive": 100.0,
        "restore": 10.0,
        "wasted_progress": 40.0,
        "recovery": 15.0,
        "checkpoint_other": 10.0,
        "step_slowdown": 25.0,
    }
    assert job["conserving"]["wall_s"] == 200 * 60
    assert job["goodput"] == 0.5
    assert job["metrics"] is None, "the table is that of the resiliency library, for its own logs"


# ---- policies ----


@pytest.mark.parametrize("path", [SAMPLE, PRIMER, SCR_LOG])
def test_conserving_rows_sum_to_the_wall_time(path: Path) -> None:
    spent = {row["what"]: float(row["seconds"]) for row in rows(path) if row["policy"] == "conserving"}
    wall_s = spent.pop("wall_time")
    assert sum(spent.values()) == pytest.approx(wall_s, abs=1e-6)


def test_each_policy_is_shown_when_it_is_asked_for(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        {"job_name": "a", "job_start_time": 0},
        {"job_name": "a", "step_count": 0, "step_start_time": 10},
        {"job_name": "a", "step_count": 1, "step_start_time": 20},
        {"job_name": "a", "step_count": 2, "step_start_time": 30},
        {"job_name": "a", "job_end_time": 40},
    )
    shown = {policy: only_job(log, "--policy", policy) for policy in ("conserving", "compat", "both")}
    assert [job["conserving"] is not None for job in shown.values()] == [True, False, True]
    assert [job["compat"] is not None for job in shown.values()] == [False, True, True]
    assert shown["both"]["compat"]["goodput_percent"] == 75.0
    policies = {row["policy"] for row in rows(log, "--policy", "both")}
    assert policies == {"conserving", "compat", "steps"}
    for policy, text in (("compat", "by ml-goodput-measurement"), ("conserving", "where the time went")):
        assert text in run(log, "--policy", policy).stdout


def test_both_says_where_the_policies_differ_and_why() -> None:
    job = only_job(SAMPLE, "--policy", "both")
    found = {each["what"]: each for each in job["differences"]}
    assert all(each["why"] for each in found.values())
    differences_s = [abs(each["conserving_s"] - each["compat_s"]) for each in job["differences"]]
    assert differences_s == sorted(differences_s, reverse=True)
    assert "where they differ" in run(SAMPLE, "--policy", "both").stdout


def differing(*events: GoodputEvent) -> dict[str, Difference]:
    """The kinds of time of which the policies differ over `events`."""
    ledger = Ledger()
    for event in events:
        ledger.handle(event)
    account = ledger.account(100.0)
    found = differences(account.buckets, account.wall_s, compat_account(events, 100.0))
    return {each.what: each for each in found}


START, END = JobStarted(time_s=0.0), JobEnded(time_s=100.0)


def steps(*times_s: float, first: int = 0, writer: str = "") -> list[GoodputEvent]:
    return [StepStarted(step=first + n, time_s=time_s, writer=writer) for n, time_s in enumerate(times_s)]


def test_each_bucket_that_differs_has_the_rule_of_either_policy() -> None:
    evaluation = Interval(kind="custom", name="EVAL", start_s=25, end_s=35)
    found = differing(START, *steps(10, 20, 30), evaluation, *steps(40, first=3), END)
    assert found["custom"].why == "only what lies wholly inside one step; each second once"
    assert (found["custom"].conserving_s, found["custom"].compat_s) == (10.0, 0.0)
    assert "custom" not in differing(START, *steps(10, 20, 30, 40), END)


def test_buckets_of_one_account_only_differ_by_all_they_have() -> None:
    found = differing(START, *steps(10, 20, 30, writer="a"), *steps(40, 50, 60, writer="a"), END)
    assert found["wasted_progress"].compat_s == 0.0
    assert sum(each.compat_s - each.conserving_s for each in found.values()) == pytest.approx(0.0)


def test_a_log_that_the_peers_rules_cannot_take_says_so(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", {"job_name": "a", "step_count": 0, "step_start_time": 10})
    job = only_job(log, "--policy", "both")
    assert job["compat"] is None
    assert "no start of the job" in job["no_compat"]
    assert "no start of the job" in run(log, "--policy", "both").stdout


def test_why_the_peers_rules_give_nothing_is_what_it_comes_from() -> None:
    assert (
        "saves take more than the steps that count there" in only_job(PRIMER, "--policy", "both")["no_compat"]
    )
    started, step_s = JobStarted(time_s=0.0), 2.527632
    even = [started, *steps(*(n * step_s for n in range(40))), JobEnded(time_s=40 * step_s)]
    with pytest.raises(CompatError, match="no more than a rounding error"):
        compat_account(even, 0.0)
    with pytest.raises(CompatError, match="steps lie outside the job's time"):
        compat_account([*steps(10, 20, 30), JobStarted(time_s=35.0), JobEnded(time_s=40.0)], 0.0)


def test_a_launchers_job_lasts_to_its_end_by_either_policy() -> None:
    job = only_job(SAMPLE, "--policy", "both")
    assert job["compat"]["total_s"] == pytest.approx(job["conserving"]["wall_s"]) == 118.253782
    assert "total" not in {each["what"] for each in job["differences"]}


def test_the_rows_of_buckets_sum_to_the_wall_time_however_small_some_are(tmp_path: Path) -> None:
    log = tmp_path / "long.jsonl"
    lines = [
        {"type": "job_started", "time_s": 0.0},
        {"type": "step_completed", "step": 0, "start_s": 20.0, "end_s": 1_000_000.0},
        {"type": "job_ended", "time_s": 1_000_000.0},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert ["startup", "20.000", "0.0%"] in map(str.split, run(log).stdout.splitlines())
    with log.open("a") as more:
        restore = {"type": "interval", "kind": "checkpoint_restore", "start_s": 5.0, "end_s": 12.0}
        more.write(json.dumps(restore) + "\n")
    assert ["2", "more", "20.000", "0.0%"] in map(str.split, run(log).stdout.splitlines())


# ---- windows ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("900", TimeWindow(last_s=900.0)),
        ("1.5m", TimeWindow(last_s=90.0)),
        ("15min", TimeWindow(last_s=900.0)),
        ("2h", TimeWindow(last_s=7200.0)),
        ("1d", TimeWindow(last_s=86_400.0)),
        ("100..200.5", TimeWindow(start_s=100.0, end_s=200.5)),
        ("..1970-01-01T00:01:00", TimeWindow(end_s=60.0)),
        ("1970-01-01T01:00:00+01:00..", TimeWindow(start_s=0.0)),
        ("1970-01-02..1970-01-04", TimeWindow(start_s=86_400.0, end_s=3 * 86_400.0)),
        ("1970-01-01T00:01..1970-01-01 00:02", TimeWindow(start_s=60.0, end_s=120.0)),
        ("1970-01-02", TimeWindow(start_s=86_400.0, end_s=2 * 86_400.0)),
    ],
)
def test_windows(text: str, expected: TimeWindow) -> None:
    assert time_window(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "5 minutes", "later", "9..soon", "200..100", "1..2..3", "2025-02-30", "2025-1-1.."],
)
def test_what_is_no_window_is_a_wrong_command_line(text: str) -> None:
    result = run(SAMPLE, "--window", text)
    assert result.exit_code == 2
    assert "window" in result.stderr


def test_a_windows_buckets_sum_to_its_length() -> None:
    whole = only_job(PRIMER)["conserving"]
    for text, minutes in (
        ("50m", 50),
        ("2025-01-01T00:30:00..2025-01-01T01:50:00", 80),
        ("..1735693200", 60),
    ):
        part = only_job(PRIMER, "--window", text)
        assert part["conserving"]["wall_s"] == minutes * 60
        assert sum(part["conserving"]["buckets"].values()) == pytest.approx(minutes * 60)
        assert all(
            spent_s <= whole["buckets"][name] for name, spent_s in part["conserving"]["buckets"].items()
        )
    last = only_job(PRIMER, "--window", "5m")["conserving"]["buckets"]
    assert {name: spent_s for name, spent_s in last.items() if spent_s} == {"checkpoint_other": 300.0}


def test_why_the_table_and_the_buckets_have_other_goodputs_is_said_where_they_have() -> None:
    text = "is steps saved x reference step time / total runtime"
    assert text not in run(PRIMER_LAUNCHER, "--reference-step-time", "120").stdout
    assert text not in run(PRIMER_LAUNCHER).stdout
    assert text not in run(PRIMER_LAUNCHER, "--reference-step-time", "150").stdout  # 62.50% and 62.5%
    window = run(PRIMER_LAUNCHER, "--reference-step-time", "120", "--window", "5m").stdout
    assert f"The table's 50.00% of the whole job {text}; 62.5% here" in " ".join(window.split())
    slower = run(PRIMER_LAUNCHER, "--reference-step-time", "240").stdout
    assert f"The table's 100.00% {text}; 67.5% here" in " ".join(slower.split())


def test_a_window_beyond_the_jobs_time_says_what_the_job_has_of_it() -> None:
    beyond = run(PRIMER, "--window", "1735701300..1735709999.5").stdout
    assert "From 2025-01-01 03:15:00 UTC to 2025-01-01 05:39:59.500 UTC; the job has that" in beyond
    assert "from 2025-01-01 03:15:00 UTC to 2025-01-01 03:20:00 UTC:" in " ".join(beyond.split())
    assert only_job(PRIMER, "--window", "1735701300..1735709999.5")["window"] == [1735701300.0, 1735709999.5]
    nothing = run(PRIMER, "--window", "2024-01-01").stdout
    assert "no part of the job's time lies in it" in nothing
    assert "where the time went" not in nothing
    assert "the job has" not in run(PRIMER, "--window", "5m").stdout


# ---- step times ----


def two_ranks(directory: Path) -> list[Path]:
    """Logs of two ranks over two runs: the second takes half as long again, the first hangs once."""
    logs = [directory / f"{rank}.jsonl" for rank in range(2)]
    for rank, log in enumerate(logs):
        events: list[GoodputEvent] = []
        for run in range(2):
            begun_s = 1000.0 * run
            if rank == 0:
                events.append(JobStarted(time_s=begun_s, ranks=2, writer="rank0"))
            for step in range(10 * run, 20 + 10 * run):  # the second half of a run is lost, and made again
                start_s = begun_s + 10 + 5 * (step - 10 * run)
                took_s = 4.0 if (rank, run, step) == (0, 1, 25) else (0.2, 0.3)[rank]
                end_s = start_s + took_s
                events.append(StepCompleted(step=step, start_s=start_s, end_s=end_s, writer=f"rank{rank}"))
        log_of(log, *({**msgspec.to_builtins(event), "job_name": "r"} for event in events))
    return logs


def test_steps_below_a_second_of_several_ranks_and_runs_are_shown(tmp_path: Path) -> None:
    logs = two_ranks(tmp_path)
    steps = only_job(*logs)["steps"]
    assert steps["steps"] == 40
    assert steps["ideal_s"] == pytest.approx(0.3)
    assert steps["peers_ideal_s"] is not None  # by its rules a step lasts until the next begins
    assert list(steps["deviations_s"]) == [str(step) for step in range(30)]
    assert steps["deviations_s"]["25"] == pytest.approx(3.7)
    slowest = steps["slowest"][0]
    assert (slowest["step"], slowest["start_s"], slowest["run"], slowest["writer"]) == (
        25,
        1085.0,
        2,
        "rank0",
    )
    (straggler,) = steps["stragglers"]
    assert (straggler["writer"], straggler["ratio"]) == ("rank1", pytest.approx(1.5))
    assert (straggler["slow"], straggler["steps"]) == (39, 40)
    text = run(*logs).stdout
    assert "step 25: 4.00 s, 1970-01-01 00:18:05 UTC, run 2, rank0" in text
    assert "rank1: 1.50 times as long as the others, 100.0 ms more a step, in 39 of 40 steps" in text


def test_under_a_window_the_steps_are_those_that_began_in_it(tmp_path: Path) -> None:
    logs = two_ranks(tmp_path)
    steps = only_job(*logs, "--window", "1000..1050")["steps"]
    assert (steps["steps"], list(steps["deviations_s"])) == (8, [str(step) for step in range(10, 18)])
    assert only_job(*logs, "--window", "500..900")["steps"] is None


def test_the_order_of_the_logs_does_not_matter_for_the_steps(tmp_path: Path) -> None:
    def own(steps: dict[str, Any]) -> dict[str, Any]:  # the peer's rules are about the order of arrival
        return {name: value for name, value in steps.items() if "peers" not in name}

    first, second = two_ranks(tmp_path)
    assert own(only_job(first, second)["steps"]) == own(only_job(second, first)["steps"])


def test_csv_has_the_steps_in_short(tmp_path: Path) -> None:
    found = {
        row["what"]: (float(row["seconds"]), float(row["percent"]))
        for row in rows(*two_ranks(tmp_path))
        if row["policy"] == "steps"
    }
    assert found["ideal_step"] == (pytest.approx(0.3), 100.0)
    assert found["straggler:rank1"] == (pytest.approx(0.3), pytest.approx(100.0))
    assert found["slow_step:25:run2"] == (pytest.approx(4.0), pytest.approx(4.0 / 0.3 * 100))


def test_csv_has_the_slowest_steps_of_each_run_though_their_numbers_are_the_same() -> None:
    slow = [(row["what"], float(row["seconds"])) for row in rows(PRIMER) if "slow_step" in row["what"]]
    assert slow == [("slow_step:50:run2", 180.0), ("slow_step:25:run1", 132.0), ("slow_step:50:run1", 120.0)]
    listed = only_job(PRIMER)["steps"]["slowest"]
    assert slow == [(f"slow_step:{each['step']}:run{each['run']}", each["took_s"]) for each in listed]


def test_of_an_application_that_reports_no_steps_none_are_shown() -> None:
    job = only_job(SCR_LOG)
    assert (job["tells_steps"], job["steps"], job["conserving"]["steps"]) == (False, None, 14)
    text = run(SCR_LOG).stdout
    assert "work between outputs 14 times, 14 checkpoints" in text
    assert "step" not in text
    assert {row["policy"] for row in rows(SCR_LOG)} == {"conserving"}
    assert only_job(PRIMER)["tells_steps"] is True


def test_work_between_outputs_has_no_last_step_by_the_peers_rules_either(tmp_path: Path) -> None:
    numbers = [(n // 5 << 20) + n % 5 + 1 for n in range(20)]
    log = log_of(
        tmp_path / "log",
        {"type": "job_started", "time_s": 0.0},
        *(
            {"type": "step_completed", "step": number, "start_s": 2.0 * n, "end_s": 2.0 * n + 2}
            for n, number in enumerate(numbers)
        ),
    )
    text = run(log, "--policy", "both").stdout
    assert "0 disruptions; goodput" in text
    assert "last step" not in text


def test_what_was_read_is_counted_not_what_was_made_of_it() -> None:
    assert only_job(SAMPLE)["events"] == len(SAMPLE.read_bytes().splitlines()) == 26


def test_why_the_peer_has_no_ideal_step_and_no_straggler_is_known_is_said(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        {"job_name": "a", "job_start_time": 0},
        *({"job_name": "a", "step_count": step, "step_start_time": 0.5 * step} for step in range(20)),
    )
    text = run(log).stdout
    assert "by ml-goodput-measurement: none, it leaves out steps that last less than a second" in text
    assert "unknown: only the starts of steps are recorded" in text


# ---- jobs ----


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


# ---- what is said of it ----


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


# ---- forms of files ----


def test_what_comes_twice_counts_once_and_is_reported(tmp_path: Path) -> None:
    lines = [
        {"job_name": "a", "job_start_time": 1000.0},
        *({"job_name": "a", "step_count": n, "step_start_time": 1010.0 + n} for n in range(5)),
        {"job_name": "a", "job_end_time": 1020.0},
    ]
    once = log_of(tmp_path / "once", *lines)
    expected = only_job(once, "--policy", "both")
    assert expected["compat"]["disruptions"] == 0
    for logs in ((log_of(tmp_path / "doubled", *lines, *lines),), (once, once)):
        assert only_job(*logs, "--policy", "both") == expected
        assert "7 events came more than once and count once" in run(*logs).stderr
    assert "more than once" not in run(once).stderr


def test_an_entry_far_from_all_others_is_reported_and_does_not_count(tmp_path: Path) -> None:
    begun_s = 1735689600.0
    steps = [{"job_name": "a", "step_count": n, "step_start_time": begun_s + n} for n in range(5)]
    wrong = [
        {"job_name": "a", "job_start_time": 0.0},
        {"type": "interval", "kind": "custom", "start_s": begun_s, "end_s": 1e11, "job_name": "a"},
    ]
    launched = {"timestamp": "1970-01-01T00:00:00", "job_name": "a", "event_type": "job_started"}
    log = log_of(tmp_path / "log", *steps, *wrong, {"job_name": "b", "job_start_time": 5.0})
    alone = log_of(tmp_path / "alone", launched)
    view = json.loads(run(log, alone, "--format", "json").stdout)
    assert view["garbage"] == 3
    assert [job["conserving"]["wall_s"] for job in view["jobs"]] == [4.0, 0.0]
    assert f"{log}: line 6: 1970-01-01 00:00:00 UTC is more than a year from the bulk" in view["problems"][0]
    assert f"{log}: line 7: 5138-11-16 09:46:40 UTC" in view["problems"][1]
    assert f"{alone}: line 1: 1970-01-01" in view["problems"][2]


def test_an_entry_that_names_no_job_must_lie_near_those_of_the_job_that_it_belongs_to(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        {"job_start_time": 0.0},
        *({"job_name": "a", "step_count": n, "step_start_time": 1735689600.0 + n} for n in range(5)),
    )
    assert "log: line 1: 1970-01-01 00:00:00 UTC is more than a year" in run(log).stderr
    assert only_job(log)["conserving"]["wall_s"] == 4.0


def test_a_byte_order_mark_costs_no_line(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    log = tmp_path / "log"
    log.write_bytes(
        mark + b'{"job_name":"a","job_start_time":1000.0}\n{"job_name":"a","job_end_time":1060.0}\n'
    )
    result = run(log, "--format", "json")
    assert json.loads(result.stdout)["garbage"] == 0
    assert json.loads(result.stdout)["jobs"][0]["conserving"]["wall_s"] == 60.0
    (tmp_path / "scr").write_bytes(mark + SCR_LOG.read_bytes())
    assert only_job(tmp_path / "scr") == only_job(SCR_LOG)


def test_logs_may_be_compressed_and_one_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole, half = tmp_path / "log.gz", tmp_path / "half.gz"
    whole.write_bytes(gzip.compress(PRIMER.read_bytes()))
    assert only_job(whole) == only_job(PRIMER)
    many = b"".join(
        b'{"job_name":"a","step_count":%d,"step_start_time":%d}\n' % (n, 7 * n) for n in range(20_000)
    )
    half.write_bytes(gzip.compress(many)[:-5000])
    result = run(half, "--format", "json")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"scrtune: {half}: byte 0: the gzip member that begins here is cut off\n")
    assert json.loads(result.stdout)["jobs"][0]["events"] > 1000


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = run(tmp_path / "pipe")
    assert (result.exit_code, "no regular file" in result.stderr) == (1, True)


def test_what_our_recorder_and_the_one_with_the_peers_names_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))
    recorder = Recorder("r", writer="rank0", log=tmp_path / "r.jsonl")
    begun_s = float(int(time.time()) - 60)  # a recorder takes no times of 1970
    recorder.job_started(at=begun_s)
    for step in range(3):
        recorder.step_started(step, at=begun_s + 10 * step)
    recorder.started("cooling", at=begun_s + 22)
    recorder.ended("cooling", at=begun_s + 25)
    recorder.job_ended(0, at=begun_s + 30)
    recorder.close()
    log = LocalLog("c")
    peer = GoodputRecorder("c", "c", logging_enabled=True, cloud_logger=log)
    peer.record_job_start_time(MOMENT)
    peer.record_step_start_time(0, MOMENT + 10 * SECOND)
    peer.record_step_start_time(1, MOMENT + 20 * SECOND)
    peer.record_job_end_time(MOMENT + 30 * SECOND)
    peer.flush()
    ours, theirs = view(tmp_path / "r.jsonl", log.path)["jobs"][::-1]
    assert (ours["job_name"], theirs["job_name"]) == ("r", "c")
    assert spent(ours) == {"productive": 27.0, "custom:cooling": 3.0}
    assert spent(theirs) == {"startup": 10.0, "productive": 20.0}


def test_a_daemons_journal_is_a_log_with_the_jobs_name(tmp_path: Path) -> None:
    path = tmp_path / "4711" / "node1" / "journal"
    path.parent.mkdir(parents=True)
    journal = Journal(path)
    said: list[Any] = [
        JobStarted(time_s=1.0),
        TuningSwitched(on=False),
        StepCompleted(step=1, start_s=2.0, end_s=9.0),
    ]
    for event in said:
        journal.append(9.0, event)
    journal.flush(9.0)
    journal.close()
    with path.open("ab") as file:
        file.write(b"\x07torn")
    result = run(path, "--format", "json")
    shown = json.loads(result.stdout)
    assert shown["jobs"][0]["job_name"] == "4711"
    assert shown["jobs"][0]["conserving"]["buckets"]["productive"] == 7.0
    assert (shown["entries"], shown["ignored"]) == ({"journal": 2}, {"tuning_switched": 1})
    assert "half a header" in result.stderr


def test_a_job_of_scrtunes_has_its_buckets_as_csv_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path))
    path = JobPaths.of("4711", base=tmp_path).journal
    for directory in (path.parent.parent, path.parent):
        directory.mkdir(mode=0o700)
    journal = Journal(path)
    for event in (
        JobStarted(time_s=1.0),
        StepCompleted(step=1, start_s=2.0, end_s=9.0),
        JobEnded(time_s=9.0),
    ):
        journal.append(9.0, event)
    journal.flush(9.0)
    journal.close()
    shown = [{**row, "job": ""} for row in rows("--job-id", "4711")]
    seconds = {row["what"]: float(row["seconds"]) for row in shown}
    assert (seconds["productive"], seconds["startup"], seconds["wall_time"]) == (7.0, 1.0, 8.0)
    assert seconds["ideal_step"] == 7.0
    assert {row["job"] for row in rows("--job-id", "4711")} == {"4711"}
    assert shown == [{**row, "job": ""} for row in rows(path) if row["policy"] in {"conserving", "steps"}]


def test_scrs_log_alone_is_right_to_a_second() -> None:
    with SCR_LOG.open("rb") as lines:
        records = [record for line in lines if (record := parse_line(line)) is not None]
    (said,) = by_job(records).values()
    outputs = {event.dataset: event for event in said if isinstance(event, OutputCompleted)}
    told = (SCR_LOG.with_suffix(".events")).read_bytes().splitlines()
    known = [line for text in told if isinstance(line := parse_library_line(text), Output)]
    assert len(outputs) == len(known) > 10
    zone_s = round((outputs[1].start_s - known[0].entered_s) / 900) * 900  # the log was written elsewhere
    for true in known:
        guess = outputs[true.dataset]
        assert abs(guess.start_s - zone_s - true.entered_s) <= 1.5
        assert abs(guess.end_s - zone_s - true.closed_s) <= 1.5
    assert sum(isinstance(event, JobStarted) for event in said) == 4
    assert [event.start_s for event in said if isinstance(event, StepCompleted)] == sorted(
        event.start_s for event in said if isinstance(event, StepCompleted)
    )


@pytest.mark.parametrize("name", ["gen4-python-fork-plain", "gen4-python-spawn-gz", "gen2-dftracer-2.0.0"])
def test_traces_are_logs_with_the_checkpoints_that_a_replay_finds(name: str) -> None:
    directory = DATA / "traces" / name
    replayed = replay_traces([directory], JobShape())
    job = only_job(directory)
    assert job["conserving"]["checkpoints"] == replayed.pipeline.account(replayed.end_s).checkpoints
    assert job["conserving"]["wall_s"] == pytest.approx(replayed.end_s - replayed.start_s, abs=1e-3)


def test_of_a_trace_without_checkpoints_no_work_is_known() -> None:
    result = run(DATA / "traces" / "gen4-preload")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no checkpoint in the trace: what of its time was work is not known" in result.stderr


def test_beside_a_log_with_steps_a_trace_adds_checkpoints_only(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", {"job_name": "a", "step_count": 1, "step_start_time": 1.0})
    logs = read_logs([DATA / "traces" / "gen4-python-fork-plain", log])
    kinds = {type(event) for event in logs.jobs["a"].events}
    assert kinds <= {StepStarted, OutputCompleted, RestartCompleted}


# ---- errors ----


def test_files_that_cannot_be_used_are_named_with_the_line(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_text("Dear diary,\n")
    empty = tmp_path / "empty"
    empty.touch()
    for path, text in (
        (tmp_path / "missing", "No such file"),
        (diary, "line 1: no goodput log"),
        (empty, "line 1: no goodput log"),
        (
            tmp_path,
            "name a directory with some; of other logs name each file",
        ),
    ):
        result = run(SAMPLE, path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert str(path) in result.stderr
        assert text in result.stderr
        assert result.stderr.startswith("scrtune: ")
        assert result.stderr.count("\n") == 1


def test_lines_that_cannot_be_read_are_reported_and_harm_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b'{"job_name":"a","job_start_time":1}\n'
        + b"\x1b[31mgarbage\n" * 15
        + b'{"job_name":"a","job_end_time":9}\n'
    )
    result = run(log)
    told = result.stderr.splitlines()
    assert told[0] == f"scrtune: {log}: line 2: no JSON object"
    assert told[-1] == f"scrtune: {log}: 5 more lines like these"
    assert len(told) == 11
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout + result.stderr


def test_a_log_that_says_nothing_of_time_is_no_job(tmp_path: Path) -> None:
    result = run(log_of(tmp_path / "log", {"type": "settings_observed"}, {"no": "entry"}))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "say nothing of a job's time" in result.stderr


def test_what_a_writer_lost_is_reported(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        {"type": "job_started", "time_s": 1.0},
        {"type": "events_lost", "source": "r", "count": 3},
    )
    assert "3 events were lost" in run(log).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (str(SAMPLE), "--job-id", "4711"),
        ("--job-name", "a"),
        *((str(SAMPLE), "--reference-step-time", seconds) for seconds in ("0", "-1", "nan", "inf", "1e300")),
        *(
            (str(SAMPLE), "--interval", "--mtbf-prior", f"24h:{failures}")
            for failures in ("nan", "inf", "1e300")
        ),
        (str(SAMPLE), "--policy", "kind"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_names_in_a_log_do_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", {"job_name": "\x1b]0;title\x07[bold]", "job_start_time": 1})
    result = run(log)
    assert "\x1b" not in result.stdout
    assert "[bold]" in result.stdout


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([*SAMPLE.read_bytes().splitlines(), *PRIMER.read_bytes().splitlines()]),
            st.sampled_from(SCR_LOG.read_bytes().splitlines()),
        ),
        max_size=15,
    ),
    st.booleans(),
)
def test_whatever_a_file_holds_the_command_says_what_it_is(
    tmp_path: Path, lines: list[bytes], packed: bool
) -> None:
    log = tmp_path / "log"
    content = b"\n".join(lines)
    log.write_bytes(gzip.compress(content) if packed else content)
    assert run(log, "--policy", "both", "--reference-step-time", "1").exit_code in (0, 1, 3)


# ---- the page ----

FILE = re.compile(r"`(\w+\.\w+)`:\n\n((?:    .*\n)+)")
SESSION = re.compile(r"^    \$ (scrtune goodput .*)\n\n?((?:(?:    .*)?\n)*?)(?=^\S|\Z)", re.MULTILINE)


def test_the_examples_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, block in FILE.findall(PAGE):
        (tmp_path / name).write_text(re.sub(r"^    ", "", block, flags=re.MULTILINE))
    sessions = SESSION.findall(PAGE)
    assert len(sessions) >= 5
    for command, expected in sessions:
        result = run(*shlex.split(command)[2:])
        assert result.exit_code == 0, command
        printed = [line.rstrip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        assert printed == [line[4:] for line in expected.splitlines() if line.strip()], command
