"""What real DFTracer traces of every generation say, and the formats that are not among them."""

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.intents.events import TraceDigest
from scrtune.intents.trace.decoder import TraceDecoder

from ...support.trace_lines import HASH, TIERS, TRACES, content, explain, line
from .digests import access, digest_of

WRITES_OF_ONE_RANK = {320: 27, 30_000: 12, 300_000: 3, 2_000_000: 3}  # of the application traced in gen4


def files_of(folder: str) -> dict[str, bytes]:
    return {path.name: content(path) for path in sorted((TRACES / folder).iterdir())}


def digest_of_folder(folder: str, tiers: dict[str, str] = TIERS) -> TraceDigest:
    decoder = TraceDecoder(tiers)
    for source, data in files_of(folder).items():
        decoder.feed(data, source)
    taken = decoder.take(final=True)
    assert taken is not None
    return taken


@pytest.mark.parametrize(
    ("folder", "lines", "events", "metadata", "broken", "generation", "processes", "spans"),
    [
        ("gen2-pydftracer-1.0.9", 102, 80, 22, 0, 2, 2, 12),
        ("gen2-dftracer-2.0.0", 110, 84, 26, 0, 2, 4, 12),
        ("gen3-dftracer-2.0.3", 186, 147, 39, 0, 3, 6, 12),
        ("gen3-dftracer-2.1.0", 114, 82, 32, 0, 3, 4, 12),
        ("gen4-aggregated-full", 43, 29, 14, 0, 4, 1, 0),
        ("gen4-broken-strings", 100, 84, 14, 2, 4, 1, 7),
        ("gen4-nanoseconds-no-args", 94, 85, 9, 0, 4, 1, 7),
        ("gen4-node-service", 60, 60, 0, 0, 4, 0, 0),
        ("gen4-preload", 49, 36, 13, 0, 4, 1, 0),
        ("gen4-python-fork-plain", 293, 257, 34, 2, 4, 3, 21),
        ("gen4-python-spawn-gz", 215, 173, 40, 2, 4, 3, 14),
    ],
)
def test_every_line_of_a_real_trace_is_accounted_for(  # noqa: PLR0913, PLR0917
    folder: str,
    lines: int,
    events: int,
    metadata: int,
    broken: int,
    generation: int,
    processes: int,
    spans: int,
) -> None:
    taken = digest_of_folder(folder)
    assert (taken.lines, taken.events, taken.metadata) == (lines, events, metadata)
    assert taken.dropped == ({"broken json": broken} if broken else {})
    assert taken.generations == {generation: lines - broken}
    assert (len(taken.processes), len(taken.checkpoints)) == (processes, spans)
    assert taken.unresolved == 0


@pytest.mark.parametrize(
    ("folder", "ranks"),
    [("gen4-broken-strings", 1), ("gen4-python-fork-plain", 3), ("gen4-python-spawn-gz", 2)],
)
def test_sizes_bytes_and_tiers_of_generation_4(folder: str, ranks: int) -> None:
    taken = digest_of_folder(folder)
    writes = access(taken, "write")
    assert writes.sizes == {size: count * ranks for size, count in WRITES_OF_ONE_RANK.items()}
    assert writes.bytes == 7_268_640 * ranks
    assert writes.count == 45 * ranks
    assert access(taken, "read").sizes == {2_422_560: ranks, 0: 2 * ranks}
    assert access(taken, "sync").count == 6 * ranks
    assert access(taken, "metadata").count == 21 * ranks
    assert {found.tier for found in taken.accesses} == {"prefix"}


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("gen2-pydftracer-1.0.9", 6),
        ("gen2-dftracer-2.0.0", 6),
        ("gen3-dftracer-2.1.0", 6),
        ("gen3-dftracer-2.0.3", 11),  # of which 5 are aggregated, and counted once
    ],
)
def test_sizes_bytes_and_tiers_of_generations_2_and_3(folder: str, files: int) -> None:
    taken = digest_of_folder(folder)
    assert access(taken, "write").sizes == {320: files, 100: files}
    assert access(taken, "write").bytes == 420 * files
    assert access(taken, "read").sizes == {10: files}
    assert (access(taken, "sync").count, access(taken, "metadata").count) == (files, 6 * files)


