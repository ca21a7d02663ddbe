"""The library's lines and SCR's log come together: recorded on real runs, and cut into pieces."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from scrtune.client.scr_log.join import Output
from scrtune.client.scr_log.library_events import (
    LibraryEvents,
    Started,
    parse_library_line,
    settings_observed,
)
from scrtune.client.scr_log.log import parse_line
from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobEnded,
    JobHalted,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    Recovered,
    RestartCompleted,
    StepCompleted,
)
from scrtune.goodput.validation import defect
from scrtune.intents.events import ApplyRefused, Event, SettingsObserved

from .records import SIZE, T0, only

DATA = Path(__file__).parents[2] / "data" / "scr_log"
"""Runs of SCR's own example under the preloaded library, 4 ranks on 4 simulated nodes, scheme XOR: with
SCR_FLUSH=2; asynchronous; asynchronous with a cache of one dataset; with the cache bypassed."""


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
        if b'"job_ended"' in text:
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


def asked(at: float, until: float, **answer: bool) -> dict[str, object]:
    return {"type": "asked", "began_s": T0 + at, "ended_s": T0 + until, **answer}


def written(dataset: int, at: float, until: float) -> dict[str, object]:
    times = {"entered_s": T0 + at, "opened_s": T0 + at, "closing_s": T0 + until, "closed_s": T0 + until}
    return {"type": "output", "dataset": dataset, "name": "c", "checkpoint": True, "valid": True, **times}


def events_of(path: Path, *lines: dict[str, object]) -> list[Event]:
    """What the library's lines of a run of T0 make."""
    started = {"type": "started", "time_s": T0, "cwd": str(path.parent)}
    path.write_text("".join(json.dumps(each) + "\n" for each in ({**started, **lines[0]}, *lines[1:])))
    return LibraryEvents(path, {}).take()


class TestLibraryLines:
    """What else the library says."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "library.events"

    def test_an_application_that_reports_its_steps_has_no_others(self, path: Path) -> None:
        step = {"type": "step_completed", "writer": "rank0", "step": 17, "start_s": T0 + 3, "end_s": T0 + 5}
        events = events_of(path, {}, asked(2, 2.5), step, written(5, 7, 8), asked(9, 9.5))
        assert only(StepCompleted, events) == [
            StepCompleted(step=17, start_s=T0 + 3, end_s=T0 + 5, writer="rank0")
        ]

    def test_an_application_that_asks_in_each_turn_of_its_loop_has_a_step_for_each(self, path: Path) -> None:
        """Before the first output it is not known behind which dataset the run goes on: steps wait for it."""
        turns = [asked(at, at + 0.5) for at in (2, 4, 6)]
        steps = only(StepCompleted, events_of(path, {}, *turns, written(5, 7, 8), asked(9, 9.1)))
        spans = [(each.start_s - T0, each.end_s - T0) for each in steps]
        assert spans == [(0, 2), (2.5, 4), (4.5, 6), (8, 9)]
        assert [divmod(each.step, 1 << 20) for each in steps] == [(4, 1), (4, 2), (4, 3), (5, 1)]

    def test_an_output_is_due_when_scr_has_just_said_so(self, path: Path) -> None:
        events = events_of(
            path,
            {},
            *(asked(1, 1, due=False), asked(2, 2, due=True), written(3, 3, 3), written(4, 4, 4)),
            *(asked(5, 5, due=True), asked(6, 6, due=False), written(7, 7, 7)),
            *(asked(8, 8), written(9, 9, 9)),  # a library of before
        )
        assert [each.due for each in only(OutputCompleted, events)] == [True, False, False, False]

    def test_what_rank_0_ran_and_waited_for_a_core_is_passed_on(self, path: Path) -> None:
        told = {**written(2, 3, 4), "cpu_s": 0.75, "run_delay_s": 0.125}
        first, second = only(OutputCompleted, events_of(path, {}, written(1, 1, 2), told))
        assert (first.cpu_s, first.run_delay_s) == (0, 0)
        assert (second.cpu_s, second.run_delay_s) == (0.75, 0.125)

    def test_a_refused_decision_and_a_restart(self, path: Path) -> None:
        lines: tuple[dict[str, object], ...] = (
            {"prefix": "p"},
            {"type": "restart", "name": "c4", "valid": True, "entered_s": T0 + 1, "closed_s": T0 + 2.5},
            {"type": "applied", "time_s": T0 + 3, "generation": 1, "how": "live", "seconds": 0.001},
            {"type": "apply_refused", "time_s": T0 + 4, "generation": 2, "why": "SCR_FLUSH=-1"},
            {
                "type": "apply_refused",
                "time_s": T0 + 5,
                "generation": 2,
                "why": "another kind of output",
                "in_force": {"SCR_CACHE_BYPASS": 1},
            },
        )
        (path.parent / "p" / ".scr").mkdir(parents=True)
        (path.parent / "p" / ".scr" / "log").write_text(
            "2026-11-21T14:06:39: host=n, jobid=j, event=START, procs=1, nodes=1\n"
            "2026-11-21T14:06:39: host=n, jobid=j, event=RESTART_SUCCESS, dset=4, secs=0.500000\n"
        )
        started, _, rebuilt, restart, refused, back = events_of(path, *lines)
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
            b'{"type":"job_ended"}',
            b'{"type":"job_ended","time_s":"soon"}',
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
        assert len(events_of(path, {"prefix": "a\0b"})) == 2


def _goodput(events: Sequence[Event]) -> list[GoodputEvent]:
    return [each for each in events if not isinstance(each, SettingsObserved | ApplyRefused)]  # type: ignore[misc]
