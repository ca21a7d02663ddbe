"""``GoodputMonitor``: the peer's scalars while the job runs, an end that never waits, no pretence."""

import datetime as dt
import gc
import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrtune.goodput.compat import goodput, goodput_elastic, monitoring, monitoring_elastic
from scrtune.goodput.compat.goodput_utils import GCPOptions
from scrtune.goodput.compat.store import CompatJob, LocalLog

event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")

PATIENCE_S = 30.0
NO_CLOUD = GCPOptions(enable_gcp_goodput_metrics=False, enable_gcp_step_deviation_metrics=False)


class Scalars:
    """What the event files of a monitor hold."""

    def __init__(self, board: Path) -> None:
        self.board = board
        self.directory = board / "goodput"
        self.titles: dict[str, str] = {}

    @property
    def written(self) -> dict[str, dict[int, float]]:
        """Value by tag and step, in the order in which the tags were written."""
        values: dict[str, dict[int, float]] = {}
        for path in sorted(self.directory.glob("*")):
            content = path.read_bytes()
            while content:
                length = int.from_bytes(content[:8], "little")
                event = event_pb2.Event.FromString(content[12 : 12 + length])
                content = content[16 + length :]
                for value in event.summary.value:
                    self.titles[value.tag] = value.metadata.display_name
                    values.setdefault(value.tag, {})[event.step] = value.simple_value
        return values

    def until(self, tag: str) -> None:
        """Wait until something is written under `tag`."""
        deadline_s = time.monotonic() + PATIENCE_S
        while tag not in self.written:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)


@pytest.fixture
def scalars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scalars:
    monkeypatch.chdir(tmp_path)  # monitors of this module write into a directory below
    return Scalars(tmp_path / "tensorboard")


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of eleven steps, 2 s each, that just ended."""
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))
    recorder = goodput_elastic.ElasticGoodputRecorder("job", "log", True)
    start = dt.datetime.now(dt.timezone.utc) - dt.timedelta(seconds=30)
    recorder.record_job_start_time(start)
    recorder.record_elastic_slice_counts(3, 4, 4, start)
    for step in range(11):
        recorder.record_step_start_time(step, start + dt.timedelta(seconds=4 + 2 * step))
    recorder.record_custom_badput_event_start_time(start + dt.timedelta(seconds=5), "eval_step")
    recorder.record_custom_badput_event_end_time(start + dt.timedelta(seconds=6), "eval_step")
    recorder.record_job_end_time(start + dt.timedelta(seconds=25))


def end_of_threads() -> None:
    """Wait for the end of all monitors' threads."""
    for thread in threading.enumerate():
        if thread.name == "goodput monitor":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    end_of_threads()


def monitor(**arguments: Any) -> Any:
    given = {
        "tensorboard_dir": "tensorboard",
        "upload_interval": 0.01,
        "monitoring_enabled": True,
        "include_badput_breakdown": True,
        "gcp_options": NO_CLOUD,
    }
    return monitoring.GoodputMonitor(job_name="job", logger_name="log", **{**given, **arguments})


def test_goodput_and_badput_are_written_under_the_peers_names(scalars: Scalars) -> None:
    watched = monitor()
    watched.start_goodput_uploader()
    scalars.until("badput/other")
    watched.stop_goodput_uploader()
    assert scalars.written["goodput/goodput"] == {10: pytest.approx(80.0)}
    assert scalars.written["badput/custom_badput_events/eval_step"] == {10: pytest.approx(4.0)}
    assert scalars.written["badput/other"] == {10: pytest.approx(16.0)}
    assert {f"badput/{badput.name.lower()}" for badput in goodput.BadputType} - set(scalars.written) == {
        "badput/custom_badput_events",
        "badput/elastic_slice_down",
        "badput/elastic_scale_up",
        "badput/elastic_reinitialization",
    }


def test_a_custom_interval_keeps_its_name_as_the_plots_title(tmp_path: Path) -> None:
    """Its tag may not have every character."""
    recorder = goodput.GoodputRecorder("named", "log", True)
    begun_s = time.time() - 20
    recorder.record_job_start_time(begun_s)
    recorder.record_step_start_time(0, begun_s + 1)
    recorder.record_custom_badput_event_start_time(begun_s + 2, "eval step#1")
    recorder.record_custom_badput_event_end_time(begun_s + 3, "eval step#1")
    recorder.record_step_start_time(1, begun_s + 10)
    watched = monitoring.GoodputMonitor(
        "named", "log", tmp_path / "tb", 3600, True, include_badput_breakdown=True, gcp_options=NO_CLOUD
    )
    watched.stop_goodput_uploader()
    scalars = Scalars(tmp_path / "tb")
    assert "badput/custom_badput_events/eval_step_1" in scalars.written
    assert scalars.titles["badput/custom_badput_events/eval_step_1"] == "eval step#1"
    assert scalars.titles["badput/tpu_initialization"] == "tpu_initialization"
    assert scalars.titles["goodput/goodput"] == "goodput"


