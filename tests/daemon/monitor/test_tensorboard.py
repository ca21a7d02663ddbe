"""Goodput as TensorBoard's scalars."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrtune.daemon.monitor.tensorboard import TensorBoardScalars

from ...support.monitored_job import feed, last_scalars, scalars, snapshot

WaitUntil = Callable[[Callable[[], object]], None]


def test_a_short_job_is_in_tensorboard_when_its_daemon_has_ended(real_daemon: Any, tmp_path: Path) -> None:
    daemon = real_daemon.start("--tensorboard", str(tmp_path / "tb"))
    feed(daemon)
    assert daemon.end(signal.SIGTERM) == 0
    found = last_scalars(tmp_path / "tb")
    assert found["goodput/goodput"] == (9, pytest.approx(100 * 11 / 12.5))
    assert found["goodput/total_elapsed_time"] == (9, pytest.approx(12.5))
    assert found["goodput/ideal_step_time"] == (9, pytest.approx(1))
    assert found["goodput/max_productive_step"] == (9, 9)
    assert found["badput/checkpoint_write"] == (9, pytest.approx(100 * 0.5 / 12.5))
    assert found["badput/custom/eval_step"] == (9, pytest.approx(100 * 1 / 12.5))
    badput = sum(value for tag, (_, value) in found.items() if tag.startswith("badput/"))
    assert badput + found["goodput/goodput"][1] == pytest.approx(100)


def test_each_step_is_told_once_with_its_distance_from_the_ideal(real_daemon: Any, tmp_path: Path) -> None:
    daemon = real_daemon.start("--tensorboard", str(tmp_path / "tb"), "--monitor-every", "1")
    feed(daemon)
    assert daemon.end(signal.SIGTERM) == 0
    deviations = scalars(tmp_path / "tb")["step_deviation"]
    assert [step for step, _ in deviations] == list(range(10))
    assert dict(deviations)[4] == pytest.approx(1)
    assert dict(deviations)[5] == pytest.approx(0)


def test_a_directory_that_cannot_be_written_is_told_and_the_daemon_lives(
    real_daemon: Any, tmp_path: Path, wait_until: WaitUntil
) -> None:
    (tmp_path / "file").touch()
    daemon = real_daemon.start("--tensorboard", str(tmp_path / "file" / "tb"), "--monitor-every", "1")
    feed(daemon)
    wait_until(lambda: f"scalars in {tmp_path}/file/tb: " in daemon.log())
    status = daemon.view("status")
    assert status.checkpoints == 1
    assert [each.name for each in status.monitors if "Not a directory" in each.failure] == [
        f"scalars in {tmp_path}/file/tb"
    ]
    assert daemon.end(signal.SIGTERM) == 0


def test_scalars_that_could_not_be_written_are_left_to_the_next_snapshot(tmp_path: Path) -> None:
    where = tmp_path / "tb"
    where.touch()  # a file where a directory should be made
    output = TensorBoardScalars(where)
    with pytest.raises(OSError, match="exists"):
        output.write(snapshot(0, 1))
    where.unlink()
    output.write(snapshot(0, 1, 2))
    assert [step for step, _ in scalars(where)["step_deviation"]] == [0, 1, 2]
