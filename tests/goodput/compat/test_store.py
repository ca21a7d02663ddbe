"""The local log: whole lines, by a thread; nobody waits for it, it fails nobody, and loses no neighbour."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.compat import goodput
from scrtune.goodput.compat.store import LocalLog, utc_now
from scrtune.goodput.log.line_log import WAITING_LIMIT, log_path


@pytest.fixture(autouse=True)
def _logs_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))


def read_all(log: LocalLog) -> list[dict[str, object]]:
    entries, position = log.read(0)
    while True:
        more, reached = log.read(position)
        if reached == position:
            return entries
        entries, position = entries + more, reached


def test_what_is_appended_is_read_in_order_and_read_on(tmp_path: Path) -> None:
    log = LocalLog("run")
    assert log.read(0) == ([], 0)
    for number in range(3):
        log.append({"number": number})
    entries, position = log.read(0)
    assert [entry["number"] for entry in entries] == [0, 1, 2]
    assert log.read(position) == ([], position)
    log.append({"number": 3})
    assert log.read(position)[0] == [{"number": 3}]
    log.flush()


def test_the_file_is_json_lines_that_anything_can_read(tmp_path: Path) -> None:
    log = LocalLog("goodput/run 1")
    log.append({"job_name": "j", "step_count": 1, "step_start_time": 1.5})
    log.flush()
    path = tmp_path / "goodput_run_1.jsonl"
    assert json.loads(path.read_text()) == {"job_name": "j", "step_count": 1, "step_start_time": 1.5}


def test_a_line_that_is_still_being_written_is_read_later(tmp_path: Path) -> None:
    log = LocalLog("run")
    log.append({"number": 0})
    log.flush()
    with log.path.open("ab") as file:
        file.write(b'{"number":')
    entries, position = log.read(0)
    assert entries == [{"number": 0}]
    with log.path.open("ab") as file:
        file.write(b"1}\n")
    assert log.read(position)[0] == [{"number": 1}]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=10))
def test_garbage_costs_no_neighbour(garbage: list[bytes]) -> None:
    log = LocalLog(uuid.uuid4().hex)
    log.append({"number": 0})
    log.flush()
    with log.path.open("ab") as file:
        file.writelines(line + b"\n" for line in garbage)
    log.append({"number": 1})
    first, *said, last = read_all(log)
    assert (first, last) == ({"number": 0}, {"number": 1})
    assert len(said) <= len(garbage)
    log.close()


def test_two_processes_write_whole_lines_into_one_log(tmp_path: Path) -> None:
    code = (
        "import sys; from scrtune.goodput.compat.store import LocalLog; log = LocalLog('run')\n"
        "for number in range(500): log.append({'writer': sys.argv[1], 'number': number, 'text': 'x' * 300})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    log = LocalLog("run")
    entries = read_all(log)
    for name in "ab":
        assert [entry["number"] for entry in entries if entry["writer"] == name] == list(range(500))


def test_threads_share_a_log(tmp_path: Path) -> None:
    log = LocalLog("run")
    begin = threading.Barrier(4)

    def write() -> None:
        begin.wait()
        for number in range(100):
            log.append({"number": number})

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_all(log)) == 400


def test_a_log_that_cannot_be_written_is_reported_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("")
    log = LocalLog("run")
    with caplog.at_level(logging.WARNING):
        log.append({"number": 0})
        log.flush()
        for number in (1, 2):
            log.append({"number": number})
    assert [("does not have all entries yet" in said, "tried again" in said) for said in caplog.messages] == [
        (True, False),
        (False, True),
    ]
    assert "set SCRTUNE_GOODPUT_DIR to a directory that can be written" in caplog.messages[1]
    (tmp_path / "file").unlink()
    assert [entry["number"] for entry in read_all(log)] == [0, 1, 2]


def test_what_finds_no_place_is_counted_and_reported_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("")
    log = LocalLog("run")
    line = {"number": 0}
    log.append(line)
    assert not log._writer.flush()  # the thread has it, and cannot write it
    while not log._writer.lost:
        log.append(line)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        log.close()
    (said,) = caplog.messages
    waiting, where = re.fullmatch(r"(\d+) lines are not in (\S+): Not a directory", said).groups()  # type: ignore[union-attr]
    assert int(waiting) > WAITING_LIMIT
    assert log._writer.lost == int(waiting)
    assert where == str(log.path)


def test_what_a_killed_process_left_of_its_line_spoils_no_other(tmp_path: Path) -> None:
    before = LocalLog("run")
    before.append({"number": 0})
    before.close()
    with before.path.open("ab") as file:
        file.write(b'{"number":1,"te')
    log = LocalLog("run")
    log.append({"number": 2})
    assert read_all(log) == [{"number": 0}, {}, {"number": 2}]


def test_a_log_longer_than_one_read_comes_in_pieces() -> None:
    """Also entries that are longer than what is read at once, 1 MiB."""
    log = LocalLog("run")
    for number in range(20):
        log.append({"number": number, "text": "x" * (number * 70_000)})
    log.flush()
    assert 0 < len(log.read(0)[0]) < 20
    assert [entry["number"] for entry in read_all(log)] == list(range(20))


def test_where_the_log_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCRTUNE_GOODPUT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert LocalLog("run").path == log_path("run") == tmp_path / "run.jsonl"
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", "here")
    log = LocalLog("a/b run")
    assert log.path == log_path("a/b run") == tmp_path / "here" / "a_b_run.jsonl"
    monkeypatch.chdir(tmp_path.parent)
    log.append({"number": 0})
    assert read_all(log) == [{"number": 0}]
    assert (tmp_path / "here" / "a_b_run.jsonl").exists()


def test_what_one_process_appends_by_several_logs_is_in_the_file_in_that_order(tmp_path: Path) -> None:
    logs = [LocalLog("run") for _ in range(3)]
    for number in range(300):
        logs[number % 3].append({"number": number})
    assert [entry["number"] for entry in read_all(LocalLog("run"))] == list(range(300))
    logs[0].close()
    logs[1].append({"number": 300})
    assert read_all(logs[2])[-1] == {"number": 300}


def run(directory: Path, code: str) -> str:
    """What `code` says on standard output and on standard error; it has to end well, and within a minute."""
    head = "import os, signal, sys, time\nfrom scrtune.goodput.compat import goodput\n"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", head + code],
        env={**os.environ, "SCRTUNE_GOODPUT_DIR": str(directory)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout + ran.stderr


def test_a_log_that_hangs_holds_up_neither_the_application_nor_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.jsonl")  # nobody reads it: a write hangs when it is full
    code = """
