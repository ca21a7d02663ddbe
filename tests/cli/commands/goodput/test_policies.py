"""The account of a log by either policy: the numbers of the seed, and where and why policies differ."""

import json
from pathlib import Path

import pytest

from scrtune.goodput.compat.differences import Difference, differences
from scrtune.goodput.compat.rules import CompatError, compat_account
from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    JobEnded,
    JobStarted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Ledger

from ....support.goodput_command import PRIMER, SAMPLE, SCR_LOG, log_of, only_job, rows, run

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
