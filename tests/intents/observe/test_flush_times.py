"""How long an asynchronous flush really took: SCR's word, corrected by the bytes that DFTracer saw."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobEnded,
    JobStarted,
    OutputCompleted,
    StepCompleted,
)
from scrtune.intents.events import Access, Event, TraceDigest
from scrtune.intents.observe.flush_times import FlushTimes
from scrtune.intents.pipeline import Pipeline

RECORDED = Path(__file__).parents[2] / "data" / "scr_log" / "async_events.jsonl"
T0 = 1_700_000_000.0
MIB = 1024**2


def flush(dataset: int, start: float, end: float, size: int = 16 * MIB, **other: object) -> FlushCompleted:
    fields = {"asynchronous": True, "source": "scr", **other}
    return FlushCompleted(dataset=dataset, start_s=T0 + start, end_s=T0 + end, bytes=size, **fields)


def access(op: str, start: float, end: float, size: int = 0, tier: str = "prefix") -> Access:
    return Access(tier=tier, op=op, count=1, bytes=size, duration_s=0.0, start_s=T0 + start, end_s=T0 + end)


def digest(*accesses: Access) -> TraceDigest:
    return TraceDigest(lines=len(accesses), events=len(accesses), accesses=accesses)


def written(start: float, end: float, size: int) -> TraceDigest:
    return digest(access("write", start, end, size))


def output(dataset: int, start: float, end: float, *, flush_due: bool = True) -> OutputCompleted:
    return OutputCompleted(
        dataset=dataset, name="d", start_s=T0 + start, end_s=T0 + end, flush_due=flush_due, bytes=16 * MIB
    )


def counted(*events: Event) -> list[GoodputEvent]:
    """What `events` come to, in the order in which it is counted."""
    times = FlushTimes()
    out: list[GoodputEvent] = []
    for event in events:
        out += times.digest(event) if isinstance(event, TraceDigest) else times.event(event)
    return out


def ended(made: list[GoodputEvent]) -> list[tuple[int, float, str]]:
    return [(each.dataset, each.end_s - T0, each.source) for each in made if isinstance(each, FlushCompleted)]


def test_a_flush_that_scr_noticed_late_ended_with_its_last_byte() -> None:
    made = counted(written(1.0, 1.4, 16 * MIB), flush(1, 0.9, 4.2))
    assert ended(made) == [(1, pytest.approx(1.4), "dftracer")]


def test_the_trace_may_come_in_parts_and_behind_scrs_word() -> None:
    late = flush(1, 0.9, 4.2)
    waiting = counted(written(1.0, 1.2, 4 * MIB), late, StepCompleted(step=1, start_s=T0 + 1, end_s=T0 + 4))
    assert ended(waiting) == []
    parts = (
        written(1.2, 1.6, 8 * MIB),
        digest(access("read", 4.0, 4.1, 3, "cache")),
        written(1.6, 1.9, 4 * MIB),
    )
    assert ended(counted(written(1.0, 1.2, 4 * MIB), late, *parts)) == [(1, pytest.approx(1.9), "dftracer")]


def test_the_last_fsync_is_part_of_the_flush() -> None:
    made = counted(written(1.0, 1.4, 16 * MIB), digest(access("sync", 1.1, 2.5)), flush(1, 0.9, 4.2))
    assert ended(made) == [(1, pytest.approx(2.5), "dftracer")]


def test_what_is_not_in_the_prefix_directory_or_is_scrs_own_file_is_no_part_of_it() -> None:
    made = counted(
        written(1.0, 1.4, 16 * MIB),
        digest(access("write", 2.0, 2.5, MIB, "cache"), access("write", 3.0, 3.9, 700, "scr")),
        flush(1, 0.9, 4.2),
    )
    assert ended(made) == [(1, pytest.approx(1.4), "dftracer")]


def test_the_first_bytes_of_the_next_flush_are_not_its_own() -> None:
    made = counted(written(1.0, 1.4, 16 * MIB), written(4.0, 4.1, 3 * MIB), flush(1, 0.9, 4.2))
    assert ended(made) == [(1, pytest.approx(1.4), "dftracer")]


@pytest.mark.parametrize(
    "digests",
    [
        pytest.param([written(1.0, 4.6, 20 * MIB)], id="one digest spans two flushes"),
        pytest.param([written(1.0, 4.6, 16 * MIB)], id="it reaches beyond what SCR says"),
        pytest.param([written(0.2, 1.4, 16 * MIB)], id="it begins before the flush"),
        pytest.param([written(1.0, 1.4, 12 * MIB)], id="a node's ranks are not traced here"),
        pytest.param([written(1.0, 1.4, 16 * MIB + 1)], id="the application writes there as well"),
        pytest.param([digest(access("sync", 1.0, 1.4))], id="no writes at all"),
    ],
)
def test_scrs_number_stands_when_the_writes_are_not_surely_this_flush(digests: list[TraceDigest]) -> None:
    made = counted(*digests, flush(1, 0.9, 4.2), output(3, 7.0, 8.0))
    assert ended(made) == [(1, pytest.approx(4.2), "scr")]


@pytest.mark.parametrize(
    "known",
    [
        flush(1, 0.9, 4.2, asynchronous=False),
        flush(1, 0.9, 4.2, source="engine"),
        flush(1, 0.9, 4.2, valid=False),
    ],
    ids=["blocking", "the engine copied it itself", "failed"],
)
def test_a_flush_that_is_known_or_failed_is_left_alone(known: FlushCompleted) -> None:
    assert counted(written(1.0, 1.4, 16 * MIB), known) == [known]


def test_nothing_waits_in_a_job_that_is_not_traced() -> None:
    late = flush(1, 0.9, 4.2)
    assert counted(late) == [late]


def test_a_flush_waits_until_an_output_begins_behind_it_and_not_for_the_one_that_found_it() -> None:
    late, found_by, next_one = flush(1, 0.9, 4.2), output(2, 3.9, 4.3), output(3, 7.0, 8.0)
    assert counted(written(0.0, 0.1, 1), late, found_by) == [found_by]
    assert counted(written(0.0, 0.1, 1), late, found_by, next_one) == [found_by, late, next_one]


@pytest.mark.parametrize("last", [JobEnded(time_s=T0 + 9), JobStarted(time_s=T0 + 9)])
def test_a_flush_waits_for_nothing_beyond_its_run(last: GoodputEvent) -> None:
    late = flush(1, 0.9, 4.2)
    assert counted(written(0.0, 0.1, 1), late, last) == [late, last]


def test_the_pipeline_measures_with_the_corrected_time() -> None:
    pipeline = Pipeline()
    events: list[Event] = [
        JobStarted(time_s=T0),
        digest(access("write", 0.1, 0.2, 1, "other")),
        *(StepCompleted(step=n, start_s=T0 + n, end_s=T0 + n + 1) for n in range(4)),
        output(1, 4.0, 4.5),
        *(StepCompleted(step=n, start_s=T0 + n + 0.5, end_s=T0 + n + 1.5) for n in range(4, 8)),
        output(2, 8.5, 9.0, flush_due=False),
        flush(1, 4.5, 9.0),
        written(4.6, 5.1, 16 * MIB),
    ]
    for number, event in enumerate(events):
        pipeline.handle(event, T0 + number)
    assert [(cost.dataset, cost.flush_s) for cost in pipeline.costs] == [(2, 0.0), (1, pytest.approx(0.6))]


def recorded() -> list[tuple[float, Event]]:
    """SCR's example under scrtune, 2 ranks: 32 MiB to flush every 3 s, asynchronously, traced by DFTracer."""
    decoder = msgspec.json.Decoder(tuple[float, Event])
    return [decoder.decode(line) for line in RECORDED.read_bytes().splitlines()]


