"""Recorded traces are read whole, and from a damaged file everything that can be."""

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.intents.trace.decoder import TraceDecoder
from scrtune.replay.reading import traces
from scrtune.replay.reading.traces import Batch, Summary, TraceNotFoundError, find_traces, read_traces

TRACES = Path(__file__).parents[2] / "data" / "traces"


def line(number: int, text: str = "") -> bytes:
    args = f'"args":{{"hhash":"aa","ret":{number},"note":"{text}"}}'
    start = 1_700_000_000_000_000 + number * 1_000_000
    fields = f'"name":"write","cat":"POSIX","pid":7,"tid":7,"ts":{start},"dur":1,"ph":1,{args}'
    return f"{{{fields}}}\n".encode()


def lines(first: int, last: int) -> bytes:
    # random text, so that a member is large enough to be cut and flipped in the middle
    source = random.Random(first)
    return b"".join(line(number, source.randbytes(40).hex()) for number in range(first, last))


def read_all(*paths: Path) -> tuple[bytes, Summary]:
    summary = Summary()
    return b"".join(batch.data for batch in read_traces(paths, summary)), summary


def sizes_in(data: bytes) -> set[int]:
    decoder = TraceDecoder()
    decoder.feed(data)
    taken = decoder.take(final=True)
    return {size for access in taken.accesses for size in access.sizes} if taken else set()


@pytest.mark.parametrize(
    ("folder", "files", "lines", "size"),
    [
        ("gen2-pydftracer-1.0.9", 2, 106, 20_417),
        ("gen2-dftracer-2.0.0", 4, 118, 21_646),
        ("gen3-dftracer-2.0.3", 6, 198, 33_733),
        ("gen3-dftracer-2.1.0", 6, 122, 20_174),  # two of them empty
        ("gen4-node-service", 1, 60, 21_832),
        ("gen4-python-fork-plain", 3, 293, 57_538),
        ("gen4-python-spawn-gz", 3, 215, 42_539),
    ],
)
def test_real_traces_are_read_whole(folder: str, files: int, lines: int, size: int) -> None:
    summary = Summary()
    data = b"".join(batch.data for batch in read_traces([TRACES / folder], summary))
    assert (summary.files, summary.lines, summary.bytes, summary.damage) == (files, lines, size, [])
    assert len(data) == size


def test_all_traces_together_decode_to_what_was_fed() -> None:
    summary = Summary()
    decoder = TraceDecoder()
    for batch in read_traces([TRACES], summary):
        decoder.feed(batch.data, batch.source)
    taken = decoder.take(final=True)
    assert taken is not None
    assert taken.lines + decoder.blank == summary.lines
    assert taken.generations == {2: 212, 3: 300, 4: 848}
    assert taken.dropped == {"broken json": 6}


def test_members_of_one_file_are_read_one_after_the_other(tmp_path: Path) -> None:
    trace = tmp_path / "app.pfw.gz"
    trace.write_bytes(gzip.compress(lines(0, 50)) + gzip.compress(b"") + gzip.compress(lines(50, 99)))
    data, summary = read_all(trace)
    assert data == lines(0, 50) + lines(50, 99)
    assert summary.damage == []


def test_a_line_may_cross_members(tmp_path: Path) -> None:
    trace = tmp_path / "app.pfw.gz"
    whole = lines(0, 9)
    trace.write_bytes(gzip.compress(whole[:500]) + gzip.compress(whole[500:]))
    assert read_all(trace)[0] == whole


def test_padding_of_zeros_is_no_damage(tmp_path: Path) -> None:
    trace = tmp_path / "app.pfw.gz"
    trace.write_bytes(gzip.compress(lines(0, 5)) + bytes(100_000))
    data, summary = read_all(trace)
    assert (data, summary.damage) == (lines(0, 5), [])


@pytest.mark.parametrize("missing", [1, 8, 9, 100, 2000])
def test_a_file_that_was_cut_off_keeps_the_lines_before(tmp_path: Path, missing: int) -> None:
    first, second = gzip.compress(lines(0, 50)), gzip.compress(lines(50, 100))
    trace = tmp_path / "app.pfw.gz"
    trace.write_bytes((first + second)[:-missing])
    data, summary = read_all(trace)
    found = sizes_in(data)
    assert set(range(50)) <= found
    assert len(found) >= 100 - missing // 20
    (damage,) = summary.damage
    assert (damage.source, damage.offset) == (str(trace), len(first))
    assert "cut off" in damage.reason


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    torn = gzip.compress(lines(0, 50))[:-300]
    trace = tmp_path / "app.pfw.gz"
    trace.write_bytes(torn + gzip.compress(lines(50, 100)))
    data, summary = read_all(trace)
    assert set(range(50, 100)) <= sizes_in(data)
    assert len(sizes_in(data)) > 80
    (damage,) = summary.damage
    assert damage.offset == 0


