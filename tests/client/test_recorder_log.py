"""The log a recorder writes: many processes, forks, full disks, killed jobs."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scrtune.client.event_writer import EventWriter
from scrtune.client.recorder import Recorder
from scrtune.goodput.events import StepStarted
from scrtune.goodput.readers.jsonl import Log

PATIENCE_S = 60.0
HEAD = """
import os, signal, sys, time
from scrtune.client.recorder import Recorder
log, *arguments = sys.argv[1:]
"""


def start(log: Path, code: str, *arguments: str) -> "subprocess.Popen[str]":
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SCRTUNE", "SLURM", "PMI"))}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HEAD + code, str(log), *arguments],
        env=own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(log: Path, code: str, *arguments: str, exit_code: int = 0) -> tuple[str, str]:
    """What `code` says on standard output and on standard error; it has to end."""
    process = start(log, code, *arguments)
    told, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == exit_code, errors
    return told, errors


def read(path: Path) -> Log:
    log = Log()
    log.lines(path.read_bytes())
    return log


def steps(path: Path, writer: str | None = None) -> list[int]:
    """The steps in the log, in their order there."""
    log = read(path)
    assert log.problems == []
    return [
        event.step
        for event in log.jobs["j"].events
        if isinstance(event, StepStarted) and (writer is None or event.writer == writer)
    ]


def line(number: int) -> bytes:
    return b'{"number":%d}\n' % number


# --- many processes


def test_processes_that_append_to_one_log_do_not_mix_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
recorder = Recorder("j", writer=arguments[0], log=log)
for step in range(3000):
    recorder.step_started(step)
"""
    processes = [start(log, code, f"rank{rank}") for rank in range(4)]
    for process in processes:
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert len(list(filter(None, log.read_bytes().splitlines()))) == 4 * 3000
    for rank in range(4):
        assert steps(log, f"rank{rank}") == list(range(3000))


