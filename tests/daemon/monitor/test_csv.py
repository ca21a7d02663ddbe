"""Goodput as rows of a CSV file."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.daemon.monitor.csv import CsvRows
from scrtune.goodput.events import JobEnded
from scrtune.goodput.ledger.ledger import Account

from ...support.monitored_job import BEGUN_S, feed, job, last_scalars, rows_in, snapshot

WaitUntil = Callable[[Callable[[], object]], None]
NO_BUCKETS = {"time_s", "window_s", "wall_s", "ideal_step_s", "step_deviation_s", "checkpoint_cost_s"}


def test_rows_come_with_the_time_and_add_up(real_daemon: Any, tmp_path: Path, wait_until: WaitUntil) -> None:
    path = tmp_path / "deep" / "g.csv"
    daemon = real_daemon.start("--csv", str(path), "--monitor-every", "1")
    feed(daemon)
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


def test_a_file_that_is_there_keeps_its_columns_and_its_rows(real_daemon: Any, tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("time_s,goodput,of_an_older_version,job_id\n1.0,0.5,7,before\n")
    daemon = real_daemon.start("--csv", str(path))
    feed(daemon)
    assert daemon.end(signal.SIGTERM) == 0
    rows = rows_in(path)
    assert rows[0] == {"time_s": "1.0", "goodput": "0.5", "of_an_older_version": "7", "job_id": "before"}
    assert float(rows[-1].pop("time_s")) > BEGUN_S
    assert rows[-1] == {"goodput": "0.88", "of_an_older_version": "", "job_id": "j"}


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
    CsvRows(path).write(snapshot())
    assert path.read_bytes() == before + after


@pytest.mark.parametrize("text", ["hello, world\n", "\nhello\n", "\ufeff", '"'])
def test_a_file_of_other_content_gets_no_rows_which_is_known_before_the_job_begins(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text, encoding="utf-8")
    for each in (snapshot(), msgspec.structs.replace(snapshot(), account=Account(wall_s=0.0, buckets={}))):
        with pytest.raises(ValueError, match="its first line names no column time_s"):
            CsvRows(path).write(each)
    assert path.read_text(encoding="utf-8") == text