def test_what_is_no_gzip_between_members_is_skipped_and_said(tmp_path: Path) -> None:
    first = gzip.compress(lines(0, 20))
    trace = tmp_path / "app.pfw.gz"
    # the second piece of rubbish looks like a member's beginning, but is none
    trace.write_bytes(
        first + b"rubbish" * 30_000 + traces.MAGIC + b"more rubbish" + gzip.compress(lines(20, 40))
    )
    data, summary = read_all(trace)
    assert sizes_in(data) == set(range(40))
    assert [(damage.offset, damage.reason) for damage in summary.damage] == [
        (len(first), "not a gzip member")
    ]


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_at_most_its_member(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    members = [gzip.compress(lines(first, first + 20), mtime=0) for first in range(0, 100, 20)]
    raw = bytearray(b"".join(members))
    position %= len(raw)
    raw[position] ^= 1 << bit
    trace = tmp_path_factory.getbasetemp() / "flipped.pfw.gz"
    trace.write_bytes(raw)
    data, summary = read_all(trace)
    hit = next(n for n in range(len(members)) if position < sum(map(len, members[: n + 1])))
    others = set(range(100)) - set(range(hit * 20, hit * 20 + 20))
    assert others <= sizes_in(data)
    if data != lines_of_all(members):
        assert summary.damage


def lines_of_all(members: list[bytes]) -> bytes:
    return b"".join(map(gzip.decompress, members))


@settings(max_examples=60)
@given(raw=st.binary(max_size=300), prefix=st.sampled_from([b"", traces.MAGIC, gzip.compress(b"{}\n")]))
def test_any_bytes_under_a_trace_s_name(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, prefix: bytes
) -> None:
    trace = tmp_path_factory.getbasetemp() / "any.pfw.gz"
    trace.write_bytes(prefix + raw)
    data, summary = read_all(trace)
    assert summary.bytes == len(data)
    assert summary.damage or data or not raw.strip(b"\0")


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.pfw.gz", tmp_path / "packed.pfw"
    plain.write_bytes(lines(0, 5))
    packed.write_bytes(gzip.compress(lines(5, 9)))
    data, summary = read_all(tmp_path)
    assert sizes_in(data) == set(range(9))
    assert summary.damage == []


def test_batches_hold_whole_lines_and_little_memory(tmp_path: Path) -> None:
    trace = tmp_path / "app.pfw"
    whole = lines(0, 5000)
    trace.write_bytes(whole.removesuffix(b"\n"))
    batches = list(read_traces([trace], Summary()))
    assert b"".join(batch.data for batch in batches) == whole.removesuffix(b"\n")
    assert all(batch.data.endswith(b"\n") for batch in batches[:-1])
    assert max(len(batch.data) for batch in batches) < 2 * 64 * 1024


def test_files_are_merged_in_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.pfw").write_bytes(b"".join(line(number) for number in range(0, 4000, 2)))
    (tmp_path / "b.pfw.gz").write_bytes(gzip.compress(b"".join(line(number) for number in range(1, 4000, 2))))
    ends = [batch.end_s or 0.0 for batch in read_traces([tmp_path], Summary())]
    assert ends == sorted(ends)
    assert len(ends) > 4
    assert ends[-1] == pytest.approx(1_700_000_000 + 3999)


@pytest.mark.parametrize(
    ("ts", "end_s"),
    [
        (b"1700000000", 1.7e9),
        (b"1700000000000", 1.7e9),
        (b"1700000000000000", 1.7e9),
        (b"1700000000000000000", 1.7e9),
        (b'"1700000000000000"', 1.7e9),
        (b"12", None),
        (b"null", None),
    ],
)
def test_the_end_of_a_batch_in_whatever_unit(tmp_path: Path, ts: bytes, end_s: float | None) -> None:
    trace = tmp_path / "app.pfw"
    trace.write_bytes(b'{"name":"write","ph":1,"ts":' + ts + b"}\n")
    assert [batch.end_s for batch in read_traces([trace], Summary())] == [end_s and pytest.approx(end_s)]


def test_a_line_without_end_is_cut_and_said(tmp_path: Path) -> None:
    trace = tmp_path / "app.pfw"
    trace.write_bytes(line(1) + b"x" * (3 << 20) + b"\n" + line(2))
    batches: list[Batch] = list(read_traces([trace], summary := Summary()))
    assert sizes_in(b"".join(batch.data for batch in batches)) == {1, 2}
    assert max(len(batch.data) for batch in batches) < (1 << 20) + (1 << 17)
    (damage,) = summary.damage
    assert "longer than" in damage.reason


def test_directories_are_searched_and_each_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    trace = tmp_path / "deep" / "er" / "app.pfw"
    trace.write_bytes(line(1))
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "app.pfw").mkdir()
    (tmp_path / "link.pfw").symlink_to(trace)
    assert [path.resolve() for path in find_traces([tmp_path, trace])] == [trace]


def test_where_there_is_nothing_to_read_the_user_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFoundError, match="not there"):
        find_traces([tmp_path / "absent.pfw"])
    with pytest.raises(TraceNotFoundError, match=r"no \.pfw or \.pfw\.gz file"):
        read_traces([tmp_path], Summary())


def test_a_file_that_vanishes_costs_only_itself(tmp_path: Path) -> None:
    kept, gone = tmp_path / "a.pfw", tmp_path / "b.pfw"
    kept.write_bytes(line(1))
    gone.write_bytes(line(2))
    batches = read_traces([tmp_path], summary := Summary())
    gone.unlink()
    assert sizes_in(b"".join(batch.data for batch in batches)) == {1}
    (damage,) = summary.damage
    assert (damage.source, damage.reason) == (str(gone), "cannot be read: No such file or directory")