def test_a_stop_writes_a_last_time_and_can_leave_that_out(scalars: Scalars) -> None:
    watched = monitor(include_badput_breakdown=False, upload_interval=3600)
    watched.start_goodput_uploader()
    watched.stop_goodput_uploader(skip_final_flush=True)
    assert scalars.written == {}
    watched.start_goodput_uploader()
    watched.stop_goodput_uploader()
    assert list(scalars.written) == ["goodput/goodput"]


def test_step_deviation_is_written_for_every_step(scalars: Scalars) -> None:
    watched = monitor(include_step_deviation=True, step_deviation_interval_seconds=3600)
    watched.start_step_deviation_uploader()
    watched.stop_step_deviation_uploader()
    assert scalars.written["step_deviation"] == {step: pytest.approx(0.0) for step in range(10)}


def test_step_deviations_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    where = tmp_path / "tensorboard"
    where.touch()  # a file where a directory should be made
    watched = monitor(tensorboard_dir=str(where), include_step_deviation=True)
    watched.stop_step_deviation_uploader()
    where.unlink()
    watched.stop_step_deviation_uploader()
    (written,) = (where / "goodput").iterdir()
    assert written.read_bytes().count(b"step_deviation") == 10


def test_rolling_windows_are_written_each_under_its_length(scalars: Scalars) -> None:
    watched = monitor(upload_interval=3600)
    watched.start_rolling_window_goodput_uploader([1, 600])
    watched.stop_rolling_window_goodput_uploader()
    assert [tag for tag in scalars.written if tag.startswith("rolling_goodput")] == ["rolling_goodput/600s"]


def test_slices_of_an_elastic_job_are_written(scalars: Scalars) -> None:
    watched = monitoring_elastic.ElasticGoodputMonitor(
        "job", "log", "tensorboard", 3600, True, include_slice_efficiency=True, gcp_options=NO_CLOUD
    )
    watched.start_goodput_uploader()
    watched.stop_goodput_uploader()
    assert scalars.written["elastic/stepping_slice_efficiency"] == {10: 0.75}
    assert scalars.written["elastic/available_slice_efficiency"] == {10: 1.0}


