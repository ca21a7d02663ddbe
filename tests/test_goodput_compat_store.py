"""The local log: whole lines, one write each; it never fails the application, and loses no neighbour."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.store import LocalLog, log_path


def read_all(log: LocalLog) -> list[dict[str, object]]:
    entries, position = log.read(0)
    while True:
        more, reached = log.read(position)
        if reached == position:
            return entries
        entries, position = entries + more, reached


def test_what_is_appended_is_read_in_order_and_read_on(tmp_path: Path) -> None:
    log = LocalLog("run", tmp_path)
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
    log = LocalLog("goodput/run 1", tmp_path)
    log.append({"job_name": "j", "step_count": 1, "step_start_time": 1.5})
    path = tmp_path / "goodput_run_1.jsonl"
    assert json.loads(path.read_text()) == {"job_name": "j", "step_count": 1, "step_start_time": 1.5}


def test_a_line_that_is_still_being_written_is_read_later(tmp_path: Path) -> None:
    log = LocalLog("run", tmp_path)
    log.append({"number": 0})
    with log.path.open("ab") as file:
        file.write(b'{"number":')
    entries, position = log.read(0)
    assert entries == [{"number": 0}]
    with log.path.open("ab") as file:
        file.write(b"1}\n")
    assert log.read(position)[0] == [{"number": 1}]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=10))
def test_garbage_is_counted_and_costs_no_neighbour(garbage: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = LocalLog("run", directory)
        log.append({"number": 0})
        with log.path.open("ab") as file:
            file.writelines(line + b"\n" for line in garbage)
        log.append({"number": 1})
        entries = [entry for entry in read_all(log) if "number" in entry]
        assert entries[0] == {"number": 0}
        assert entries[-1] == {"number": 1}
        assert log.unread <= len(garbage)
        log.close()


def test_two_processes_write_whole_lines_into_one_log(tmp_path: Path) -> None:
    code = (
        "import sys; from scrtune.goodput.store import LocalLog; log = LocalLog('run', sys.argv[1])\n"
        "for number in range(500): log.append({'writer': sys.argv[2], 'number': number, 'text': 'x' * 300})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, tmp_path, name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    log = LocalLog("run", tmp_path)
    entries = read_all(log)
    assert log.unread == 0
    for name in "ab":
        assert [entry["number"] for entry in entries if entry["writer"] == name] == list(range(500))


def test_threads_share_a_log(tmp_path: Path) -> None:
    log = LocalLog("run", tmp_path)
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
    assert log.unread == log.lost == 0


def test_a_log_that_cannot_be_written_is_told_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    log = LocalLog("run", tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.append({"number": 0})
    assert log.lost == 3
    assert len(caplog.messages) == 1
    assert "set SCRTUNE_GOODPUT_DIR to a directory that can be written" in caplog.messages[0]


def test_after_a_write_that_was_cut_short_the_next_line_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LocalLog("run", tmp_path)
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:5]))
        log.append({"number": 0})
    log.append({"number": 1})
    assert log.lost == 1
    assert read_all(log) == [{"number": 1}]


def test_what_a_killed_process_left_of_its_line_spoils_no_other(tmp_path: Path) -> None:
    before = LocalLog("run", tmp_path)
    before.append({"number": 0})
    with before.path.open("ab") as file:
        file.write(b'{"number":1,"te')
    log = LocalLog("run", tmp_path)
    log.append({"number": 2})
    assert read_all(log) == [{"number": 0}, {"number": 2}]
    assert log.unread == 1


def test_a_log_longer_than_one_read_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrtune.goodput.store._CHUNK_BYTES", 64)
    log = LocalLog("run", tmp_path)
    for number in range(20):
        log.append({"number": number, "text": "x" * (number * 10)})
    assert [entry["number"] for entry in read_all(log)] == list(range(20))


def test_where_the_log_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCRTUNE_GOODPUT_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert log_path("run") == tmp_path / "state" / "scrtune" / "goodput" / "run.jsonl"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert log_path("run") == tmp_path / ".local" / "state" / "scrtune" / "goodput" / "run.jsonl"
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path / "here"))
    assert log_path("run") == tmp_path / "here" / "run.jsonl"
