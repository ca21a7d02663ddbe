"""The forms of files that can be read, and what comes twice, cut off or compressed."""

import gzip
import json
import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from scrtune.cli.jobs.logs import read_logs
from scrtune.client.paths import JobPaths
from scrtune.client.recorder import Recorder
from scrtune.client.scr_log.library_events import Output, parse_library_line
from scrtune.client.scr_log.log import parse_line
from scrtune.client.scr_log.standalone import by_job
from scrtune.daemon.journal.journal import Journal
from scrtune.goodput.compat.goodput import GoodputRecorder
from scrtune.goodput.events import (
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.intents.events import TuningSwitched
from scrtune.replay.run import JobShape, replay_traces

from ....support.goodput_command import DATA, PRIMER, SCR_LOG, log_of, only_job, rows, run, spent, view

MOMENT = datetime(2025, 1, 1, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


def test_what_comes_twice_counts_once_and_is_reported(tmp_path: Path) -> None:
    lines = [
        {"job_name": "a", "job_start_time": 1000.0},
        *({"job_name": "a", "step_count": n, "step_start_time": 1010.0 + n} for n in range(5)),
        {"job_name": "a", "job_end_time": 1020.0},
    ]
    once = log_of(tmp_path / "once", *lines)
    expected = only_job(once, "--policy", "both")
    assert expected["compat"]["disruptions"] == 0
    for logs in ((log_of(tmp_path / "doubled", *lines, *lines),), (once, once)):
        assert only_job(*logs, "--policy", "both") == expected
        assert "7 events came more than once and count once" in run(*logs).stderr
    assert "more than once" not in run(once).stderr


def test_an_entry_far_from_all_others_is_reported_and_does_not_count(tmp_path: Path) -> None:
    begun_s = 1735689600.0
    steps = [{"job_name": "a", "step_count": n, "step_start_time": begun_s + n} for n in range(5)]
    wrong = [
        {"job_name": "a", "job_start_time": 0.0},
        {"type": "interval", "kind": "custom", "start_s": begun_s, "end_s": 1e11, "job_name": "a"},
    ]
    launched = {"timestamp": "1970-01-01T00:00:00", "job_name": "a", "event_type": "job_started"}
    log = log_of(tmp_path / "log", *steps, *wrong, {"job_name": "b", "job_start_time": 5.0})
    alone = log_of(tmp_path / "alone", launched)
    view = json.loads(run(log, alone, "--format", "json").stdout)
    assert view["garbage"] == 3
    assert [job["conserving"]["wall_s"] for job in view["jobs"]] == [4.0, 0.0]
    assert f"{log}: line 6: 1970-01-01 00:00:00 UTC is more than a year from the bulk" in view["problems"][0]
    assert f"{log}: line 7: 5138-11-16 09:46:40 UTC" in view["problems"][1]
    assert f"{alone}: line 1: 1970-01-01" in view["problems"][2]


def test_an_entry_that_names_no_job_must_lie_near_those_of_the_job_that_it_belongs_to(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        {"job_start_time": 0.0},
        *({"job_name": "a", "step_count": n, "step_start_time": 1735689600.0 + n} for n in range(5)),
    )
    assert "log: line 1: 1970-01-01 00:00:00 UTC is more than a year" in run(log).stderr
    assert only_job(log)["conserving"]["wall_s"] == 4.0


def test_a_byte_order_mark_costs_no_line(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    log = tmp_path / "log"
    log.write_bytes(
        mark + b'{"job_name":"a","job_start_time":1000.0}\n{"job_name":"a","job_end_time":1060.0}\n'
    )
    result = run(log, "--format", "json")
    assert json.loads(result.stdout)["garbage"] == 0
    assert json.loads(result.stdout)["jobs"][0]["conserving"]["wall_s"] == 60.0
    (tmp_path / "scr").write_bytes(mark + SCR_LOG.read_bytes())
    assert only_job(tmp_path / "scr") == only_job(SCR_LOG)


def test_logs_may_be_compressed_and_one_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole, half = tmp_path / "log.gz", tmp_path / "half.gz"
    whole.write_bytes(gzip.compress(PRIMER.read_bytes()))
    assert only_job(whole) == only_job(PRIMER)
    many = b"".join(
        b'{"job_name":"a","step_count":%d,"step_start_time":%d}\n' % (n, 7 * n) for n in range(20_000)
    )
    half.write_bytes(gzip.compress(many)[:-5000])
    result = run(half, "--format", "json")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"scrtune: {half}: byte 0: the gzip member that begins here is cut off\n")
    assert json.loads(result.stdout)["jobs"][0]["events"] > 1000


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = run(tmp_path / "pipe")
    assert (result.exit_code, "no regular file" in result.stderr) == (1, True)


def test_what_our_recorder_and_the_one_with_the_peers_names_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))
    recorder = Recorder("r", writer="rank0", log=tmp_path / "r.jsonl")
    begun_s = float(int(time.time()) - 60)  # a recorder takes no times of 1970
    recorder.job_started(at=begun_s)
    for step in range(3):
        recorder.step_started(step, at=begun_s + 10 * step)
    recorder.started("cooling", at=begun_s + 22)
    recorder.ended("cooling", at=begun_s + 25)
    recorder.job_ended(0, at=begun_s + 30)
    recorder.close()
    peer = GoodputRecorder("c", "c", logging_enabled=True)
    peer.record_job_start_time(MOMENT)
    peer.record_step_start_time(0, MOMENT + 10 * SECOND)
    peer.record_step_start_time(1, MOMENT + 20 * SECOND)
    peer.record_job_end_time(MOMENT + 30 * SECOND)
    peer.flush()
    ours, theirs = view(tmp_path / "r.jsonl", tmp_path / "c.jsonl")["jobs"][::-1]
    assert (ours["job_name"], theirs["job_name"]) == ("r", "c")
    assert spent(ours) == {"productive": 27.0, "custom:cooling": 3.0}
    assert spent(theirs) == {"startup": 10.0, "productive": 20.0}