def test_without_tensorboardx_it_says_so_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("tensorboardX", "tensorboardX.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        watched = monitor()
        watched.start_goodput_uploader()
        watched.start_step_deviation_uploader()
        watched.start_rolling_window_goodput_uploader([60])
        watched.stop_goodput_uploader()
    assert len(caplog.messages) == 1
    assert "pip install 'scrtune[monitoring]'" in caplog.messages[0]


def test_a_directory_in_a_cloud_is_not_taken_for_one_here(
    scalars: Scalars, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        watched = monitor(tensorboard_dir="gs://bucket/run")
    watched.start_goodput_uploader()
    assert caplog.messages == [
        "goodput is not written to gs://bucket/run: only to directories of this machine"
    ]
    assert not scalars.board.exists()


def test_that_there_is_no_cloud_is_said(scalars: Scalars, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        monitor(gcp_options=GCPOptions())
    assert caplog.messages == ["nothing is sent to Google Cloud Monitoring: scrtune works without a cloud"]


def test_a_monitor_that_is_not_enabled_does_nothing(scalars: Scalars) -> None:
    watched = monitor(monitoring_enabled=False)
    for name in ("goodput", "step_deviation"):
        getattr(watched, f"start_{name}_uploader")()
        getattr(watched, f"stop_{name}_uploader")()
    watched.start_rolling_window_goodput_uploader([60])
    watched.stop_rolling_window_goodput_uploader()
    assert not scalars.board.exists()


def test_a_stop_without_a_start_writes_once_but_for_windows(scalars: Scalars) -> None:
    watched = monitor()
    watched.stop_rolling_window_goodput_uploader()
    watched.stop_goodput_uploader(skip_final_flush=True)
    assert scalars.written == {}
    watched.stop_goodput_uploader()
    assert scalars.written["goodput/goodput"] == {10: pytest.approx(80.0)}
    assert "step_deviation" not in scalars.written
    watched.stop_step_deviation_uploader()
    assert sorted(scalars.written["step_deviation"]) == list(range(10))


def test_a_retention_period_may_be_in_seconds(scalars: Scalars) -> None:
    for week in (7 * 24 * 60 * 60, dt.timedelta(days=7)):
        watched = monitor(max_logs_retention_period=week)
        watched.stop_goodput_uploader()
        assert scalars.written["goodput/goodput"] == {10: pytest.approx(80.0)}
        shutil.rmtree(scalars.directory)


def test_uploaders_of_one_monitor_write_beside_each_other(scalars: Scalars) -> None:
    watched = monitor(include_step_deviation=True)
    watched.start_goodput_uploader()
    watched.start_step_deviation_uploader()
    watched.start_rolling_window_goodput_uploader([60, 600])
    watched.stop_goodput_uploader()
    watched.stop_step_deviation_uploader()
    watched.stop_rolling_window_goodput_uploader()
    assert {"goodput/goodput", "step_deviation", "rolling_goodput/600s"} <= set(scalars.written)


class CountingLog(LocalLog):
    """Counts the entries that are read."""

    count = 0

    def read(self, position: int) -> tuple[list[dict[str, Any]], int]:
        entries, reached = super().read(position)
        self.count += len(entries)
        return entries, reached


def test_each_entry_of_the_log_is_read_once() -> None:
    log = CountingLog("log")
    job = CompatJob(log, "job")
    for _ in range(3):
        job.events()
    assert log.count == 16


def test_a_start_that_comes_twice_is_reported(scalars: Scalars, caplog: pytest.LogCaptureFixture) -> None:
    watched = monitor()
    watched.start_goodput_uploader()
    watched.start_goodput_uploader()
    watched.stop_goodput_uploader()
    assert caplog.messages == ["the goodput uploader runs already"]


# --- the threads


def test_a_failure_is_reported_once_and_ends_nothing(
    tmp_path: Path, scalars: Scalars, caplog: pytest.LogCaptureFixture
) -> None:
    scalars.board.touch()  # a file where a directory should be made
    watched = monitor()
    watched.start_goodput_uploader()
    for _ in range(2):
        watched.start_step_deviation_uploader()
    deadline_s = time.monotonic() + PATIENCE_S
    while not caplog.messages:
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    scalars.board.unlink()
    scalars.until("goodput/goodput")
    watched.stop_goodput_uploader()
    (said,) = caplog.messages
    assert said.startswith("goodput uploader: ")


def test_a_stop_waits_no_longer_than_it_may(
    scalars: Scalars, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    monkeypatch.setattr(CompatJob, "events", lambda _: released.wait(PATIENCE_S) and [])
    watched = monitor(final_flush_timeout_seconds=0.05)
    watched.stop_goodput_uploader()
    assert caplog.messages == ["goodput uploader: the last update is not done in time and is given up"]
    released.set()


def test_a_forked_child_has_none_of_its_parents_works(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from scrtune.goodput.compat import monitoring\n"
        "monitor = monitoring.GoodputMonitor('job', 'log', sys.argv[1], 3600, True)\n"
        "monitor.start_goodput_uploader()\n"
        "if os.fork() == 0:\n"
        "    monitor.stop_goodput_uploader(skip_final_flush=True)\n"
        "    monitor.start_goodput_uploader()\n"
        "    monitor.stop_goodput_uploader()\n"
        "    sys.exit()\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(tmp_path / "tensorboard")]
    ran = subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True, text=True)
    assert ran.stdout == "0\n"
    assert "given up" not in ran.stderr


def test_what_still_runs_when_the_process_ends_writes_a_last_time(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    code = (
        "import sys; from scrtune.goodput.compat import monitoring\n"
        "monitor = monitoring.GoodputMonitor('job', 'log', sys.argv[1], 3600, True)\n"
        "monitor.start_goodput_uploader()"
    )
    directory = tmp_path / "tensorboard"
    subprocess.run([sys.executable, "-c", code, directory], check=True, timeout=PATIENCE_S)
    (written,) = (directory / "goodput").iterdir()
    assert b"goodput/goodput" in written.read_bytes()


def test_a_monitor_that_nobody_holds_any_more_ends_its_threads(scalars: Scalars) -> None:
    watched = monitor(skip_final_flush=True)
    watched.start_goodput_uploader()
    scalars.until("goodput/goodput")
    del watched
    gc.collect()
    end_of_threads()
