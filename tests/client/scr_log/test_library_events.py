"""Outputs, SCR's log and the library's lines come together: recorded on real runs, and cut into pieces."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.scr_log.join import Flushed, Joiner, Output
from scrtune.client.scr_log.library_events import (
    LibraryEvents,
    Started,
    parse_library_line,
    settings_observed,
)
from scrtune.client.scr_log.log import LogRecord, parse_line
from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobEnded,
    JobHalted,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    OutputStarted,
    Recovered,
    RestartCompleted,
    StepCompleted,
)
from scrtune.goodput.validation import defect
from scrtune.intents.events import ApplyRefused, Event, SettingsObserved

DATA = Path(__file__).parents[2] / "data" / "scr_log"
"""Runs of SCR's own example under the preloaded library, 4 ranks on 4 simulated nodes, scheme XOR: with
SCR_FLUSH=2; asynchronous; asynchronous with a cache of one dataset; with the cache bypassed."""
T0 = 1_795_270_000.0
SIZE = 16_777_250


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SCR logs local times: here those of UTC, in which the data were recorded."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def event(name: str, at: float = 0.0, **fields: object) -> LogRecord:
    return LogRecord(name=name, time_s=T0 + at, **fields)


def transfer(name: str, at: float, seconds: float, dataset: int) -> LogRecord:
    return event(name, at, is_transfer=True, seconds=seconds, dataset=dataset, bytes=SIZE, files=4)


def output(dataset: int, at: float, closing: float, closed: float, **fields: object) -> Output:
    """Entered at `at`, opened 0.1 s later, and so on: seconds behind T0."""
    times = {"opened_s": T0 + at + 0.1, "closing_s": T0 + closing, "closed_s": T0 + closed}
    return Output(dataset=dataset, name=f"c{dataset}", entered_s=T0 + at, **{**times, **fields})


def logged(dataset: int, at: float, encode: float = 1.0, until_encoded: float = 2.0) -> list[LogRecord]:
    """What SCR logs of an output until it is encoded."""
    return [
        event("CHECKPOINT_START", int(at), dataset=dataset),
        transfer("WRITE", int(at), until_encoded - encode, dataset),
        transfer("ENCODE", int(at), encode, dataset),
        event("CHECKPOINT_END", int(at), dataset=dataset, seconds=until_encoded),
        transfer("CHECKPOINT", int(at), until_encoded, dataset),
    ]


def flushed(kind: str, dataset: int, at: float, seconds: float) -> list[LogRecord]:
    """The end of a flush: `kind` is SYNC or ASYNC."""
    outcome = "FLUSH_SUCCESS" if kind == "SYNC" else "ASYNC_FLUSH_SUCCESS"
    return [
        event(outcome, int(at + seconds), dataset=dataset, seconds=seconds),
        transfer(f"FLUSH_{kind}", int(at), seconds, dataset),
    ]


def timed_flush() -> Joiner:
    """The library will tell when the flush of dataset 2, from 12.25 s on, ended."""
    joiner = Joiner()
    joiner.records([*logged(2, 10.0), event("ASYNC_FLUSH_START", 12, dataset=2)])
    joiner.output(output(2, 10.25, 11.25, 12.5, flush_timed=True))
    return joiner


def only(kind: type, events: Sequence[object]) -> list:
    return [each for each in events if isinstance(each, kind)]


class TestJoiner:
    """One class for the preloaded library and for Python: the log's durations, the calls' times."""

    def test_an_output_that_was_only_cached(self) -> None:
        joiner = Joiner()
        assert joiner.records(logged(1, 10.0)) == []
        done = joiner.output(output(1, 10.0, 11.0, 12.5, generation=7, apply_s=0.02))
        assert (done.bytes, done.files, done.generation, done.flush_due) == (SIZE, 4, 7, False)
        assert (done.write_s, done.encode_s, done.flush_s, done.wait_s) == (pytest.approx(0.9), 1.0, 0.0, 0.0)
        assert (done.apply_s, done.blocking_s) == (0.02, pytest.approx(2.5))
        assert joiner.records([]) == []

    def test_a_flush_that_blocks_ends_with_its_output(self) -> None:
        joiner = Joiner()
        joiner.records([*logged(2, 10.0), event("FLUSH_START", 12, dataset=2), *flushed("SYNC", 2, 12, 3.0)])
        done = joiner.output(output(2, 10.0, 11.0, 15.25))
        (flush,) = joiner.records([])
        assert (done.flush_due, done.flush_s) == (True, pytest.approx(3.0))
        assert flush == FlushCompleted(
            dataset=2, start_s=done.end_s - 3.0, end_s=done.end_s, bytes=SIZE, source="scr"
        )

    def test_a_flush_beside_the_computation_begins_when_the_encoding_ended(self) -> None:
        joiner = Joiner()
        joiner.records([*logged(2, 10.0), event("ASYNC_FLUSH_START", 12, dataset=2)])
        done = joiner.output(output(2, 10.25, 11.25, 12.5, generation=3))
        assert (done.flush_due, done.flush_s) == (True, pytest.approx(0.25))
        assert joiner.records([event("COMPUTE_START", 12)]) == []
        (flush,) = joiner.records(flushed("ASYNC", 2, 12, 3.33))
        assert (flush.start_s, flush.flush_s) == (pytest.approx(T0 + 12.25), pytest.approx(3.33))
        assert (flush.asynchronous, flush.generation, flush.source) == (True, 3, "scr")

    @pytest.mark.parametrize("is_told_first", [True, False])
    def test_a_flush_ends_where_the_library_saw_it_end(self, is_told_first: bool) -> None:
        joiner, noticed = timed_flush(), flushed("ASYNC", 2, 12, 9.0)
        assert joiner.records([] if is_told_first else noticed) == []
        joiner.flushed(Flushed(dataset=2, seconds=2.5))
        (flush,) = joiner.records(noticed if is_told_first else [])
        assert (flush.end_s - T0, flush.source) == (pytest.approx(12.25 + 2.5), "libscrtune")
        assert joiner.ended() == []

    @pytest.mark.parametrize(("seconds", "source"), [(None, "scr"), (9.5, "libscrtune")])
    def test_a_flush_ends_at_the_latest_when_scr_notices(self, seconds: float | None, source: str) -> None:
        joiner = timed_flush()
        joiner.flushed(Flushed(dataset=2, seconds=seconds))
        (flush,) = joiner.records(flushed("ASYNC", 2, 12, 9.0))
        assert (flush.flush_s, flush.source) == (pytest.approx(9.0), source)

    def test_a_flush_whose_end_the_library_never_told_is_not_kept_for_ever(self) -> None:
        joiner = timed_flush()
        assert joiner.records(flushed("ASYNC", 2, 12, 9.0)) == []
        joiner.output(output(3, 20.0, 20.5, 21.0))  # the library may have told it after this
        assert joiner.records([]) == []
        joiner.output(output(4, 30.0, 31.0, 32.0))
        (flush,) = joiner.records([])
        assert (flush.dataset, flush.flush_s, flush.source) == (2, pytest.approx(9.0), "scr")

    def test_a_flush_whose_end_the_library_never_told_ends_with_the_run(self) -> None:
        joiner = timed_flush()
        assert joiner.records(flushed("ASYNC", 2, 12, 9.0)) == []
        assert [flush.source for flush in joiner.ended(T0 + 40)] == ["scr"]

    def test_a_flush_that_ended_within_its_own_output(self) -> None:
        joiner = Joiner()
        both = [event("ASYNC_FLUSH_START", 12, dataset=2), *flushed("ASYNC", 2, 12, 0.4)]
        joiner.records([*logged(2, 10.0), *both])
        joiner.flushed(Flushed(dataset=2, seconds=0.25))
        joiner.output(output(2, 10.25, 11.25, 13.0))
        assert [(each.flush_s, each.source) for each in joiner.records([])] == [
            (pytest.approx(0.25), "libscrtune")
        ]

    def test_an_output_that_waited_for_an_earlier_flush(self) -> None:
        joiner = Joiner()
        begin, *rest = logged(3, 20.0)
        joiner.records([*logged(2, 10.0), event("ASYNC_FLUSH_START", 12, dataset=2)])
        joiner.output(output(2, 10.0, 11.0, 12.5))
        (flush,) = joiner.records([begin, *flushed("ASYNC", 2, 12, 9.0), *rest])
        waited = joiner.output(output(3, 20.0, 22.0, 24.0, opened_s=T0 + 21.5, apply_s=0.5))
        assert flush.dataset == 2
        assert waited.wait_s == pytest.approx(1.0)

    def test_a_flush_that_was_noticed_at_the_end_of_an_output_was_not_waited_for(self) -> None:
        joiner = Joiner()
        joiner.records([*logged(2, 10.0), event("ASYNC_FLUSH_START", 12, dataset=2)])
        joiner.output(output(2, 10.0, 11.0, 12.5))
        both = [event("ASYNC_FLUSH_START", 22, dataset=3), *flushed("ASYNC", 2, 12, 10.0)]
        joiner.records([*logged(3, 20.0), *both])
        assert joiner.output(output(3, 20.0, 21.0, 22.5, opened_s=T0 + 20.5)).wait_s == 0.0

    def test_a_blocking_flush_that_waited_for_an_asynchronous_one_is_told_apart_from_the_wait(self) -> None:
        joiner = Joiner()
        joiner.records([*logged(2, 10.0), event("ASYNC_FLUSH_START", 12, dataset=2)])
        joiner.output(output(2, 10.0, 11.0, 12.5))
        after = [*flushed("ASYNC", 2, 12, 13.0), event("FLUSH_START", 25, dataset=3)]
        joiner.records([*logged(3, 20.0), *after, *flushed("SYNC", 3, 22, 7.0)])
        done = joiner.output(output(3, 20.0, 21.0, 29.0))  # the earlier flush ended at 25
        assert (done.wait_s, done.flush_s) == (pytest.approx(3.0), pytest.approx(4.0))

    def test_a_flush_that_failed_is_told(self) -> None:
        joiner = Joiner()
        joiner.records([*logged(2, 10.0), event("ASYNC_FLUSH_START", 12, dataset=2)])
        joiner.output(output(2, 10.0, 11.0, 12.5))
        failed = [event("ASYNC_FLUSH_FAIL", 14, dataset=2), transfer("FLUSH_ASYNC", 12, 2.0, 2)]
        assert [flush.valid for flush in joiner.records(failed)] == [False]

    def test_the_flush_of_scr_finalize_is_no_part_of_the_last_output(self) -> None:
        joiner = Joiner()
        end = [
            event("COMPUTE_START", 12),
            event("HALT", 20, note="SCR_FINALIZE_CALLED"),
            event("FLUSH_START", 20, dataset=2),
            *flushed("SYNC", 2, 20, 3.0),
        ]
        told = joiner.records([*logged(2, 10.0), *end])
        done = joiner.output(output(2, 10.0, 11.0, 12.5))
        assert (done.flush_due, done.flush_s) == (False, 0.0)
        assert [(flush.start_s, flush.end_s) for flush in only(FlushCompleted, told)] == [(T0 + 20, T0 + 23)]
        assert len(told) == 1  # that SCR was finalized is no halt

    def test_a_halt_ends_the_output_whose_flush_is_told_all_the_same(self) -> None:
        joiner = Joiner()
        halt = [event("HALT", 12, note="TIME_LIMIT"), event("FLUSH_START", 12, dataset=2)]
        halted, flush = joiner.records([*logged(2, 10.0), *halt, *flushed("SYNC", 2, 12, 3.0)])
        assert halted == JobHalted(time_s=T0 + 12, reason="TIME_LIMIT")
        assert (flush.dataset, flush.flush_s) == (2, 3.0)

    def test_a_fetch_and_the_encoding_in_it_are_no_output(self) -> None:
        joiner = Joiner()
        (fetch,) = joiner.records(
            [
                event("FETCH_START", 3, dataset=5, dataset_name="c5"),
                transfer("ENCODE", 3, 9.0, 5),
                event("FETCH_SUCCESS", 5, dataset=5, seconds=2.25),
                transfer("FETCH", 3, 2.25, 5),
            ]
        )
        assert fetch == Recovered(kind="fetch", dataset=5, start_s=T0 + 3, end_s=T0 + 5.25)

    def test_what_scr_init_rebuilds_is_told_when_the_run_has_begun(self) -> None:
        joiner = Joiner()
        rebuild = [
            event("START", 50, procs=4),
            event("REBUILD_START", 50, dataset=3),
            event("REBUILD_FAIL", 52, dataset=3),
            event("REBUILD_START", 52, dataset=4),
            event("REBUILD_SUCCESS", 53, dataset=4),
            event("RESTART_SUCCESS", 50, dataset=4, seconds=3.5),
        ]
        assert joiner.records(rebuild) == []
        assert joiner.began(T0 + 54) == [
            Recovered(kind="rebuild", dataset=3, start_s=T0 + 50, end_s=T0 + 52, valid=False),
            Recovered(kind="rebuild", dataset=4, start_s=T0 + 50, end_s=T0 + 53.5),
        ]

    def test_what_a_reinitialization_finds_in_the_cache_was_never_lost(self) -> None:
        joiner = Joiner()
        joiner.records([event("START", 50, procs=4), event("RESTART_SUCCESS", 50, dataset=4, seconds=0.5)])
        joiner.reinitialized(T0 + 51.0, 0.9)
        assert joiner.began(T0 + 100) == []

    def test_what_scripts_say_between_runs(self) -> None:
        told = Joiner().records(
            [
                event("NODE_FAIL", 20, note="n3: Failed to ping", seconds=12.0),
                event("SCAVENGE_START", 21, dataset=4),
                event("SCAVENGE_END", 25, dataset=4, seconds=4.0),
                event("RUN_END", 26, note="run=1", seconds=26.0),
            ]
        )
        assert told == [
            NodeFailed(time_s=T0 + 20, node="n3"),
            Recovered(kind="scavenge", dataset=4, start_s=T0 + 21, end_s=T0 + 25),
        ]

    def test_without_any_log_an_output_has_the_times_of_its_calls(self) -> None:
        done = Joiner().output(output(1, 10.0, 11.0, 12.5))
        assert (done.blocking_s, done.write_s, done.flush_due) == (2.5, pytest.approx(0.9), False)
        assert defect(done, T0 + 20) is None

    def test_memory_is_bounded(self) -> None:
        joiner = Joiner()
        for number in range(10_000):
            joiner.records([*logged(number, 10.0), event("ASYNC_FLUSH_START", dataset=-number)])
            joiner.records([event("RESTART_SUCCESS", dataset=number, seconds=1.0)])
        assert max(map(len, (joiner._datasets, joiner._found, joiner._held))) <= 4096


def library(tmp_path: Path, name: str = "job") -> LibraryEvents:
    """A recorded job, with its log where the library's lines say it is."""
    prefix = tmp_path / "prefix"
    (prefix / ".scr").mkdir(parents=True)
    (prefix / ".scr" / "log").write_bytes((DATA / f"{name}.log").read_bytes())
    said = (DATA / f"{name}.events").read_text().replace("/prefix", str(prefix))
    (tmp_path / "library.events").write_text(said)
    return LibraryEvents(tmp_path / "library.events", {})