def test_a_daemons_journal_is_a_log_with_the_jobs_name(tmp_path: Path) -> None:
    path = tmp_path / "4711" / "node1" / "journal"
    path.parent.mkdir(parents=True)
    journal = Journal(path)
    said: list[Any] = [
        JobStarted(time_s=1.0),
        TuningSwitched(on=False),
        StepCompleted(step=1, start_s=2.0, end_s=9.0),
    ]
    for event in said:
        journal.append(9.0, event)
    journal.flush(9.0)
    journal.close()
    with path.open("ab") as file:
        file.write(b"\x07torn")
    result = run(path, "--format", "json")
    shown = json.loads(result.stdout)
    assert shown["jobs"][0]["job_name"] == "4711"
    assert shown["jobs"][0]["conserving"]["buckets"]["productive"] == 7.0
    assert (shown["entries"], shown["ignored"]) == ({"journal": 2}, {"tuning_switched": 1})
    assert "half a header" in result.stderr


def test_a_job_of_scrtunes_has_its_buckets_as_csv_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path))
    path = JobPaths.of("4711", base=tmp_path).journal
    for directory in (path.parent.parent, path.parent):
        directory.mkdir(mode=0o700)
    journal = Journal(path)
    for event in (
        JobStarted(time_s=1.0),
        StepCompleted(step=1, start_s=2.0, end_s=9.0),
        JobEnded(time_s=9.0),
    ):
        journal.append(9.0, event)
    journal.flush(9.0)
    journal.close()
    shown = [{**row, "job": ""} for row in rows("--job-id", "4711")]
    seconds = {row["what"]: float(row["seconds"]) for row in shown}
    assert (seconds["productive"], seconds["startup"], seconds["wall_time"]) == (7.0, 1.0, 8.0)
    assert seconds["ideal_step"] == 7.0
    assert {row["job"] for row in rows("--job-id", "4711")} == {"4711"}
    assert shown == [{**row, "job": ""} for row in rows(path) if row["policy"] in {"conserving", "steps"}]


def test_scrs_log_alone_is_right_to_a_second() -> None:
    with SCR_LOG.open("rb") as lines:
        records = [record for line in lines if (record := parse_line(line)) is not None]
    (said,) = by_job(records).values()
    outputs = {event.dataset: event for event in said if isinstance(event, OutputCompleted)}
    told = (SCR_LOG.with_suffix(".events")).read_bytes().splitlines()
    known = [line for text in told if isinstance(line := parse_library_line(text), Output)]
    assert len(outputs) == len(known) > 10
    zone_s = round((outputs[1].start_s - known[0].entered_s) / 900) * 900  # the log was written elsewhere
    for true in known:
        guess = outputs[true.dataset]
        assert abs(guess.start_s - zone_s - true.entered_s) <= 1.5
        assert abs(guess.end_s - zone_s - true.closed_s) <= 1.5
    assert sum(isinstance(event, JobStarted) for event in said) == 4
    assert [event.start_s for event in said if isinstance(event, StepCompleted)] == sorted(
        event.start_s for event in said if isinstance(event, StepCompleted)
    )


@pytest.mark.parametrize("name", ["gen4-python-fork-plain", "gen4-python-spawn-gz", "gen2-dftracer-2.0.0"])
def test_traces_are_logs_with_the_checkpoints_that_a_replay_finds(name: str) -> None:
    directory = DATA / "traces" / name
    replayed = replay_traces([directory], JobShape())
    job = only_job(directory)
    assert job["conserving"]["checkpoints"] == replayed.pipeline.account(replayed.end_s).checkpoints
    assert job["conserving"]["wall_s"] == pytest.approx(replayed.end_s - replayed.start_s, abs=1e-3)


def test_of_a_trace_without_checkpoints_no_work_is_known() -> None:
    result = run(DATA / "traces" / "gen4-preload")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no checkpoint in the trace: what of its time was work is not known" in result.stderr


def test_beside_a_log_with_steps_a_trace_adds_checkpoints_only(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", {"job_name": "a", "step_count": 1, "step_start_time": 1.0})
    logs = read_logs([DATA / "traces" / "gen4-python-fork-plain", log])
    kinds = {type(event) for event in logs.jobs["a"].events}
    assert kinds <= {StepStarted, OutputCompleted, RestartCompleted}
