"""Goodput as TensorBoard's scalars and as rows, what a step should take, files that only grow by wholes."""

import csv
import os
import resource
import signal
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboardX.proto.event_pb2 import Event as TensorBoardEvent
from tensorboardX.record_writer import masked_crc32c

from scrtune.daemon.monitor import scalars as scalars_module
from scrtune.daemon.monitor.scalars import TensorBoardScalars, Writer, to_csv
from scrtune.daemon.monitor.snapshot import Snapshot
from scrtune.goodput.events import (
    Interval,
    JobEnded,
    JobStarted,
    OutputCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.ledger.ledger import Account
from scrtune.goodput.log.append import AppendedFile
from scrtune.goodput.log.tensorboard import TensorBoard
from scrtune.goodput.steps.recent import RecentSteps
from scrtune.intents.events import Event

WaitUntil = Callable[[Callable[[], object]], None]
BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age


def job(steps: int = 10) -> Iterator[Event]:
    """Steps of a second, the fifth two, a custom interval of a second, and a checkpoint of half a second."""
    yield JobStarted(time_s=BEGUN_S, ranks=2)
    now = BEGUN_S
    for step in range(steps):
        end_s = now + (2 if step == 4 else 1)
        yield StepCompleted(step=step, start_s=now, end_s=end_s)
        now = end_s
    yield Interval(kind="custom", name="Eval step", start_s=now, end_s=now + 1)
    yield OutputCompleted(dataset=1, name="c1", start_s=now + 1, end_s=now + 1.5, generation=0, write_s=0.5)
    yield JobEnded(time_s=now + 1.5, exit_code=0)


def events_in(directory: Path) -> Iterator[TensorBoardEvent]:
    """Every event of every event file, with both checksums looked at."""
    for path in sorted(directory.glob("*tfevents*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            assert struct.unpack("<I", content[8:12])[0] == masked_crc32c(content[:8])
            body, rest = content[12 : 12 + length], content[12 + length :]
            assert struct.unpack("<I", rest[:4])[0] == masked_crc32c(body)
            yield TensorBoardEvent.FromString(body)
            content = rest[4:]


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The steps and values of each tag, in the order written."""
    found = defaultdict(list)
    for event in events_in(directory):
        for value in event.summary.value:
            found[value.tag].append((event.step, value.simple_value))
    return dict(found)


def last_scalars(directory: Path) -> dict[str, tuple[int, float]]:
    """The last step and value of each tag: a daemon also writes what it knows when it first looks around."""
    return {tag: values[-1] for tag, values in scalars(directory).items()}


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def told(daemon: Any) -> None:
    events = list(job())
    daemon.tell(*events)
    daemon.until_events(len(events))


def test_a_short_job_is_in_tensorboard_when_its_daemon_has_ended(real_daemon: Any, tmp_path: Path) -> None:
    daemon = real_daemon.start("--tensorboard", str(tmp_path / "tb"))
    told(daemon)
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
    told(daemon)
    assert daemon.end(signal.SIGTERM) == 0
    deviations = scalars(tmp_path / "tb")["step_deviation"]
    assert [step for step, _ in deviations] == list(range(10))
    assert dict(deviations)[4] == pytest.approx(1)
    assert dict(deviations)[5] == pytest.approx(0)


def test_rows_come_with_the_time_and_add_up(real_daemon: Any, tmp_path: Path, wait_until: WaitUntil) -> None:
    path = tmp_path / "deep" / "g.csv"
    daemon = real_daemon.start("--csv", str(path), "--monitor-every", "1")
    told(daemon)
    wait_until(lambda: path.exists() and len(rows_in(path)) > 1)
    assert daemon.end(signal.SIGTERM) == 0
    rows = [row for row in rows_in(path) if not row["window_s"]]
    assert len(rows) > 1
    times = [float(row["time_s"]) for row in rows]
    assert times == sorted(times)
    last = rows[-1]
    assert (last["job_id"], last["steps"], last["checkpoints"]) == ("j", "10", "1")
    assert float(last["goodput"]) == pytest.approx(11 / 12.5)
    assert float(last["custom_s"]) == pytest.approx(1)
    spent = [name for name in last if name.endswith("_s") and name not in NO_BUCKETS]
    assert sum(float(last[name]) for name in spent) == pytest.approx(float(last["wall_s"]))


def test_rolling_windows_are_the_last_so_many_seconds(real_daemon: Any, tmp_path: Path) -> None:
    """The job began minutes ago and goes on: 11 of all its seconds were productive, none of the last ten."""
    path = tmp_path / "g.csv"
    where = ("--csv", str(path), "--tensorboard", str(tmp_path / "tb"))
    daemon = real_daemon.start(*where, "--monitor-window", "10", "--monitor-window", "1h")
    events = [event for event in job() if not isinstance(event, JobEnded)]
    daemon.tell(*events)
    daemon.until_events(len(events))
    assert daemon.end(signal.SIGTERM) == 0
    cumulative, short, long = rows_in(path)[-3:]
    assert (cumulative["window_s"], short["window_s"], long["window_s"]) == ("", "10", "3600")
    assert (float(short["wall_s"]), float(short["goodput"])) == (10, 0)
    assert float(short["other_s"]) == 10
    assert long["wall_s"] == cumulative["wall_s"]  # a window reaches back to the job's start at most
    assert float(long["productive_s"]) == pytest.approx(11)
    found = last_scalars(tmp_path / "tb")
    assert found["rolling_goodput/10s"] == (9, 0)
    assert found["rolling_badput/10s/other"] == (9, 100)
    assert found["rolling_goodput/3600s"] == found["goodput/goodput"]


NO_BUCKETS = {"time_s", "window_s", "wall_s", "ideal_step_s", "step_deviation_s", "checkpoint_cost_s"}


def test_a_file_that_is_there_keeps_its_columns_and_its_rows(real_daemon: Any, tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("time_s,goodput,of_an_older_version,job_id\n1.0,0.5,7,before\n")
    daemon = real_daemon.start("--csv", str(path))
    told(daemon)
    assert daemon.end(signal.SIGTERM) == 0
    rows = rows_in(path)
    assert rows[0] == {"time_s": "1.0", "goodput": "0.5", "of_an_older_version": "7", "job_id": "before"}
    assert float(rows[-1].pop("time_s")) > BEGUN_S
    assert rows[-1] == {"goodput": "0.88", "of_an_older_version": "", "job_id": "j"}


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
    told(daemon)
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
    told(daemon)
    wait_until(lambda: f"rows in {path}: cannot be written: " in daemon.log())
    failures = {each.name: each.failure for each in daemon.view("status").monitors}
    assert failures.pop(f"scalars in {tmp_path}/tb") == ""
    assert failures.pop(f"rows in {path}").startswith("cannot be written: [Errno 27] File too large")
    assert not any(failures.values())
    wait_until(lambda: len(scalars(tmp_path / "tb")["goodput/goodput"]) > 2)
    assert path.read_text() == before
    assert daemon.log().count("cannot be written") == 1
    process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
    wait_until(lambda: not any(each.failure for each in daemon.view("status").monitors))
    assert daemon.end(signal.SIGTERM) == 0
    after = path.read_text().removeprefix(before).splitlines()
    assert after
    assert {line.partition(",")[2] for line in after} == {"0.88,j"}


def test_a_directory_that_cannot_be_written_is_told_and_the_daemon_lives(
    real_daemon: Any, tmp_path: Path, wait_until: WaitUntil
) -> None:
    (tmp_path / "file").touch()
    daemon = real_daemon.start("--tensorboard", str(tmp_path / "file" / "tb"), "--monitor-every", "1")
    told(daemon)
    wait_until(lambda: "cannot be written" in daemon.log())
    status = daemon.view("status")
    assert status.checkpoints == 1
    assert [each.name for each in status.monitors if "Not a directory" in each.failure] == [
        f"scalars in {tmp_path}/file/tb"
    ]
    assert daemon.end(signal.SIGTERM) == 0


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    writer = TensorBoard(tmp_path)
    writer.add_scalar("a/b", 1.5, 7, 12.25)
    assert not list(tmp_path.iterdir())  # nothing is there before there is something to read
    writer.flush()
    writer.add_scalar("not a:tag", 2, 8)
    writer.close()
    version, first, second = events_in(tmp_path)
    assert version.file_version == "brain.Event:2"
    assert (first.wall_time, first.step, first.summary.value[0].tag) == (12.25, 7, "a/b")
    assert first.summary.value[0].simple_value == 1.5
    assert second.summary.value[0].tag == "not_a_tag"


def test_one_that_hangs_is_told_and_given_up_and_the_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(scalars_module, "_HANGS_S", 0)
    os.mkfifo(tmp_path / "pipe")
    hanging, good = to_csv(tmp_path / "pipe"), to_csv(tmp_path / "g.csv")
    for writer in (hanging, good):
        writer.give(snapshot())
        writer.finish()
    assert not hanging.join(0.2)
    assert good.join(30)
    wait_until(lambda: hanging.failure == "the last write has not ended for 0 s")
    assert good.failure == ""
    assert [row["goodput"] for row in rows_in(tmp_path / "g.csv")] == ["0.5"]
    (tmp_path / "pipe").open("w").close()  # it finds no first line
    with (tmp_path / "pipe").open() as reader:  # and goes on where it hung
        assert reader.readline().startswith("time_s,job_id,")
        assert reader.readline().startswith("1.0,j,")
    assert hanging.join(30)
    assert hanging.failure == ""


SPENT = Account(wall_s=2.0, buckets={"productive": 1.0, "other": 1.0}, steps=1)


def snapshot(*steps: int) -> Snapshot:
    """One that has something to write, and the deviations of these steps."""
    deviations = tuple((step, 0.5) for step in steps)
    return Snapshot(time_s=1.0, job_id="j", host="n", account=SPENT, deviations=deviations)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbftime_s,goodput\r\n", b"1.0,0.5\n"),  # as a spreadsheet leaves it
        (b"time_s,goodput", b"\n1.0,0.5\n"),
        (b"time_s,goodput\n0.5,0.", b"\n1.0,0.5\n"),
    ],
    ids=["byte order mark", "torn first line", "torn row"],
)
def test_rows_go_on_where_somebody_else_ended(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "g.csv"
    path.write_bytes(before)
    writer = to_csv(path)
    writer.give(snapshot())
    writer.finish()
    assert writer.join(30)
    assert path.read_bytes() == before + after
    assert writer.failure == ""


@pytest.mark.parametrize("text", ["hello, world\n", "\nhello\n", "\ufeff", '"'])
def test_a_file_of_somebody_else_gets_no_rows_and_that_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text, encoding="utf-8")
    writer = to_csv(path)
    writer.give(snapshot())
    writer.finish()
    assert writer.join(30)
    assert path.read_text(encoding="utf-8") == text
    assert writer.failure.startswith("nothing is written: its first line names no column time_s")


def test_a_snapshot_that_takes_anothers_place_has_its_steps_too() -> None:
    written: list[int] = []
    going_on = threading.Event()

    def write(snapshot: Snapshot) -> None:
        assert going_on.wait(30)
        written.extend(step for step, _ in snapshot.deviations)

    writer = Writer("scalars", lambda: write)
    for step in range(4):
        writer.give(snapshot(step))
    writer.finish()
    going_on.set()
    assert writer.join(30)
    assert written == [0, 1, 2, 3]


def test_step_deviations_that_could_not_be_written_are_written_with_the_next_ones(tmp_path: Path) -> None:
    where = tmp_path / "tb"
    where.touch()  # a file where a directory should be made
    output = TensorBoardScalars(TensorBoard(where))
    for step in (0, 1):
        with pytest.raises(OSError, match="exists"):
            output.write(snapshot(step))
    where.unlink()
    for step in (2, 3):
        output.write(snapshot(step))
    assert [step for step, _ in scalars(where)["step_deviation"]] == [0, 1, 2, 3]


def test_what_cannot_be_loaded_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> Any:
        raise TypeError("Descriptors cannot be created directly")  # what protobuf says of code of another age

    writer = Writer("scalars in tb", refuse)
    writer.finish()
    assert writer.join(30)
    assert caplog.messages == [f"scalars in tb: {writer.failure}"]
    assert writer.failure.startswith("nothing is written: Descriptors cannot")


@given(pieces=st.lists(st.binary(max_size=40), max_size=8), room=st.integers(0, 150))
def test_on_a_full_disk_a_piece_is_there_or_it_is_not(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], room: int
) -> None:
    file = AppendedFile(tmp_path_factory.mktemp("full") / "file")
    expected = b""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        for piece in pieces:
            if len(expected) + len(piece) <= room:
                file.append(piece)
                expected += piece
            else:
                with pytest.raises(OSError, match="File too large"):
                    file.append(piece)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        file.close()
    assert (file.path.read_bytes() if pieces else b"") == expected


def steps(*times_s: float, first: int = 0) -> Iterator[StepCompleted]:
    now = 0.0
    for step, time_s in enumerate(times_s, first):
        yield StepCompleted(step=step, start_s=now, end_s=now + time_s)
        now += time_s


def recent(*events: Any) -> RecentSteps:
    seen = RecentSteps()
    for event in events:
        seen.handle(event)
    return seen


def test_the_ideal_step_leaves_outliers_out_also_below_a_second() -> None:
    seen = recent(*steps(0.01, 0.011, 0.009, 0.01, 5.0))
    assert seen.ideal_s == pytest.approx(0.01)
    assert dict(seen.take_deviations())[4] == pytest.approx(4.99)


def test_steps_that_only_begin_last_to_the_next_one_of_their_writer() -> None:
    starts = [("a", 0, 0.0), ("b", 0, 0.5), ("a", 1, 1.0), ("b", 1, 2.5), ("a", 2, 2.0)]
    seen = recent(*(StepStarted(step=step, time_s=time_s, writer=who) for who, step, time_s in starts))
    assert seen.ideal_s == pytest.approx(1.5)  # of step 0 the slower of two ranks counts: 2 s
    assert dict(seen.take_deviations()) == {0: pytest.approx(0.5), 1: pytest.approx(0.5)}


def test_sparse_steps_share_the_time_between_them() -> None:
    seen = recent(*(StepStarted(step=step, time_s=step * 0.5) for step in range(0, 50, 10)))
    assert seen.ideal_s == pytest.approx(0.5)


def test_going_back_or_a_new_run_ends_no_step() -> None:
    seen = recent(
        StepStarted(step=5, time_s=1.0),
        StepStarted(step=3, time_s=90.0),
        JobStarted(time_s=100.0),
        StepStarted(step=4, time_s=500.0),
    )
    assert seen.ideal_s is None
    assert seen.last == 4


def test_deviations_are_taken_once_and_memory_is_bounded() -> None:
    seen = recent(*steps(*[1.0] * 5000))
    assert len(seen.take_deviations()) == 1024
    assert seen.take_deviations() == ()
    assert recent().ideal_s is None
    assert recent().deviation_s == 0