class TestRecordedJob:
    """Four runs of an unmodified C program."""

    def test_each_run_begins_goes_on_and_ends(self, tmp_path: Path) -> None:
        events = library(tmp_path).take()
        assert len(only(JobStarted, events)) == len(only(JobEnded, events)) == 4
        assert len(only(SettingsObserved, events)) == 4
        assert len(only(OutputStarted, events)) == len(only(OutputCompleted, events)) == 14
        assert all(defect(each, T0 + 9999) is None for each in _goodput(events))

    def test_every_output_is_split_into_what_it_spent(self, tmp_path: Path) -> None:
        for done in only(OutputCompleted, library(tmp_path).take()):
            parts = done.write_s + done.encode_s + done.flush_s + done.wait_s + done.apply_s
            assert (done.bytes, done.files) == (SIZE, 4)
            assert done.encode_s > 0
            assert parts <= done.blocking_s + 1e-6
            assert done.flush_due == (done.dataset not in (1, 3))

    def test_its_flushes_have_the_seconds_of_the_log_and_the_place_of_the_calls(self, tmp_path: Path) -> None:
        events = library(tmp_path).take()
        seconds = {
            (record.dataset, record.name == "FLUSH_ASYNC"): record
            for record in map(parse_line, (DATA / "job.log").read_bytes().splitlines())
            if record is not None and record.name in ("FLUSH_SYNC", "FLUSH_ASYNC")
        }
        flushes = only(FlushCompleted, events)
        assert {(flush.dataset, flush.asynchronous) for flush in flushes} == set(seconds)
        for flush in flushes:
            record = seconds[flush.dataset, flush.asynchronous]
            assert record.time_s is not None
            assert flush.flush_s == pytest.approx(record.seconds, abs=1e-3)
            assert record.time_s <= flush.start_s + 1e-3
            assert flush.start_s <= record.time_s + 1.0

    def test_with_a_cache_of_one_dataset_outputs_wait_for_the_flush_before(self, tmp_path: Path) -> None:
        waits = {done.dataset: done.wait_s for done in only(OutputCompleted, library(tmp_path).take())}
        printed = {10: 0.446101, 11: 0.498784}  # by SCR itself, with SCR_DEBUG=1
        assert {dataset for dataset, wait_s in waits.items() if wait_s > 0} == set(printed)
        for dataset, wait_s in printed.items():
            assert wait_s <= waits[dataset]

    def test_what_was_rebuilt_is_told_behind_the_start_of_the_run_it_was_for(self, tmp_path: Path) -> None:
        events = _goodput(library(tmp_path).take())
        for recovered in only(Recovered, events):
            assert isinstance(events[events.index(recovered) - 1], JobStarted)
        assert [each.dataset for each in only(Recovered, events)] == [4, 8, 11]

    def test_what_lies_between_outputs_is_work(self, tmp_path: Path) -> None:
        steps = only(StepCompleted, library(tmp_path).take())
        slept = [step for step in steps if step.end_s - step.start_s == pytest.approx(1.0, abs=0.2)]
        assert len(slept) >= 6  # the example sleeps a second between its outputs

    def test_its_settings_have_their_sources(self, tmp_path: Path) -> None:
        first = only(SettingsObserved, library(tmp_path).take())[0]
        assert (first.settings["SCR_FLUSH"], first.sources["SCR_FLUSH"]) == (2, "environment")
        assert first.sources["SCR_FILE_BUF_SIZE"] == "default"
        assert (first.ranks, first.nodes, first.engine, first.cache) == (4, 4, "libscr v3.1.0", "/cache")
        assert first.mutability["SCR_CACHE_SIZE"] == "re-init"
        assert "SCR_CONF_FILE" not in first.settings

    def test_a_reinitialization_is_neither_a_halt_nor_a_new_run_nor_a_repair(self, tmp_path: Path) -> None:
        """From XOR to SINGLE before the third output: SCR logs a START, and rebuilds what is in the cache."""
        assert b"event=RESTART_SUCCESS" in (DATA / "reinit.log").read_bytes()
        events = _goodput(library(tmp_path, "reinit").take())
        assert len(only(JobStarted, events)) == len(only(JobEnded, events)) == 1
        assert not only(Recovered, events) + only(JobHalted, events)
        outputs = only(OutputCompleted, events)
        assert [done.dataset for done in outputs if done.apply_s > 1.0] == [3]
        assert [done.generation for done in outputs] == [0, 0, 1, 2]
        assert all(done.encode_s > 0 for done in outputs)

    @pytest.mark.parametrize("lines_a_time", [1, 2, 3, 7, 100])
    def test_read_as_it_comes_it_says_the_same(self, tmp_path: Path, lines_a_time: int) -> None:
        whole = library(tmp_path)
        expected = whole.take()
        said, log = (tmp_path / "library.events", tmp_path / "prefix" / ".scr" / "log")
        said_lines, cuts, log_lines = _as_written(said.read_bytes(), log.read_bytes())
        said.unlink()
        log.unlink()
        live = LibraryEvents(said, {})
        taken: list[Event] = []
        done = 0
        for first in range(0, len(said_lines), lines_a_time):
            last = min(first + lines_a_time, len(said_lines))
            _append(log, log_lines[done : cuts[last - 1]])
            _append(said, said_lines[first:last])
            done = cuts[last - 1]
            taken += live.take()
        for kind in (OutputCompleted, JobStarted, JobEnded, StepCompleted, SettingsObserved, Recovered):
            assert only(kind, taken) == only(kind, expected)
        assert sorted(only(FlushCompleted, taken), key=_start) == sorted(
            only(FlushCompleted, expected), key=_start
        )