descriptor = os.open(os.environ["SCRTUNE_GOODPUT_DIR"] + "/log.jsonl", os.O_RDWR)
recorder = goodput.GoodputRecorder("job", "log", True)
for step in range(5000):
    recorder.record_step_start_time(step)
"""
    assert re.fullmatch(r"4\d\d\d lines are not in \S+: it does not take them\n", run(tmp_path, code))


def test_every_waiter_for_a_log_that_hangs_waits_from_when_the_first_one_did(tmp_path: Path) -> None:
    """A second for each flush, for the monitor's reading of the log and for the end would add up."""
    code = """
from scrtune.goodput.compat import monitoring
from scrtune.goodput.log.line_writer import LineWriter
waited_s = []
left_s, write = LineWriter._left_s, os.write
def noted(writer, timeout_s):
    waited_s.append(left_s(writer, timeout_s))
    return waited_s[-1]
def hanging(descriptor, data):
    time.sleep(3600 if b"step_count" in data else 0)
    return write(descriptor, data)
LineWriter._left_s, os.write = noted, hanging
options = monitoring.GCPOptions(enable_gcp_goodput_metrics=False, enable_gcp_step_deviation_metrics=False)
monitor = monitoring.GoodputMonitor("job", "log", "tb", 3600, True, gcp_options=options)
recorder = goodput.GoodputRecorder("job", "log", True)
recorder.record_step_start_time(1)
recorder.flush()
recorder.flush()
monitor.stop_goodput_uploader()
recorder._log.close()
monitor._scalars._calculator._job._log.close()
print(len(waited_s), sum(left_s > 0 for left_s in waited_s), max(waited_s) <= 1)
"""
    said = run(tmp_path, code)
    assert said.startswith("4 1 True\n")
    assert said.endswith(f"1 lines are not in {tmp_path}/log.jsonl: it does not take them\n")


