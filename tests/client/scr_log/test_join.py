"""One class for the preloaded library and for Python: the log's durations, the calls' times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.scr_log.join import Flushed, Joiner, Output
from scrtune.client.scr_log.log import LogRecord
from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobHalted,
    NodeFailed,
    Recovered,
)
from scrtune.goodput.validation import defect

from ...support.memory import kept_bytes
from .records import SIZE, T0, only, output


def event(name: str, at: float = 0.0, **fields: object) -> LogRecord:
    return LogRecord(name=name, time_s=T0 + at, **fields)


def transfer(name: str, at: float, seconds: float, dataset: int) -> LogRecord:
    return event(name, at, is_transfer=True, seconds=seconds, dataset=dataset, bytes=SIZE, files=4)


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
        joiner.flushed(Flushed(dataset=2, seconds=2.5, cpu_s=1.5, run_delay_s=0.5))
        (flush,) = joiner.records(noticed if is_told_first else [])
        assert (flush.end_s - T0, flush.source) == (pytest.approx(12.25 + 2.5), "libscrtune")
        assert (flush.cpu_s, flush.run_delay_s) == (1.5, 0.5)
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
        def joined(count: int) -> Joiner:
            joiner = Joiner()
            for number in range(count):
                joiner.records([*logged(number, 10.0), event("ASYNC_FLUSH_START", dataset=-number)])
                joiner.records([event("RESTART_SUCCESS", dataset=number, seconds=1.0)])
            return joiner

        assert kept_bytes(lambda: joined(10_000)) < 1.5 * kept_bytes(lambda: joined(5_000))


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


times = st.floats(0, 50)
ends = st.builds(
    Flushed, dataset=st.integers(1, 4), seconds=st.none() | st.floats(-5, 50), cpu_s=times, run_delay_s=times
)


gaps = st.floats(0, 5)
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