def test_aggregated_lines_give_counts_and_bytes_but_no_file_and_no_sizes() -> None:
    taken = digest_of_folder("gen4-aggregated-full")
    writes = access(taken, "write", "other")
    assert (writes.count, writes.bytes, writes.sizes) == (45, 7_268_640, {})
    assert writes.duration_s == pytest.approx(0.003629)
    assert access(taken, "read", "other").bytes == 2_422_560
    # dft_cnt says 1 for each of three threads' opens; their sums show that each had at least two
    assert access(taken, "metadata", "other").count == 6 + 7 + 3 + 4
    assert taken.unresolved == 0


def test_aggregated_accesses_of_one_size_have_that_size() -> None:
    sums = {
        "dft_cnt": 3,
        "ret": None,
        "ret_sum": 24,
        "ret_min": 8,
        "ret_max": 8,
        "dur_sum": 30,
        "dur_max": 12,
    }
    taken = digest_of(explain(HASH, "/scratch/study/data/a"), line(ph=3, args=sums), line(ph="C", args=sums))
    writes = access(taken, "write")
    assert (writes.count, writes.bytes, writes.sizes) == (6, 48, {8: 6})
    assert writes.duration_s == pytest.approx(60e-6)


def test_nanoseconds_become_seconds_and_calls_without_arguments_still_count() -> None:
    taken = digest_of_folder("gen4-nanoseconds-no-args")
    writes = access(taken, "write", "other")
    assert (writes.count, writes.bytes, writes.sizes) == (45, 0, {})
    assert taken.start_s == pytest.approx(1_795_252_358.325333)
    assert taken.end_s == pytest.approx(1_795_252_358.37351)
    assert writes.duration_s == pytest.approx(0.003601)
    assert taken.processes == (("vm", 16981),)


@pytest.mark.parametrize(("unit", "per_second"), [("SEC", 1), ("MS", 10**3), ("US", 10**6), ("NS", 10**9)])
def test_times_are_read_in_the_unit_that_their_process_declares(unit: str, per_second: int) -> None:
    metric = explain(unit, "time_metric", kind="CM")
    own = line(ts=1_700_000_000 * per_second, dur=2 * per_second)
    other = line(pid=8)
    taken = digest_of(metric + own + other)
    assert (taken.start_s, taken.end_s) == (1_700_000_000, 1_700_000_002)


def test_every_preloaded_call_finds_its_operation() -> None:
    taken = digest_of_folder("gen4-preload")
    # write 30, pwrite64 4096, writev 100000, fwrite 1000 and sendfile64 100000 and 0
    assert access(taken, "write").bytes == 205_126
    assert access(taken, "read").sizes == {10: 1}  # pread64
    assert access(taken, "sync").count == 2  # fsync, fdatasync


def test_generation_0_quotes_numbers_and_names_files_inline() -> None:
    first = (
        b'[\n {"id":"0","name":"write","cat":"POSIX","pid":"71","tid":"142","ts":"1700000000000000",'
        b'"dur":"106","ph":"X","args":{"hostname":"node1","ret":"3276800","count":"3276800",'
        b'"fname":"/scratch/study/data/f","fd":18}}\n'
    )
    second = (
        b'{"id":"1","name":"close","cat":"POSIX","pid":"71","tid":"142","ts":"1700000000000200","dur":"9","ph":"X",'
        b'"args":{"hostname":"node1","ret":0,"fname":"/scratch/study/data/f","fd":18}}\n'
    )
    taken = digest_of(first + second)
    assert (taken.lines, taken.generations, taken.dropped) == (2, {0: 2}, {})
    assert access(taken, "write").sizes == {3_276_800: 1}
    assert access(taken, "metadata").count == 1
    assert taken.processes == (("node1", 71),)


def generation_1(name: str, pid: int, fhash: int, ret: int) -> bytes:
    return (
        f'{{"id":9,"name":"{name}","cat":"POSIX","pid":{pid},"tid":{pid},"ts":1700000000000000,"dur":4,"ph":"X",'
        f'"args":{{"hhash":5692,"p_idx":-1,"level":1,"ret":{ret},"fhash":{fhash},"count":8,"fd":3}}}}\n'
    ).encode()


def hash_1(name: str, pid: int, text: str, value: int) -> bytes:
    return (
        f'{{"id":1,"name":"{name}","cat":"dftracer","pid":{pid},"tid":{pid},"ph":"M",'
        f'"args":{{"name":"{text}","value":{value}}}}}\n'
    ).encode()


