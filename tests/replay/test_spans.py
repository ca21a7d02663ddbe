"""Checkpoints and restarts in recorded traces: by spans where there are any, by bursts of writes without."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.events import OutputCompleted, RestartCompleted
from scrtune.intents.events import Access, Span, SpanKind, TraceDigest
from scrtune.intents.intent import Confidence
from scrtune.replay.reading.traces import Summary
from scrtune.replay.run import JobShape, find_checkpoints, read_digests
from scrtune.replay.spans import JobInterval, TraceFindings, from_spans, from_writes, outermost, writes


def span(start_s: float, end_s: float, *, pid: int = 1, step: int | None = None, kind: str = "save") -> Span:
    epoch = None if step is None else 0
    return Span(name="save", start_s=start_s, end_s=end_s, pid=pid, kind=kind, epoch=epoch, step=step)


def digest(spans: Iterable[Span] = (), accesses: Sequence[Access] = ()) -> TraceDigest:
    return TraceDigest(checkpoints=tuple(spans), accesses=tuple(accesses))


def written(start_s: float, end_s: float, size: int, tier: str = "prefix", op: str = "write") -> Access:
    return Access(tier=tier, op=op, count=1, bytes=size, duration_s=0.1, start_s=start_s, end_s=end_s)


def from_bursts(digests: Iterable[TraceDigest]) -> TraceFindings:
    return from_writes(writes(digests))


def times(intervals: Iterable[JobInterval]) -> list[tuple[float, float]]:
    return [(each.start_s, each.end_s) for each in intervals]


spans = st.builds(lambda start, length: span(start, start + length), st.integers(0, 60), st.integers(0, 5))


@given(spans=st.lists(spans, max_size=12), cut=st.integers(0, 12))
def test_without_steps_what_overlaps_is_one_checkpoint(spans: list[Span], cut: int) -> None:
    made = from_spans([digest(spans[:cut]), digest(spans[cut:])]).saves
    seconds = {t for each in made for t in range(int(each.start_s), int(each.end_s) + 1)}
    assert seconds == {t for span in spans for t in range(int(span.start_s), int(span.end_s) + 1)}
    assert all(earlier.end_s < later.start_s for earlier, later in pairwise(made))


def test_very_many_overlapping_spans_are_grouped_at_once() -> None:
    many = [span(float(n), n + 1.5, pid=n) for n in range(100_000)]
    assert times(from_spans([digest(many)]).saves) == [(0.0, 100_000.5)]


def test_ranks_that_drift_apart_take_the_checkpoints_that_their_steps_say() -> None:
    # two ranks without a barrier, eight saves each: the slower one's begin when the faster one is two ahead
    fast = [span(10.0 * n, 10.0 * n + 4, pid=1, step=n) for n in range(8)]
    slow = [span(15.0 * n, 15.0 * n + 6, pid=2, step=n) for n in range(8)]
    made = from_spans([digest(fast + slow)]).saves
    assert times(made) == [(10.0 * n, 15.0 * n + 6) for n in range(8)]


def test_a_step_that_is_saved_again_after_others_is_another_checkpoint() -> None:
    again = [span(0, 1, step=1), span(10, 11, step=2), span(20, 21, step=1)]
    assert times(from_spans([digest(again)]).saves) == [(0, 1), (10, 11), (20, 21)]


def test_files_that_are_saved_one_after_the_other_for_a_step_are_one_checkpoint() -> None:
    files = [span(float(n), n + 0.5, step=3) for n in range(44)]
    assert times(from_spans([digest(files)]).saves) == [(0.0, 43.5)]


def test_a_span_without_epoch_and_step_has_those_of_one_in_it() -> None:
    """Two threads save one checkpoint one after the other; what they call is what names the step."""
    calls = [span(0, 4), span(1, 3, step=3), span(5, 9, pid=2), span(6, 8, pid=2, step=3)]
    assert [(each.step, each.end_s) for each in outermost(calls)] == [(3, 4), (3, 9)]
    assert times(from_spans([digest(calls)]).saves) == [(0, 9)]


def test_whole_checkpoints_that_name_their_epoch_alone_are_several() -> None:
    """As DLIO's, which has many in an epoch; calls that write a file each may be parts of one."""
    whole = [
        msgspec.structs.replace(
            span(10.0 * n + rank, 10.0 * n + 5, pid=rank), name="X.save_checkpoint", epoch=1
        )
        for n in range(3)
        for rank in range(2)
    ]
    assert times(from_spans([digest(whole)]).saves) == [(0, 5), (10, 15), (20, 25)]
    parts = [msgspec.structs.replace(each, name="capture") for each in whole]
    assert times(from_spans([digest(parts)]).saves) == [(0, 25)]


def test_what_lies_within_another_span_of_its_thread_is_part_of_it() -> None:
    nested = [span(0.0, 10.0), span(1.0, 2.0), span(2.0, 9.0), span(3.0, 4.0), span(11.0, 12.0)]
    assert times(from_spans([digest(nested)]).saves) == [(0.0, 10.0), (11.0, 12.0)]
    elsewhere = span(1.0, 2.0, pid=2)
    assert elsewhere in outermost([*nested, elsewhere])


@given(spans=st.lists(spans, max_size=12))
def test_outermost_spans_cover_what_all_cover_and_none_lies_in_another(spans: list[Span]) -> None:
    kept = outermost(spans)
    assert {(s.start_s, s.end_s) for s in kept} <= {(s.start_s, s.end_s) for s in spans}
    for each in spans:
        assert any(other.start_s <= each.start_s and each.end_s <= other.end_s for other in kept)
    assert all(later.end_s > earlier.end_s for earlier, later in pairwise(kept))