def test_what_no_json_can_have_is_lost_and_reported_and_raises_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = LocalLog("run")
    with caplog.at_level(logging.WARNING):
        log.append({"number": object()})
        log.append({"number": {(): 0}})
        log.append({"number": 1})
        log.close()
    assert [json.loads(line) for line in log.path.read_text().splitlines()] == [{"number": 1}]
    assert caplog.messages == [
        f"2 lines are not in {log.path}: no place was left for them, or no JSON can have them"
    ]


def test_what_was_recorded_is_there_when_the_process_has_ended(tmp_path: Path) -> None:
    code = """
recorder = goodput.GoodputRecorder("job", "log", True)
for step in range(3000):
    recorder.record_step_start_time(step)
"""
    assert run(tmp_path, code) == ""
    assert [entry["step_count"] for entry in read_all(LocalLog("log"))] == list(range(3000))


def test_it_is_the_thread_that_writes(tmp_path: Path) -> None:
    code = """
recorder = goodput.GoodputRecorder("job", "log", True)
recorder.record_step_start_time(1)
path = os.environ["SCRTUNE_GOODPUT_DIR"] + "/log.jsonl"
while not (os.path.exists(path) and os.path.getsize(path)):
    time.sleep(0.001)
print("written")
sys.stdout.flush()
os._exit(0)
"""
    assert run(tmp_path, code) == "written\n"


def test_a_forked_child_records_its_own_entries_and_none_of_its_parents(tmp_path: Path) -> None:
    code = """
import multiprocessing
recorder = goodput.GoodputRecorder("parent", "log", True)
for step in range(1000):
    recorder.record_step_start_time(step)
def work():
    recorder.job_name = "worker"
    for step in range(100):
        recorder.record_step_start_time(step)
worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
worker.join()
if os.fork() == 0:
    recorder.job_name = "child"
    for step in range(1000):
        recorder.record_step_start_time(step)
    sys.exit()
os.wait()
"""
    assert run(tmp_path, code) == ""
    entries = read_all(LocalLog("log"))
    for job, steps in (("parent", 1000), ("child", 1000), ("worker", 100)):
        assert [entry["step_count"] for entry in entries if entry["job_name"] == job] == list(range(steps))


def test_a_pool_whose_workers_end_by_themselves_loses_nothing(tmp_path: Path) -> None:
    code = """
import multiprocessing
def work(worker):
    recorder = goodput.GoodputRecorder(f"worker {worker}", "log", True)
    for step in range(100):
        recorder.record_step_start_time(step)
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.map(work, range(4), chunksize=1)
    pool.close()
    pool.join()
"""
    assert run(tmp_path, code) == ""
    entries = read_all(LocalLog("log"))
    for worker in range(4):
        of_worker = [entry["step_count"] for entry in entries if entry["job_name"] == f"worker {worker}"]
        assert of_worker == list(range(100))


class MockCloudLogger:
    """As users of the peer have it in their tests: it tells of no last entry, and gives all of them again."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)

    def read_cloud_logging_entries(self, *_: Any, **__: Any) -> Any:
        return list(self.entries), None


class FollowingCloudLogger(MockCloudLogger):
    """As the peer's own one: who has the last entry's time and id gets what came later."""

    def read_cloud_logging_entries(
        self, start_time: Any = None, end_time: Any = None, last_entry_info: Any = None
    ) -> Any:
        assert (start_time is None) == (end_time is None) == (last_entry_info is None)
        new = self.entries[int(last_entry_info[1]) if last_entry_info else 0 :]
        return new, (utc_now(), str(len(self.entries))) if new else (None, None)


@pytest.mark.parametrize("logger", [MockCloudLogger(), FollowingCloudLogger()])
def test_a_logger_with_the_peers_methods_is_taken(logger: MockCloudLogger) -> None:
    recorder = goodput.GoodputRecorder("job", "log", True, logger)
    calculator = goodput.GoodputCalculator("job", "log", logger)
    recorder.record_job_start_time(10.0)
    for step in range(4):
        recorder.record_step_start_time(step, 20.0 + 10 * step)
    recorder.record_job_end_time(60.0)
    recorder.flush()
    assert calculator.get_job_goodput() == (80.0, {}, 3)
    recorder.record_job_end_time(90.0)
    assert calculator.get_job_goodput() == (87.5, {}, 3)
    assert len(logger.entries) == 7