def _as_written(said: bytes, log: bytes) -> tuple[list[bytes], list[int], list[bytes]]:
    """The library's lines, how many lines SCR had logged before each, and these.

    SCR logs within its calls: SCR_Init and an output end with COMPUTE_START, and all before the next START
    was there when SCR_Finalize returned.
    """
    said_lines, log_lines = said.splitlines(keepends=True), log.splitlines(keepends=True)
    cuts, at = [], 0
    for text in said_lines:
        if b'"ended"' in text:
            while at < len(log_lines) and b"event=START" not in log_lines[at]:
                at += 1
        else:
            while b"event=COMPUTE_START" not in log_lines[at]:
                at += 1
            at += 1
        cuts.append(at)
    return said_lines, cuts, log_lines


def _append(path: Path, lines: list[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(lines)


def _start(flush: FlushCompleted) -> float:
    return flush.start_s


class TestLibraryLines:
    """What else the library says."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "library.events"

    def test_an_application_that_reports_its_steps_has_no_others(self, path: Path) -> None:
        asked = [{"type": "asked", "began_s": T0 + at, "ended_s": T0 + at + 0.5} for at in (2, 9)]
        step = {"type": "step", "step": 17, "start_s": T0 + 3, "end_s": T0 + 5}
        times = {"entered_s": T0 + 7, "opened_s": T0 + 7, "closing_s": T0 + 8, "closed_s": T0 + 8}
        output = {"type": "output", "dataset": 5, "name": "c5", "checkpoint": True, "valid": True, **times}
        started = {"type": "started", "time_s": T0, "cwd": str(path.parent)}
        lines = [started, asked[0], step, output, asked[1]]
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        steps = [each for each in LibraryEvents(path, {}).take() if isinstance(each, StepCompleted)]
        assert steps == [StepCompleted(step=17, start_s=T0 + 3, end_s=T0 + 5, writer="rank0")]

    def test_an_application_that_asks_in_each_turn_of_its_loop_has_a_step_for_each(self, path: Path) -> None:
        """Before the first output it is not known behind which dataset the run goes on: steps wait for it."""
        asked = [{"type": "asked", "began_s": T0 + at, "ended_s": T0 + at + 0.5} for at in (2, 4, 6)]
        times = {"entered_s": T0 + 7, "opened_s": T0 + 7, "closing_s": T0 + 8, "closed_s": T0 + 8}
        output = {"type": "output", "dataset": 5, "name": "c5", "checkpoint": True, "valid": True, **times}
        later = {"type": "asked", "began_s": T0 + 9, "ended_s": T0 + 9.1}
        lines = [{"type": "started", "time_s": T0, "cwd": str(path.parent)}, *asked, output, later]
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        steps = [each for each in LibraryEvents(path, {}).take() if isinstance(each, StepCompleted)]
        assert [(each.start_s - T0, each.end_s - T0) for each in steps] == [
            (0, 2),
            (2.5, 4),
            (4.5, 6),
            (8, 9),
        ]
        assert [divmod(each.step, 1 << 20) for each in steps] == [(4, 1), (4, 2), (4, 3), (5, 1)]

    def test_an_output_is_due_when_scr_has_just_said_so(self, path: Path) -> None:
        def asked(at: float, **answer: bool) -> dict[str, object]:
            return {"type": "asked", "began_s": T0 + at, "ended_s": T0 + at, **answer}

        def output(at: float) -> dict[str, object]:
            times = {"entered_s": T0 + at, "opened_s": T0 + at, "closing_s": T0 + at, "closed_s": T0 + at}
            return {
                "type": "output",
                "dataset": int(at),
                "name": "c",
                "checkpoint": True,
                "valid": True,
                **times,
            }

        lines = [
            {"type": "started", "time_s": T0, "cwd": str(path.parent)},
            *(asked(1, due=False), asked(2, due=True), output(3), output(4)),
            *(asked(5, due=True), asked(6, due=False), output(7)),
            *(asked(8), output(9)),  # a library of before
        ]
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        outputs = [each for each in LibraryEvents(path, {}).take() if isinstance(each, OutputCompleted)]
        assert [each.due for each in outputs] == [True, False, False, False]

    def test_a_refused_decision_and_a_restart(self, path: Path) -> None:
        lines = [
            {"type": "started", "time_s": T0, "prefix": "p", "cwd": str(path.parent)},
            {"type": "restart", "name": "c4", "valid": True, "entered_s": T0 + 1, "closed_s": T0 + 2.5},
            {"type": "applied", "time_s": T0 + 3, "generation": 1, "how": "live", "seconds": 0.001},
            {"type": "refused", "time_s": T0 + 4, "generation": 2, "why": "SCR_FLUSH=-1"},
            {
                "type": "refused",
                "time_s": T0 + 5,
                "generation": 2,
                "why": "another kind of output",
                "in_force": {"SCR_CACHE_BYPASS": 1},
            },
        ]
        (path.parent / "p" / ".scr").mkdir(parents=True)
        (path.parent / "p" / ".scr" / "log").write_text(
            "2026-11-21T14:06:39: host=n, jobid=j, event=START, procs=1, nodes=1\n"
            "2026-11-21T14:06:39: host=n, jobid=j, event=RESTART_SUCCESS, dset=4, secs=0.500000\n"
        )
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        started, _, rebuilt, restart, refused, back = LibraryEvents(path, {}).take()
        assert isinstance(started, JobStarted)
        assert isinstance(rebuilt, Recovered)
        assert restart == RestartCompleted(dataset=4, name="c4", start_s=T0 + 1, end_s=T0 + 2.5)
        assert refused == ApplyRefused(generation=2, why="SCR_FLUSH=-1")
        assert back == ApplyRefused(
            generation=2, why="another kind of output", in_force={"SCR_CACHE_BYPASS": 1}
        )

    def test_settings_come_from_scrs_own_layers(self, tmp_path: Path) -> None:
        prefix = tmp_path / "p"
        (prefix / ".scr").mkdir(parents=True)
        (tmp_path / "user.conf").write_text("SCR_FLUSH=5\nSCR_CACHE_SIZE=3\n")
        (prefix / ".scr" / "app.conf").write_text("SCR_FLUSH=6\nSCR_CACHE_SIZE=4\nSCR_SET_SIZE=2\n")
        started = Started(
            time_s=T0,
            init_s=0.25,
            cwd=str(tmp_path),
            prefix="p",
            environment={"SCR_CONF_FILE": "user.conf", "SCR_FLUSH": "7", "SCR_DB_PASS": "x"},
        )
        declared = {"SCRTUNE_OVERRIDE": "1", "SCRTUNE_DURABILITY": "strict", "SCRTUNE_MODE": "observe"}
        made = settings_observed(started, {"SCR_CACHE_SIZE": "9", "PATH": "", **declared})
        values = {
            name: (made.settings[name], made.sources[name])
            for name in ("SCR_FLUSH", "SCR_CACHE_SIZE", "SCR_SET_SIZE")
        }
        assert values == {
            "SCR_FLUSH": (7, "environment"),
            "SCR_CACHE_SIZE": (3, "user config"),
            "SCR_SET_SIZE": (2, "SCR_Config"),
        }
        assert (made.override, made.floor, made.durability) == (True, "", "strict")
        assert (made.tuning, made.recommend) == (False, False)
        assert made.init_s == 0.25

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"nonsense",
            b"[]",
            b"{}",
            b'{"type":"dance"}',
            b'{"type":"ended"}',
            b'{"type":"ended","time_s":"soon"}',
            b"[" * 100_000,
            b"\xff\xfe",
        ],
    )
    def test_garbage_is_none(self, text: bytes) -> None:
        assert parse_library_line(text) is None

    def test_a_name_that_is_no_text_costs_nothing(self) -> None:
        line = parse_library_line(
            b'{"type":"output","dataset":1,"name":"\xff","entered_s":1,"opened_s":1,"closing_s":1,"closed_s":1}'
        )
        assert isinstance(line, Output)

    def test_a_place_that_cannot_be_is_no_log(self, path: Path) -> None:
        path.write_text(json.dumps({"type": "started", "time_s": T0, "prefix": "a\0b"}) + "\n")
        assert len(LibraryEvents(path, {}).take()) == 2


NAMES = (
    *("START", "HALT", "COMPUTE_START", "CHECKPOINT_START", "CHECKPOINT_END", "OUTPUT_START", "OUTPUT_END"),
    *("WRITE", "ENCODE", "CHECKPOINT", "FLUSH_START", "FLUSH_SUCCESS", "FLUSH_FAIL", "FLUSH_SYNC"),
    *("ASYNC_FLUSH_START", "ASYNC_FLUSH_FAIL", "FLUSH_ASYNC", "FETCH_START", "FETCH_SUCCESS", "FETCH_FAIL"),
    *("FETCH", "REBUILD_START", "REBUILD_FAIL", "RESTART_SUCCESS", "RESTART_FAIL", "SCAVENGE_START"),
    *("SCAVENGE_END", "NODE_FAIL", "RUN_END", "ODD"),
)
names = st.sampled_from(NAMES)
records = st.builds(
    LogRecord,
    name=names,
    time_s=st.integers(0, 50).map(lambda at: T0 + at),
    dataset=st.none() | st.integers(-1, 4),
    seconds=st.none() | st.floats(-5, 100),
    bytes=st.none() | st.integers(-1, 100),
    files=st.none() | st.integers(-1, 9),
    note=st.sampled_from(["", "SCR_FINALIZE_CALLED", "n1: down"]),
)
gaps = st.floats(0, 5)
ends = st.builds(Flushed, dataset=st.integers(1, 4), seconds=st.none() | st.floats(-5, 50))
outputs = st.tuples(st.integers(1, 4), st.integers(0, 50), gaps, gaps, gaps, st.booleans()).map(
    lambda it: output(
        it[0],
        it[1],
        it[1] + it[2] + it[3],
        it[1] + sum(it[2:5]),
        opened_s=T0 + it[1] + it[2],
        apply_s=it[2] / 2,
        flush_timed=it[5],
    )
)


@given(st.lists(records | outputs | ends, max_size=60))
def test_whatever_is_logged_the_events_are_possible(steps: list[LogRecord | Output | Flushed]) -> None:
    joiner = Joiner()
    made: list[GoodputEvent] = []
    for step in steps:
        if isinstance(step, Output):
            done = joiner.output(step)
            assert min(done.write_s, done.encode_s, done.flush_s, done.wait_s, done.bytes, done.files) >= 0
            assert done.flush_s <= done.blocking_s + 1e-6
            made.append(done)
        elif isinstance(step, Flushed):
            joiner.flushed(step)
        else:
            made += joiner.records([step])
    made += [*joiner.ended(), *joiner.began(T0 + 999)]
    assert [problem for each in made if (problem := defect(each, T0 + 999))] == []


def _goodput(events: Sequence[Event]) -> list[GoodputEvent]:
    return [each for each in events if not isinstance(each, SettingsObserved | ApplyRefused)]  # type: ignore[misc]