def test_loads_are_restarts_of_the_checkpoint_before_them() -> None:
    found = from_spans([digest([span(0, 1), span(5, 6), span(7, 8, kind="load")])])
    *saves, restart = found.events([], ranks=2)
    assert [type(each) for each in saves] == [OutputCompleted, OutputCompleted]
    assert isinstance(restart, RestartCompleted)
    assert (restart.dataset, restart.start_s, restart.end_s) == (2, 7, 8)


def test_bytes_are_the_writes_outside_scrs_own_files_shared_out() -> None:
    accesses = [written(0, 1, 60), written(0, 1, 7, tier="scr"), written(0, 1, 9, op="read")]
    digests = [digest([span(0.0, 0.5), span(2.0, 2.5)], accesses)]
    made = from_spans(digests).events(digests, ranks=3)
    assert [(each.bytes, each.files) for each in made if isinstance(each, OutputCompleted)] == [(30, 3)] * 2


def test_without_spans_and_writes_there_are_no_checkpoints() -> None:
    assert from_spans([digest()]).saves == ()
    assert from_bursts([digest()]).saves == ()


# --- bursts


@given(
    count=st.integers(2, 12),
    writes=st.integers(1, 6),
    period_s=st.floats(5.0, 600.0),
    ranks=st.integers(1, 4),
)
def test_regular_bursts_of_writes_are_found_each(
    count: int, writes: int, period_s: float, ranks: int
) -> None:
    digests = [
        digest(
            accesses=[written(period_s * n + 0.01 * i + 0.001 * rank, period_s * n + 0.01 * i + 0.005, 100)]
        )
        for n in range(count)
        for i in range(writes)
        for rank in range(ranks)
    ]
    found = from_bursts(digests)
    assert len(found.saves) == count
    assert found.confidence == (Confidence.MEDIUM if count >= 3 else Confidence.LOW)
    assert "inferred" in found.source


def test_writes_without_a_break_are_one_burst() -> None:
    found = from_bursts([digest(accesses=[written(float(n), n + 0.9, 100)]) for n in range(20)])
    assert times(found.saves) == [(0.0, 19.9)]
    assert found.confidence is Confidence.LOW


def test_small_writes_between_the_bursts_are_no_checkpoints() -> None:
    bursts = [digest(accesses=[written(100.0 * n, 100.0 * n + 1, 1_000_000)]) for n in range(5)]
    logs = [digest(accesses=[written(100.0 * n + 50, 100.0 * n + 50.1, 80)]) for n in range(5)]
    assert times(from_bursts([*bursts, *logs]).saves) == [(100.0 * n, 100.0 * n + 1) for n in range(5)]


# --- traces as they are


def line(name: str, start_s: float, seconds: float, category: str, pid: int = 7, **args: object) -> str:
    fields = "".join(f',"{key}":{value}' for key, value in args.items())
    micros = (int(start_s * 1e6) + 10**15, int(seconds * 1e6))
    return (
        f'{{"id":1,"name":"{name}","cat":"{category}","pid":{pid},"tid":{pid},"ts":{micros[0]},"dur":{micros[1]},'
        f'"ph":1,"args":{{"hhash":"0123456789abcdef"{fields}}}}}\n'
    )


def found_in(tmp_path: Path, text: str) -> tuple[list[float], int]:
    """The seconds of the checkpoints in a trace, and the number of its restarts."""
    (tmp_path / "a.pfw").write_text(text)
    digests = read_digests([tmp_path], JobShape(), Summary())
    found = find_checkpoints([tmp_path], JobShape(), digests)
    return [round(each.end_s - each.start_s, 6) for each in found.saves], len(found.loads)


def test_a_dlio_trace_of_one_checkpoint_reads_as_one(tmp_path: Path) -> None:
    text = (
        line("PyTorchCheckpointing.__init__", 0.0, 0.001, "checkpoint")
        + line("checkpoint.init", 0.1, 0.001, "ai")
        + "".join(
            line("PyTorchCheckpointing.get_tensor_core", 0.2 + n / 1e3, 5e-4, "checkpoint")
            for n in range(300)
        )
        + line("PyTorchCheckpointing.save_state", 1.0, 0.004, "checkpoint", epoch=1, step=1)
        + line("PyTorchCheckpointing.save_checkpoint", 1.0, 0.0054, "checkpoint", epoch=1, step=1)
        + line("PyTorchCheckpointing.load_checkpoint", 3.0, 0.2, "checkpoint", epoch=1, step=1)
        + line("PyTorchCheckpointing.finalize", 4.0, 0.001, "checkpoint")
    )
    assert found_in(tmp_path, text) == ([0.0054], 1)


def test_a_code_without_spans_is_seen_by_its_bursts(tmp_path: Path) -> None:
    text = "".join(
        line("write", 60.0 * n + i / 100, 0.005, "POSIX", ret=4096) for n in range(4) for i in range(20)
    )
    seconds, restarts = found_in(tmp_path, text)
    assert (len(seconds), restarts) == (4, 0)
    assert seconds == pytest.approx([0.195] * 4)


@pytest.mark.parametrize("kind", list(SpanKind))
def test_a_span_says_in_which_epoch_and_step_it_was(tmp_path: Path, kind: SpanKind) -> None:
    name = {SpanKind.SAVE: "save_checkpoint", SpanKind.LOAD: "ckpt.restore"}[kind]
    (tmp_path / "a.pfw").write_text(line(name, 1.0, 1.0, "checkpoint", epoch='"2"', step=5))
    (read,) = read_digests([tmp_path], JobShape(), Summary())
    assert [(each.kind, each.epoch, each.step, each.tid) for each in read.checkpoints] == [(kind, 2, 5, 7)]