def test_a_forked_child_records_its_own_events_and_none_of_its_parents(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
recorder = Recorder("j", writer="parent", log=log)
for step in range(1000):
    recorder.step_started(step)
if os.fork() == 0:
    recorder.writer = "child"
    for step in range(1000, 2000):
        recorder.step_started(step)
    sys.exit()
for step in range(1000, 2000):
    recorder.step_started(step)
os.wait()
"""
    assert run(log, code) == ("", "")
    assert steps(log, "parent") == list(range(2000))
    assert steps(log, "child") == list(range(1000, 2000))


def test_what_a_worker_of_multiprocessing_records_is_there_when_it_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
import multiprocessing
recorder = Recorder("j", writer="", log=log)
def work(number):
    recorder.writer = f"worker{number}"
    for step in range(100):
        recorder.step_started(step)
recorder.step_started(1)
workers = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
    assert worker.exitcode == 0
"""
    assert run(log, code) == ("", "")
    assert steps(log, "") == [1]
    for number in range(3):
        assert steps(log, f"worker{number}") == list(range(100))


# --- the end


def test_what_was_recorded_is_there_when_the_process_has_ended_however_it_ends(tmp_path: Path) -> None:
    endings = {"return": 0, "sys.exit(3)": 3, "1 / 0": 1}
    for number, (ending, exit_code) in enumerate(endings.items()):
        code = f"""
recorder = Recorder("j", log=log)
def main():
    for step in range(500):
        recorder.step_started(step)
    {ending}
main()
"""
        run(tmp_path / str(number), code, exit_code=exit_code)
        assert steps(tmp_path / str(number)) == list(range(500))


def test_a_killed_process_loses_nothing_that_was_flushed_and_leaves_no_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
recorder = Recorder("j", log=log)
for step in range(1 << 62):
    recorder.step_started(step)
    if step % 1000 == 999:
        assert recorder.flush(60.0)
        print(step, flush=True)
"""
    process = start(log, code)
    assert process.stdout is not None
    flushed = [int(process.stdout.readline()) for _ in range(5)][-1]
    process.kill()
    told, errors = process.communicate(timeout=PATIENCE_S)
    flushed = max([flushed, *map(int, re.findall(r"^\d+$", told, re.MULTILINE)[:-1])])
    assert (process.returncode, errors) == (-signal.SIGKILL, "")
    whole = log.read_bytes().rpartition(b"\n")[0].splitlines()
    log.write_bytes(b"\n".join(whole))
    there = steps(log)
    assert there == list(range(len(there)))
    assert len(there) > flushed


def test_without_a_flush_it_is_the_thread_that_writes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
recorder = Recorder("j", log=log)
recorder.step_started(1)
while not (os.path.exists(log) and os.path.getsize(log)):
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run(log, code, exit_code=-signal.SIGKILL)
    assert steps(log) == [1]


def test_a_signal_handler_may_record_while_the_thread_that_it_interrupts_does(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
recorder = Recorder("j", writer="", log=log)
count = 0
def handle(number, frame):
    global count
    recorder.record_data_loading_start_time()
    recorder.record_step_start_time("no step")
    count += 1
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
step = 0
while count < 200:
    recorder.step_started(step)
    recorder.record_step_start_time("no step")
    step += 1
signal.setitimer(signal.ITIMER_REAL, 0, 0)
recorder.close()
print(step, count, recorder.lost - step)
"""
    told, _ = run(log, code)
    step, count, refused = map(int, told.split())
    assert refused == count
    assert steps(log) == list(range(step))
    assert len(read(log).jobs["j"].events) == step + count


# --- when nothing can be written


def test_with_a_full_disk_only_events_beyond_a_limit_are_lost(tmp_path: Path) -> None:
    code = """
recorder = Recorder("j", log=log, queue_limit=100)
for step in range(1000):
    recorder.step_started(step)
    if step % 50 == 0:
        recorder.flush()
recorder.flush()
print(recorder.lost)
recorder.close()
print(recorder.lost)
"""
    told, errors = run(Path("/dev/full"), code)
    assert told.split() == ["900", "1000"]
    first, last = errors.splitlines()
    assert first.startswith("scrtune: /dev/full: No space left on device; ")
    assert last == "scrtune: 1000 events are not in /dev/full: No space left on device"


def test_a_disk_that_has_room_again_gets_every_line_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = """
import resource
recorder = Recorder("j", log=log)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, most))
for step in range(500):
    recorder.step_started(step)
assert not recorder.flush(60.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
for step in range(500, 600):
    recorder.step_started(step)
assert recorder.flush(60.0)
print(recorder.lost)
"""
    told, errors = run(log, code)
    assert told == "0\n"
    assert errors.startswith(f"scrtune: {log}: File too large; ")
    read_back = read(log)
    assert [event.step for event in read_back.jobs["j"].events if isinstance(event, StepStarted)] == list(
        range(600)
    )
    assert read_back.garbage <= 1  # the line that was cut off


def test_a_directory_that_is_made_later_gets_what_waited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recorder("j", log=tmp_path / "later" / "log") as recorder:
        recorder.step_started(1)
        assert not recorder.flush(PATIENCE_S)
        (tmp_path / "later").mkdir()
        recorder.step_started(2)
        assert recorder.flush(PATIENCE_S)
    assert steps(recorder.log) == [1, 2]
    assert capsys.readouterr().err.count("\n") == 1


STEPS_UNTIL_EVERY_QUEUE_IS_FULL = """
recorder = Recorder("j", log=log, queue_limit=10000)
for step in range(30000):
    recorder.step_started(step)
recorder.flush(0.01)
recorder.close()
print(recorder.lost)
"""


def test_a_log_whose_writes_hang_holds_up_neither_the_application_nor_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    pipe = os.open(log, os.O_RDWR)  # nobody reads it: a write hangs when it is full
    try:
        told, errors = run(log, STEPS_UNTIL_EVERY_QUEUE_IS_FULL)
        there = os.read(pipe, 1 << 20).count(b"\n")
    finally:
        os.close(pipe)
    # of the write that hangs the pipe has a part: the recorder counts its lines as not written
    in_one_write = 20_000
    assert 30_000 - there <= int(told) <= min(30_000, 30_000 - there + in_one_write)
    assert errors == f"scrtune: {told.strip()} events are not in {log}: it does not take them\n"


@pytest.mark.parametrize("step", ["step", "'no step'"])
def test_a_log_that_hangs_when_it_is_opened_holds_up_neither_the_application_nor_its_end(
    tmp_path: Path, step: str
) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)  # who opens it to write waits for a reader
    code = """
opened = os.open
os.open = lambda path, flags, mode=0o777: opened(path, flags & ~os.O_RDWR | os.O_WRONLY, mode)
"""
    told, errors = run(log, code + STEPS_UNTIL_EVERY_QUEUE_IS_FULL.replace("(step)", f"({step})"))
    assert told == "30000\n"
    assert errors == f"scrtune: 30000 events are not in {log}: it does not take them\n"


def test_losses_are_recorded_in_the_log_when_it_takes_lines_again(tmp_path: Path) -> None:
    with Recorder("j", writer="rank0", log=tmp_path / "later" / "log", queue_limit=3) as recorder:
        for step in range(8):
            recorder.step_started(step)
            assert not recorder.flush(PATIENCE_S)
        (tmp_path / "later").mkdir()
        assert recorder.flush(PATIENCE_S)
    assert steps(recorder.log) == [0, 1, 2]
    assert (recorder.lost, read(recorder.log).lost) == (5, 5)


def test_where_no_thread_can_be_had_the_end_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    recorder = Recorder("j", log=tmp_path / "log")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for step in range(300):
            recorder.step_started(step)
        recorder.close()
    assert steps(tmp_path / "log") == list(range(300))


# --- lines


def test_lines_of_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "log")
    assert all(writer.put(line(number)) for number in range(1000))
    writer.close()
    assert (tmp_path / "log").read_bytes() == b"".join(map(line, range(1000)))
    assert not writer.put(line(1000))


def test_a_closed_standard_error_is_no_reason_to_fail(tmp_path: Path) -> None:
    code = """
sys.stderr.close()
with Recorder("j", log=log) as recorder:
    recorder.step_started("no step")
"""
    assert run(tmp_path / "log", code) == ("", "")
