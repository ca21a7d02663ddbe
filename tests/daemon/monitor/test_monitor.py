"""The threads of the monitors: whatever fails or hangs is shown, and delays nothing else."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from scrtune.daemon import views
from scrtune.daemon.monitor.monitor import Monitor, SinkThread
from scrtune.daemon.monitor.snapshot import OTHERS, Sink, Snapshot, bounded
from scrtune.daemon.options import Monitoring
from scrtune.goodput.events import JobEnded
from scrtune.intents.pipeline import Pipeline

from ...support.monitored_job import BEGUN_S, feed, scalars, snapshot

WaitUntil = Callable[[Callable[[], object]], None]
HEAVY = {"prometheus_client", "tensorboardX", "google.protobuf", "wsgiref", "http.server"}


class Recording:
    """A sink that may fail or wait, and remembers what it was given."""

    name = "a recording"

    def __init__(self, *, is_open: bool = True) -> None:
        self.failure: Exception | None = None
        self.goes_on = threading.Event()
        if is_open:
            self.goes_on.set()
        self.attempts = 0
        self.steps: list[list[int]] = []

    def write(self, snapshot: Snapshot) -> None:
        assert self.goes_on.wait(30)
        failure = self.failure
        self.attempts += 1
        if failure:
            raise failure
        self.steps.append([step for step, _ in snapshot.deviations])


def test_a_daemon_that_hears_nothing_of_a_job_writes_nothing(real_daemon: Any, tmp_path: Path) -> None:
    """In an allocation the daemon of every node is told where to write; one of them looks after the job."""
    options = ("--tensorboard", str(tmp_path / "tb"), "--csv", str(tmp_path / "g.csv"))
    daemon = real_daemon.start(*options, "--monitor-every", "1")
    daemon.tell(JobEnded(time_s=BEGUN_S, exit_code=0))
    daemon.until_events(1)
    assert daemon.end(signal.SIGTERM) == 0
    assert not (tmp_path / "tb").exists()
    assert not (tmp_path / "g.csv").exists()


def test_a_file_system_that_hangs_delays_neither_the_loop_nor_the_end_nor_another_one(
    real_daemon: Any, tmp_path: Path, wait_until: WaitUntil
) -> None:
    hanging = tmp_path / "pipe"
    os.mkfifo(hanging)  # to open it waits for somebody who reads
    where = ("--csv", str(hanging), "--tensorboard", str(tmp_path / "tb"))
    daemon = real_daemon.start(*where, "--monitor-every", "1")
    feed(daemon)
    wait_until(lambda: daemon.view("status").checkpoints == 1)
    wait_until(lambda: len(scalars(tmp_path / "tb").get("goodput/goodput", ())) > 2)
    assert daemon.end(signal.SIGTERM) == 0
    given_up = "the last update is not done in time and is given up"
    assert f"rows in {hanging}: {given_up}" in daemon.log()
    assert daemon.log().count(given_up) == 1


def test_a_full_disk_is_told_once_and_costs_whole_rows_only(
    real_daemon: Any, tmp_path: Path, wait_until: WaitUntil
) -> None:
    path = tmp_path / "g.csv"
    before = "time_s,goodput,job_id\n" + 20_000 * "1.0,0.5,before\n"
    path.write_text(before)
    daemon = real_daemon.start(
        "--csv", str(path), "--tensorboard", str(tmp_path / "tb"), "--monitor-every", "1"
    )
    process = psutil.Process(daemon.process.pid)
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (len(before) + 3, hard))
    feed(daemon)
    wait_until(lambda: f"rows in {path}: [Errno 27]" in daemon.log())
    failures = {each.name: each.failure for each in daemon.view("status").monitors}
    assert failures.pop(f"scalars in {tmp_path}/tb") == ""
    assert failures.pop(f"rows in {path}").startswith("[Errno 27] File too large")
    assert not any(failures.values())
    wait_until(lambda: len(scalars(tmp_path / "tb").get("goodput/goodput", ())) > 2)
    assert path.read_text() == before
    assert daemon.log().count("File too large") == 1
    process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
    wait_until(lambda: not any(each.failure for each in daemon.view("status").monitors))
    assert daemon.end(signal.SIGTERM) == 0
    after = path.read_text().removeprefix(before).splitlines()
    assert all(re.fullmatch(r"[\d.]+,0\.\d+,j", line) for line in after), after
    assert after[-1].endswith(",0.88,j"), "the first may be of a job that was not all told yet"


def test_one_that_hangs_is_shown_and_goes_on_where_it_hung() -> None:
    hanging, good = Recording(is_open=False), Recording()
    threads = [SinkThread(name, lambda sink=sink: sink, hangs_s=0) for name, sink in named(hanging, good)]
    for thread in threads:
        thread.give(snapshot())
        thread.finish()
    assert threads[1].join(30)
    assert not threads[0].join(0.2)
    assert threads[0].view.failure == "the last write has not ended for 0 s"
    assert threads[1].view.failure == ""
    hanging.goes_on.set()
    assert threads[0].join(30)
    assert threads[0].view.failure == ""
    assert hanging.steps == good.steps == [[]]


def named(*sinks: Sink) -> list[tuple[str, Sink]]:
    return [(sink.name, sink) for sink in sinks]


def test_a_snapshot_that_replaces_another_has_its_steps_too(wait_until: WaitUntil) -> None:
    sink = Recording(is_open=False)
    thread = SinkThread(sink.name, lambda: sink)
    for step in range(4):
        thread.give(snapshot(step))
    thread.finish()
    sink.goes_on.set()
    assert thread.join(30)
    assert [step for steps in sink.steps for step in steps] == [0, 1, 2, 3]


def test_what_could_not_be_written_is_logged_once_and_its_steps_come_with_the_next(
    caplog: pytest.LogCaptureFixture, wait_until: WaitUntil
) -> None:
    sink = Recording()
    sink.failure = OSError("no room")
    thread = SinkThread("rows", lambda: sink)
    for step in (0, 1):
        thread.give(snapshot(step))
        wait_until(lambda step=step: sink.attempts > step)
    assert thread.view.failure == "no room; it is tried again"
    assert caplog.messages == ["a recording: no room; it is tried again"]
    sink.failure = None
    thread.give(snapshot(2))
    thread.finish()
    assert thread.join(30)
    assert thread.view.failure == ""
    assert sink.steps == [[0, 1, 2]]


def test_a_library_that_is_missing_or_refused_is_logged_with_what_to_install(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse() -> Sink:
        raise ImportError("Descriptors cannot be created directly")  # what protobuf says of older code

    thread = SinkThread("scalars in tb", refuse)
    thread.give(snapshot())
    thread.finish()
    assert thread.join(30)
    what = "Descriptors cannot be created directly; pip install --upgrade 'scrtune[monitoring]'"
    assert thread.view.failure == what
    assert caplog.messages == [f"scalars in tb: {what}"]


def test_nobody_pays_for_what_is_not_asked_for() -> None:
    code = "import sys, scrtune.cli.main, scrtune.daemon.loop; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(ran.stdout.split())


def monitor(options: Monitoring, pipeline: Pipeline) -> Monitor:
    return Monitor(options, pipeline, lambda now: views.status_view(pipeline, now, job_id="j", host="n"))


class BrokenPipeline(Pipeline):
    """One whose account cannot be made."""

    def account(self, now: float) -> Any:
        raise ZeroDivisionError(now)


def test_a_state_that_cannot_be_shown_is_logged_once_and_the_loop_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = monitor(Monitoring(csv=tmp_path / "g.csv", every_s=1.0), BrokenPipeline())
    watched.start()
    for second in range(3):
        watched.tick(10.0 * second, BEGUN_S)
    watched.end(BEGUN_S)
    assert caplog.messages == ["the job's numbers: they cannot be shown: a bug, see daemon.log"]
    assert [view.name for view in watched.views() if view.failure] == ["the job's numbers"]


def test_a_daemon_that_can_start_no_more_threads_runs_unwatched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refused)
    watched = monitor(Monitoring(csv=Path("g.csv")), Pipeline())
    watched.start()
    watched.tick(1.0, BEGUN_S)
    watched.end(BEGUN_S)
    assert caplog.messages == ["rows in g.csv: can't start new thread"]
    assert [view.failure for view in watched.views()] == ["can't start new thread"]


def test_a_flood_of_names_does_not_become_a_flood_of_metrics() -> None:
    counts = {f"sender {number}": 1 for number in range(1000)}
    assert len(bounded(counts)) == 101
    assert bounded(counts)[OTHERS] == 900