def told_to_a_pipeline(events: list[tuple[float, Event]]) -> Pipeline:
    pipeline = Pipeline()
    for now, event in events:
        pipeline.handle(event, now)
    return pipeline


def test_on_a_real_scr_every_flush_is_corrected_from_seconds_to_what_it_took() -> None:
    events = recorded()
    as_logged = {event.dataset: event.flush_s for _, event in events if isinstance(event, FlushCompleted)}
    corrected = {cost.dataset: cost.flush_s for cost in told_to_a_pipeline(events).costs}
    assert set(corrected) == set(as_logged) == set(range(1, 8))
    assert min(as_logged.values()) > 3.7  # the computation between two of SCR's calls
    assert max(corrected.values()) < 0.7


def test_a_journal_told_again_measures_the_same() -> None:
    events = recorded()
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(tuple[float, Event])
    live, again = (
        told_to_a_pipeline(each) for each in (events, [decoder.decode(encoder.encode(e)) for e in events])
    )
    assert live.costs == again.costs
    assert live.account(events[-1][0]) == again.account(events[-1][0])


numbers = st.integers(0, 60).map(lambda value: value / 4)
some_events = st.one_of(
    st.tuples(numbers, numbers, st.integers(0, 3)).map(lambda it: written(it[0], it[0] + it[1], it[2])),
    st.tuples(st.integers(1, 5), numbers, numbers, st.integers(0, 3)).map(
        lambda it: flush(it[0], it[1], it[1] + it[2], it[3])
    ),
    st.tuples(st.integers(1, 5), numbers, numbers).map(lambda it: output(it[0], it[1], it[1] + it[2])),
    numbers.map(lambda at: JobStarted(time_s=T0 + at)),
    numbers.map(lambda at: JobEnded(time_s=T0 + at)),
    numbers.map(lambda at: digest(access("sync", at, at + 1))),
)


@given(st.lists(some_events, max_size=40))
def test_no_flush_is_lost_told_twice_or_made_longer_whatever_comes_when(events: list[Event]) -> None:
    told = [event for event in events if not isinstance(event, TraceDigest)]
    made = counted(*events, JobEnded(time_s=T0 + 99))
    originals = [each for each in told if isinstance(each, FlushCompleted)]
    flushes = [each for each in made if isinstance(each, FlushCompleted)]
    assert sorted((each.dataset, each.start_s, each.bytes) for each in flushes) == sorted(
        (each.dataset, each.start_s, each.bytes) for each in originals
    )
    others = [each for each in told if not isinstance(each, FlushCompleted)]
    assert [each for each in made if not isinstance(each, FlushCompleted)] == [
        *others,
        JobEnded(time_s=T0 + 99),
    ]
    for each in flushes:
        as_scr = [msgspec.structs.replace(one, end_s=each.end_s, source=each.source) for one in originals]
        longest = max(one.end_s for one, same in zip(originals, as_scr, strict=True) if same == each)
        assert each.start_s <= each.end_s <= longest


def test_memory_is_bounded() -> None:
    times = FlushTimes()
    times.digest(written(0.0, 0.1, 1))
    released = [each for number in range(1000) for each in times.event(flush(number, number, number + 1.0))]
    assert len(released) >= 1000 - 16
