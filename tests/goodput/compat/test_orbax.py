"""Orbax's logger over a local log: its saves and restores are badput of the job."""

from pathlib import Path

import pytest

from scrtune.goodput.compat import goodput
from scrtune.goodput.compat.goodput_utils import BadputType
from scrtune.goodput.compat.orbax import CloudLogger, CloudLoggerOptions


@pytest.fixture(autouse=True)
def _logs_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))


def test_saves_and_restores_that_orbax_logs_are_badput() -> None:
    recorder = goodput.GoodputRecorder("run", "goodput_run", logging_enabled=True)
    recorder.record_job_start_time(0.0)
    for step in range(4):
        recorder.record_step_start_time(step, 10.0 + 20 * step)
    recorder.record_job_end_time(100.0)
    logger = CloudLogger(options=CloudLoggerOptions(job_name="run", logger_name="goodput_run"))
    save = {
        "step": 2,
        "event_type": "save",
        "directory": "/checkpoints",
        "synchronous": False,
        "preemption_received_at": None,
        "checkpoint_manager_blocking_start_time": 50.0,
        "checkpoint_manager_blocking_duration_secs": 4.0,
    }
    logger.log_entry(save)
    logger.log_entry(
        {
            "step": 0,
            "event_type": "restore",
            "directory": "/checkpoints",
            "checkpoint_manager_start_time": 2.0,
            "checkpoint_manager_duration_secs": 6.0,
        },
        severity="INFO",
    )
    assert "job_name" not in save
    _, badput, _ = goodput.GoodputCalculator("run", "goodput_run").get_job_goodput(True)
    assert badput[BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] == pytest.approx(4.0)
    assert badput[BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME] == pytest.approx(6.0)


def test_an_entry_that_no_json_can_have_raises_nothing() -> None:
    CloudLogger().log_entry({"event_type": object()})
