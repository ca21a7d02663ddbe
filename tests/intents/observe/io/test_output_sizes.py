"""Intent 9: the last outputs of each kind, their drift, and the writes that were traced in them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import OutputCompleted
from scrtune.intents.events import Access, TraceDigest
from scrtune.intents.observe.io.output_sizes import CHECKPOINTS, PURE_OUTPUTS, KindSizes, OutputSizeObserver

MIB = 1 << 20


def output(number: int, total_bytes: int, **fields: object) -> OutputCompleted:
    start_s = 10.0 * number
    made = OutputCompleted(dataset=number, name=f"d{number}", start_s=start_s, end_s=start_s + 1, files=4)
    return msgspec.structs.replace(made, bytes=total_bytes, **fields)


def writes(start_s: float, end_s: float, sizes: dict[int, int], tier: str = "cache") -> TraceDigest:
    access = Access(
        tier=tier,
        op="write",
        count=sum(sizes.values()),
        bytes=sum(size * count for size, count in sizes.items()),
        duration_s=0.1,
        start_s=start_s,
        end_s=end_s,
        sizes=sizes,
    )
    return TraceDigest(start_s=start_s, end_s=end_s, accesses=(access,))


def seen(*events: OutputCompleted | TraceDigest, kind: str = CHECKPOINTS) -> KindSizes:
    observer = OutputSizeObserver()
    for event in events:
        if isinstance(event, TraceDigest):
            observer.add(event)
        else:
            observer.add_output(event)
    return observer.observe().kinds[kind]


def test_before_the_first_output_nothing_is_known() -> None:
    intent = OutputSizeObserver().observe()
    assert (intent.kinds, intent.evidence.count, intent.sentence()) == ({}, 0, "no output was completed yet")


@pytest.mark.parametrize(
    ("sizes", "drift", "next_bytes"),
    [
        ([100], None, 100),
        ([100, 100], 0.0, 100),
        ([100, 125], 0.25, 125),
        ([100, 126], 0.26, 126),
        ([100, 74], -0.26, 100),
        ([0, 100], None, 100),
        ([100, 10, 100], 9.0, 100),
    ],
)
def test_drift_is_against_the_one_before(sizes: list[int], drift: float | None, next_bytes: int) -> None:
    kind = seen(*(output(number, size) for number, size in enumerate(sizes)))
    assert (kind.drift is None) == (drift is None)
    if drift is not None:
        assert kind.drift == pytest.approx(drift)
    assert (kind.file_bytes, kind.outputs) == (next_bytes // kind.files, len(sizes))


def test_kinds_are_told_apart_and_what_failed_does_not_count() -> None:
    events = [
        output(1, 100),
        output(2, 9, checkpoint=False),
        output(3, 5, valid=False),
        output(4, 7, checkpoint=False, shared_files=True),
    ]
    assert seen(*events).outputs == 1
    pure = seen(*events, kind=PURE_OUTPUTS)
    assert (pure.outputs, pure.bytes, pure.before_bytes, pure.is_shared) == (2, 7, 9, True)


@pytest.mark.parametrize("is_trace_first", [True, False])
def test_writes_are_those_traced_while_the_output_was_written(is_trace_first: bool) -> None:
    trace, made = writes(10.1, 10.9, {MIB: 4, 64: 9}), output(1, 4 * MIB)
    elsewhere = [writes(8.0, 10.5, {7: 1}), writes(10.5, 11.5, {8: 1})]
    kind = seen(*elsewhere, *((trace, made) if is_trace_first else (made, trace)), *elsewhere)
    assert [(top.size_bytes, top.count) for top in kind.writes.top] == [(MIB, 4), (64, 9)]


def test_what_is_written_into_the_cache_is_the_applications_and_a_flush_is_not() -> None:
    kind = seen(output(1, 1), writes(10.2, 10.3, {32 * MIB: 1}, "prefix"), writes(10.1, 10.2, {MIB: 4}))
    assert kind.writes.p90_bytes == MIB


def test_the_drift_of_the_writes_is_that_of_their_median() -> None:
    events = []
    for number, size in enumerate((MIB, MIB, 2 * MIB)):
        events += [output(number, MIB), writes(10.0 * number + 0.1, 10.0 * number + 0.2, {size: 4})]
    kind = seen(*events)
    assert (kind.drift, kind.writes_drift) == (0.0, 1.0)
    untraced = seen(*events, output(3, MIB))
    assert (untraced.writes.p50_bytes, untraced.writes_drift) == (2 * MIB, 1.0)


@given(st.lists(st.integers(0, 1 << 50), min_size=1, max_size=30))
def test_the_last_eight_are_remembered(sizes: list[int]) -> None:
    kind = seen(*(output(number, size) for number, size in enumerate(sizes)))
    last = sizes[-8:]
    assert (kind.bytes, kind.least_bytes, kind.most_bytes) == (sizes[-1], min(last), max(last))
    assert kind.least_bytes <= kind.median_bytes <= kind.most_bytes
    assert kind.text()


def test_a_trace_without_outputs_takes_no_more_than_its_room() -> None:
    observer = OutputSizeObserver()
    for number in range(1000):
        observer.add(writes(float(number), number + 0.5, {number: 1}))
    observer.add_output(output(1, 5))
    assert observer.observe().kinds[CHECKPOINTS].writes.count == 0