def test_generation_1_hashes_mean_something_only_within_their_process() -> None:
    taken = digest_of(
        b"[\n" + hash_1("HH", 1, "node1", 5692) + hash_1("FH", 1, "/scratch/study/data/a", 33084),
        hash_1("HH", 2, "node2", 5692) + hash_1("FH", 2, "/etc/passwd", 33084),
        generation_1("write", 1, 33084, 100) + generation_1("write", 2, 33084, 200) + b"]\n",
    )
    assert access(taken, "write").sizes == {100: 1}
    assert access(taken, "write", "other").sizes == {200: 1}
    assert taken.generations == {1: 6}
    assert taken.processes == (("node1", 1), ("node2", 2))


def test_a_generation_1_hash_that_collides_counts_for_the_file_explained_last() -> None:
    taken = digest_of(
        hash_1("FH", 1, "/scratch/study/data/a", 5) + generation_1("write", 1, 5, 100),
        hash_1("FH", 1, "/etc/passwd", 5) + generation_1("write", 1, 5, 200),
    )
    assert access(taken, "write").sizes == {100: 1}
    assert access(taken, "write", "other").sizes == {200: 1}


def test_a_merged_trace_of_dftracer_utils_has_hashes_without_a_process() -> None:
    merged = (
        b'[\n{"name":"FH","ph":4,"args":{"name":"/scratch/study/data/a","value":"00000000000000f1"}},\n'
        b'{"name":"CM","ph":4,"args":{"name":"time_metric","value":"NS"}},\n'
    )
    taken = digest_of(merged + line(ts=1_700_000_000_000_000_000).rstrip() + b",\n]\n")
    assert access(taken, "write").sizes == {8: 1}
    assert taken.start_s == 1_700_000_000
    assert taken.generations == {4: 3}


def summed(digests: list[TraceDigest]) -> tuple[Any, ...]:
    """Everything that must not depend on how the lines were cut into batches and digests."""
    counts: Counter[Any] = Counter()
    for taken in digests:
        counts["lines"] += taken.lines
        counts["events"] += taken.events
        counts["metadata"] += taken.metadata
        counts["unresolved"] += taken.unresolved
        counts.update({("dropped", reason): count for reason, count in taken.dropped.items()})
        counts.update({("generation", generation): count for generation, count in taken.generations.items()})
        for found in taken.accesses:
            key = (found.tier, found.op)
            counts[key, "count"] += found.count
            counts[key, "bytes"] += found.bytes
            counts[key, "ns"] += round(found.duration_s * 1e9)
            counts.update({(key, size): count for size, count in found.sizes.items()})
    spans = sorted(
        (span.name, span.start_s, span.end_s, span.pid) for taken in digests for span in taken.checkpoints
    )
    return +counts, spans, sorted({process for taken in digests for process in taken.processes})


ALL_LINES = [
    (f"{folder.name}/{name}", text)
    for folder in sorted(TRACES.iterdir())
    if folder.is_dir()
    for name, data in files_of(folder.name).items()
    for text in data.splitlines(keepends=True)
]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), largest=st.integers(1, 80))
def test_no_line_is_lost_or_counted_twice_however_they_are_cut_and_interleaved(
    seed: int, largest: int
) -> None:
    random = Random(seed)
    files: dict[str, list[bytes]] = {}
    for source, text in ALL_LINES:
        files.setdefault(source, []).append(text)
    whole = TraceDecoder(TIERS)
    for source, texts in files.items():
        whole.feed(b"".join(texts), source)
    expected = whole.take(final=True)
    assert expected is not None

    decoder = TraceDecoder(TIERS)
    digests: list[TraceDigest | None] = []
    while files:
        source = random.choice(list(files))
        size = random.randint(1, largest)
        decoder.feed(b"".join(files[source][:size]), source)
        del files[source][:size]
        if not files[source]:
            del files[source]
        if random.random() < 0.5:
            digests.append(decoder.take())
    digests.append(decoder.take(final=True))
    taken = [found for found in digests if found is not None]
    assert summed(taken) == summed([expected])
    assert decoder.blank == whole.blank
    assert len(ALL_LINES) == whole.blank + expected.lines
    for found in taken:
        assert found.lines == found.events + found.metadata + sum(found.dropped.values())


def test_a_digest_survives_the_journal() -> None:
    taken = digest_of_folder("gen4-python-fork-plain")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(taken), type=TraceDigest) == taken
