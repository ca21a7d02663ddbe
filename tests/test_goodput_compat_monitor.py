"""``GoodputMonitor``: the peer's scalars while the job runs, an end that never waits, no pretence."""

import datetime as dt
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrtune.goodput import compat_monitor
from scrtune.goodput.compat import GCPOptions, goodput, goodput_elastic, monitoring, monitoring_elastic
from scrtune.goodput.store import Periodic, stop_all

PATIENCE_S = 30.0
NO_CLOUD = GCPOptions(enable_gcp_goodput_metrics=False, enable_gcp_step_deviation_metrics=False)


class Scalars:
    """Stands for the event file: what it is given."""

    def __init__(self) -> None:
        self.directory = ""
        self.written: dict[str, dict[int, float]] = {}
        self.flushed = threading.Event()

    def open(self, directory: str) -> "Scalars":
        self.directory = directory
        return self

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.written.setdefault(tag, {})[global_step] = scalar_value

    def flush(self) -> None:
        self.flushed.set()


@pytest.fixture
def scalars(monkeypatch: pytest.MonkeyPatch) -> Scalars:
    scalars = Scalars()
    monkeypatch.setattr(compat_monitor, "TensorBoard", scalars.open)
    return scalars


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


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    names = [thread.name for thread in threading.enumerate() if "uploader" in thread.name]
    assert names == []


def monitor(**arguments: Any) -> Any:
    given = {
        "tensorboard_dir": "/tensorboard",
        "monitoring_enabled": True,
        "include_badput_breakdown": True,
        "gcp_options": NO_CLOUD,
    }
    return monitoring.GoodputMonitor(
        job_name="job", logger_name="log", upload_interval=0.01, **{**given, **arguments}
    )


def test_goodput_and_badput_are_written_under_the_peers_names(scalars: Scalars) -> None:
    watched = monitor()
    watched.start_goodput_uploader()
    assert scalars.flushed.wait(PATIENCE_S)
    watched.stop_goodput_uploader()
    assert scalars.directory == "/tensorboard/goodput"
    assert scalars.written["goodput/goodput"] == {10: pytest.approx(80.0)}
    assert scalars.written["badput/custom_badput_events/eval_step"] == {10: pytest.approx(4.0)}
    assert scalars.written["badput/other"] == {10: pytest.approx(16.0)}
    assert {f"badput/{badput.name.lower()}" for badput in goodput.BadputType} - set(scalars.written) == {
        "badput/custom_badput_events",
        "badput/elastic_slice_down",
        "badput/elastic_scale_up",
        "badput/elastic_reinitialization",
    }


def test_a_stop_writes_a_last_time_and_can_leave_that_out(scalars: Scalars) -> None:
    watched = monitor(include_badput_breakdown=False)
    watched._upload_interval_s = 3600.0
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


def test_rolling_windows_are_written_each_under_its_length(scalars: Scalars) -> None:
    watched = monitor()
    watched._upload_interval_s = 3600.0
    watched.start_rolling_window_goodput_uploader([1, 600])
    watched.stop_rolling_window_goodput_uploader()
    assert [tag for tag in scalars.written if tag.startswith("rolling_goodput")] == ["rolling_goodput/600s"]


def test_slices_of_an_elastic_job_are_written(scalars: Scalars) -> None:
    watched = monitoring_elastic.ElasticGoodputMonitor(
        "job", "log", "/tensorboard", 3600, True, include_slice_efficiency=True, gcp_options=NO_CLOUD
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
    assert scalars.directory == ""


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
    assert scalars.directory == ""


def test_a_failure_is_told_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tried = threading.Semaphore(0)

    def work() -> None:
        tried.release()
        raise OSError("the disk is full")

    with caplog.at_level(logging.WARNING):
        periodic = Periodic(work, 0.001, "some uploader")
        for _ in range(5):
            assert tried.acquire(timeout=PATIENCE_S)
        assert stop_all([periodic], once_more=False, timeout_s=PATIENCE_S)
    assert caplog.messages == ["some uploader: the disk is full"]


def test_a_stop_does_not_wait_for_what_hangs(caplog: pytest.LogCaptureFixture) -> None:
    released = threading.Event()
    hanging = [Periodic(lambda: void(released), 3600, f"uploader {number}") for number in range(2)]
    with caplog.at_level(logging.WARNING):
        assert not stop_all(hanging, once_more=True, timeout_s=0.05)
    assert len(caplog.messages) == 2
    assert all("is given up" in message for message in caplog.messages)
    released.set()
    assert stop_all(hanging, once_more=False, timeout_s=None)


def void(released: threading.Event) -> None:
    released.wait(PATIENCE_S)


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
    assert scalars.flushed.wait(PATIENCE_S)
    del watched
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name == "goodput uploader"]
