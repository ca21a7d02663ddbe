"""Tables of traces add up: in whatever order, and whoever explains a hash."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.trace.rows import Amount, RowKey
from scrtune.replay import table as tables
from scrtune.replay.table import (
    AccessKey,
    ActivityKey,
    JobThread,
    Reading,
    ThreadSpan,
    TraceTable,
    add_tables,
)

small = st.integers(0, 3)
numbers = st.none() | small
hosts = st.sampled_from(["", "n1", "aa", "bb"])
names = st.sampled_from(["aa", "bb", "cc"])
threads = st.builds(JobThread, hosts, small, small)
amounts = st.builds(
    Amount, st.integers(1, 9), st.integers(0, 99), st.integers(0, 99), small, st.integers(4, 9)
)
access_keys = st.builds(
    AccessKey, st.sampled_from(["cache", "other"]), names, st.just("write"), threads, small
)
row_keys = st.builds(RowKey, names, st.just("read"), small, small, small, st.integers(0, 64))
readings = st.builds(
    Reading,
    files=small,
    lines=small,
    events=small,
    dropped=st.dictionaries(names, st.integers(1, 3)),
    damage=st.lists(names).map(lambda found: tuple(sorted(found))),
)


@st.composite
def any_table(draw: st.DrawFn) -> TraceTable:
    bin_s = draw(st.sampled_from([1, 2, 8]))
    keys = st.builds(ActivityKey, st.just("cache"), st.just("write"), threads, st.integers(0, 64 // bin_s))
    spans = st.builds(
        ThreadSpan, threads, st.floats(0, 9), st.floats(10, 19), st.just("save"), names, numbers, numbers
    )
    return add_tables(
        [
            TraceTable(
                accesses=draw(st.dictionaries(access_keys, amounts, max_size=4)),
                activity=draw(st.dictionaries(keys, amounts, max_size=4)),
                bin_s=bin_s,
                unexplained=draw(st.dictionaries(st.tuples(row_keys, hosts), amounts, max_size=3)),
                spans=tuple(draw(st.lists(spans, max_size=3))),
                places=draw(st.dictionaries(names, st.sampled_from(["cache/a", "other/b"]))),
                hosts=draw(st.dictionaries(names, st.sampled_from(["n1", "n2"]))),
                processes=tuple(draw(st.lists(st.tuples(hosts, small), max_size=2))),
                start_s=draw(st.floats(1, 5)),
                end_s=draw(st.floats(5, 9)),
                reading=draw(readings),
            )
        ]
    )


@given(any_table(), any_table(), any_table())
def test_adding_is_associative_and_commutative(one: TraceTable, two: TraceTable, three: TraceTable) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three) == add_tables([three, one, two])
    assert one + TraceTable() == one


@given(any_table(), any_table())
def test_nothing_is_lost_when_hashes_are_explained(one: TraceTable, two: TraceTable) -> None:
    whole = one + two
    resolved = whole.resolved()
    assert resolved.unexplained == {}
    for field in ("calls", "bytes", "duration_ns"):
        before = [*whole.accesses.values(), *whole.unexplained.values()]
        assert sum(getattr(each, field) for each in resolved.accesses.values()) == sum(
            getattr(each, field) for each in before
        )


@given(any_table())
def test_a_table_is_remembered_as_it_is(one: TraceTable) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=TraceTable) == one


def test_too_much_activity_makes_bins_wider_however_it_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ACTIVITY", 10)
    thread, amount = JobThread("n1", 1, 1), Amount(1, 1, 1, 1, 1)
    parts = [
        TraceTable(
            activity={ActivityKey("cache", "write", thread, number): amount for number in range(start, 40, 3)}
        )
        for start in range(3)
    ]
    one, two, three = parts
    assert (one + two) + three == one + (two + three)
    whole = one + two + three
    assert (whole.bin_s, len(whole.activity)) == (4, 10)
    assert sum(each.calls for each in whole.activity.values()) == 40


def test_a_hash_that_another_trace_explains_has_its_place() -> None:
    row = RowKey("aa", "write", 1, 1, 4, 7)
    unknown = TraceTable(unexplained={(row, "hh"): Amount(2, 20, 5, 7, 8)})
    knowing = TraceTable(places={"aa": "prefix/model.pt"}, hosts={"hh": "n1"})
    found = (unknown + knowing).resolved()
    thread = JobThread("n1", 1, 1)
    assert list(found.accesses) == [AccessKey("prefix", "model.pt", "write", thread, 4)]
    assert list(found.activity) == [ActivityKey("prefix", "write", thread, 7)]
    assert next(iter(unknown.resolved().accesses)).tier == "other"


def test_spans_are_in_order_whether_or_not_they_name_an_epoch() -> None:
    thread = JobThread("n1", 7, 7)
    spans = [ThreadSpan(thread, 1.0, 2.0, "save", "save", epoch, step) for epoch, step in ((2, 1), (None, 3))]
    found = add_tables(TraceTable(spans=(span,)) for span in spans)
    assert found.spans == (spans[1], spans[0])
