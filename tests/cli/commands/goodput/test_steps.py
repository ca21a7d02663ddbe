"""What steps took, by the logs of one or several ranks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.goodput.events import (
    GoodputEvent,
    JobStarted,
    StepCompleted,
)

from ....support.goodput_command import PRIMER, SAMPLE, SCR_LOG, log_of, only_job, rows, run


def two_ranks(directory: Path) -> list[Path]:
    """Logs of two ranks over two runs: the second takes half as long again, the first hangs once."""
    logs = [directory / f"{rank}.jsonl" for rank in range(2)]
    for rank, log in enumerate(logs):
        events: list[GoodputEvent] = []
        for attempt in range(2):
            begun_s = 1000.0 * attempt
            if rank == 0:
                events.append(JobStarted(time_s=begun_s, ranks=2, writer="rank0"))
            for step in range(10 * attempt, 20 + 10 * attempt):  # its second half is lost
                start_s = begun_s + 10 + 5 * (step - 10 * attempt)
                took_s = 4.0 if (rank, attempt, step) == (0, 1, 25) else (0.2, 0.3)[rank]
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
