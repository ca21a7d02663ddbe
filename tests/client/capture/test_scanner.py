"""The scanner changes how fast lines are digested, and nothing else."""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.client.capture import scanner
from scrtune.client.capture.scanner import NativeScanner
from scrtune.intents.events import TraceDigest
from scrtune.intents.trace import decoder as trace_decoder
from scrtune.intents.trace import digest, names
from scrtune.intents.trace.calls import IO_CATEGORIES, OPERATION_OF
from scrtune.intents.trace.decoder import TraceDecoder
from scrtune.intents.trace.scanner_protocol import Stop

TRACES = Path(__file__).parents[2] / "data" / "traces"
TIERS = {"/scratch/study/data": "prefix"}
OTHER_TIERS = {"/scratch/study": "cache", "/scratch/study/data/deep": "prefix"}


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


FILES = {f"{path.parent.name}/{path.name}": content(path) for path in sorted(TRACES.glob("*/*.pfw*"))}
REAL = sorted({text for data in FILES.values() for text in data.splitlines(keepends=True)})


class Watched(NativeScanner):
    """Counts the lines that were scanned."""

    lines = 0

    def scan(self, data: bytes, start: int, end: int, source: str, room: int) -> Stop:
        stop = super().scan(data, start, end, source, room)
        self.lines += stop.lines
        return stop


@pytest.fixture(scope="session")
def native() -> Callable[[], Watched]:
    path = scanner.libscrtune_path()
    if path is None:
        pytest.skip("libscrtune.so was not built")
    return lambda: Watched(path)


Feed = tuple[bytes, str]
Step = Feed | dict[str, str] | None
"""Lines of a source, new tiers, or a take."""


def digests_of(decoder: TraceDecoder, steps: Iterable[Step]) -> list[TraceDigest | None]:
    """Every digest after these steps."""
    taken: list[TraceDigest | None] = []
    for step in steps:
        if step is None:
            taken.append(decoder.take())
        elif isinstance(step, dict):
            decoder.set_tiers(step)
        else:
            decoder.feed(*step)
    taken.append(decoder.take(final=True))
    return taken


def assert_same(native: Callable[[], Watched], steps: Sequence[Step]) -> int:
    """Compare a decoder that has a scanner with one that has none; return the number of lines scanned."""
    found = native()
    plain, scanning = TraceDecoder(TIERS), TraceDecoder(TIERS, found)
    assert digests_of(scanning, steps) == digests_of(plain, steps)
    assert scanning.blank == plain.blank
    return found.lines


def line(name: str = "write", /, **changes: Any) -> bytes:
    """A line of generation 4; `changes` replace fields, None leaves one out, `args` are added to its own."""
    fields: dict[str, Any] = {"id": 1, "name": name, "cat": "POSIX", "pid": 7, "tid": 7}
    fields |= {"ts": 1_700_000_000_000_000, "dur": 5, "ph": 1}
    args = {"hhash": "aa", "ret": 8, "fhash": "00000000000000f1", **changes.pop("args", {})}
    fields = {**fields, "args": args, **changes}
    kept = {key: value for key, value in fields.items() if value is not None}
    return json.dumps(kept, separators=(",", ":")).encode() + b"\n"


def explain(value: object, path: object, kind: str = "FH", **changes: Any) -> bytes:
    args = {"hhash": "aa", "name": path, "value": value, "ret": None, "fhash": None}
    args = {key: found for key, found in args.items() if found is not None}
    fields = {"name": kind, "cat": "dftracer", "pid": 7, "tid": 7, "ph": 4, "args": args, **changes}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


# ---- real traces


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("size", [1 << 20, 700])
def test_a_real_trace_gives_the_same_digests_in_whole_and_in_pieces(
    native: Callable[[], Watched], name: str, size: int
) -> None:
    lines = FILES[name].splitlines(keepends=True)
    pieces: list[Step] = []
    piece = b""
    for text in lines:
        piece += text
        if len(piece) >= size:
            pieces += [(piece, name), None]
            piece = b""
    assert_same(native, [*pieces, (piece, name)])


def test_real_traces_of_one_job_give_the_same_digest(native: Callable[[], Watched]) -> None:
    repeated = [(data, name) for _ in range(20) for name, data in FILES.items()]
    assert assert_same(native, repeated) > 0.7 * 20 * sum(data.count(b"\n") for data in FILES.values())


def independent(data: bytes) -> tuple[Counter[Any], Counter[Any]]:
    """Accesses and bytes by operation, read with the json module."""
    counts: Counter[Any] = Counter()
    moved: Counter[Any] = Counter()
    for text in data.splitlines():
        try:
            fields = json.loads(text.strip().rstrip(b","))
        except ValueError:
            continue
        args = fields.get("args", {}) if isinstance(fields, dict) else None
        if args is None or fields["ph"] not in {1, "X"} or fields["cat"] not in IO_CATEGORIES:
            continue
        operation = OPERATION_OF.get(fields["name"], "metadata")
        if operation is None:
            continue
        counts[operation] += 1
        if operation in {"read", "write"}:
            items = args.get("size", 1) if "fread" in fields["name"] or "fwrite" in fields["name"] else 1
            moved[operation] += max(0, int(args.get("ret", 0))) * items
    return counts, +moved


@pytest.mark.parametrize("name", [name for name in FILES if "aggregated" not in name and "gen3" not in name])
def test_sums_are_those_of_an_independent_reader(native: Callable[[], Watched], name: str) -> None:
    found = native()
    decoder = TraceDecoder(TIERS, found)
    decoder.feed(FILES[name] * 3, name)
    taken = decoder.take(final=True)
    assert taken is not None
    counts: Counter[Any] = Counter()
    moved: Counter[Any] = Counter()
    for access in taken.accesses:
        counts[access.op] += access.count
        moved[access.op] += access.bytes
    assert (counts, +moved) == independent(FILES[name] * 3)


# ---- lines of every shape

FIELDS = {
    "id": [None, 3, "3", 1.5, "", [1], 0, 10**30],
    "name": [
        "write",
        "read",
        "fwrite",
        "open64",
        "fork",
        "fsync",
        "compute",
        "save_checkpoint",
        "x" * 257,
        "",
    ],
    "cat": ["POSIX", "STDIO", "dlio", "checkpoint", None, "", "caf\u00e9"],
    "pid": [7, 7, 8, "7", None, -1, 2**62, 2**63, 7.0, "x"],
    "tid": [7, 9, "9", None, -9, "main"],
    "ts": [1_700_000_000_000_000, "1700000000000000", 1, 2**62, 2**62 + 1, 10**19, -1, 1.0, None],
    "dur": [5, 0, "5", 2**62, -5, 1.5, None],
    "ph": [1, 1, 1, "X", "X", "C", 2, 3, 4, "M", "1", "Q", None],
    "extra": [None, "text", 1.25, -3, [1], {"a": 1}, True, 1e300, "a\\b", "a\nb", "\u4e2d"],
}
ARGUMENTS = {
    "hhash": ["aa", "bb", "", 17, None, "h" * 65],
    "hostname": [None, "node1", "", 3],
    "fhash": ["00000000000000f1", "00000000000000f2", "short", "", 33084, None, "F" * 65],
    "fname": [None, "/scratch/study/data/f", "00000000000000f1", "relative", "", "/" + "p" * 4096],
    "ret": [8, 320, "320", -1, 0, None, 2**50, 2**50 + 1, "x", 1.0, 4096],
    "size": [None, 1, 16, "16", -1, 2**50, 1.5, "x"],
    "p_idx": [None, -1, "x"],
    "dft_cnt": [None, None, None, 3],
    "dur": [None, 3],
    "dur_sum": [None, None, 30, "x"],
    "count": [None, 8, "8"],
}
PATHS = ["/scratch/study/data/a", "/scratch/study/deep/b", "/etc/passwd", "", "caf\u00e9", "p" * 4097, 5]


def chosen(options: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the fields, each with one of its values."""
    pairs = st.one_of([st.tuples(st.just(key), st.sampled_from(values)) for key, values in options.items()])
    return st.lists(pairs, max_size=3).map(dict)


def shaped(fields: dict[str, Any], args: dict[str, Any] | None) -> bytes:
    """A line with some fields changed; None leaves one out, and `args` None all arguments."""
    found = json.loads(line()) | fields
    found["args"] = None if args is None else found["args"] | args
    if args is not None:
        found["args"] = {key: value for key, value in found["args"].items() if value is not None}
    kept = {key: value for key, value in found.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


PLAIN = st.builds(
    lambda ret, pid, name: line(name, pid=pid, args={"ret": ret}),
    st.integers(0, 3),
    st.sampled_from([7, 7, 7, 8]),
    st.sampled_from(["write", "read", "open64"]),
)
SHAPED = st.builds(shaped, chosen(FIELDS), chosen(ARGUMENTS) | st.none())
EXPLAINED = st.builds(
    lambda value, path, kind, change: explain(value, path, kind, **change),
    st.sampled_from(["00000000000000f1", "00000000000000f2", "aa", "bb", "", 33084, "/scratch/study/data/f"]),
    st.sampled_from(PATHS),
    st.sampled_from(["FH", "FH", "FH", "HH", "SH"]),
    st.sampled_from([{}, {}, {"pid": 8}, {"ph": "M"}, {"ph": "M", "id": 1}, {"args": {}}]),
)
UNITS = st.builds(lambda unit: explain(unit, "time_metric", "CM"), st.sampled_from(["NS", "US", "SEC", "x"]))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    text = bytearray(draw(st.sampled_from(REAL) | PLAIN | SHAPED))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from(
                [b"", b'"', b",", b"0", b"-", b".", b"{", b"}", b" ", b"\\", b"\n", b"\0", b"\xe9", b"\r"]
            )
        )
    return bytes(text)


LINES = st.lists(PLAIN | SHAPED | EXPLAINED | UNITS | mutated() | st.sampled_from(REAL), max_size=12)
STEPS = st.lists(
    st.tuples(LINES.map(b"".join), st.sampled_from(["", "", "other"]))
    | st.sampled_from([None, TIERS, OTHER_TIERS]),
    max_size=6,
)


WARM: list[Step] = [
    (
        b"".join(line(name, pid=pid) for pid in (7, 8) for name in ("write", "read", "fwrite", "open64")),
        source,
    )
    for source in ("", "other")
]
"""After these the scanner knows the processes and names that the other lines have."""

BASES: dict[str, Callable[[dict[str, Any], dict[str, Any]], bytes]] = {
    "generation 4": shaped,
    "generation 3": lambda fields, args: shaped({"ph": "X", **fields}, args),
    "generation 2": lambda fields, args: shaped({"ph": "X", **fields}, {"p_idx": -1, **args}),
    "generation 0": lambda fields, args: shaped(
        {"id": "1", "pid": "7", "tid": "7", "ph": "X", **fields},
        {"hhash": None, "fhash": None, "hostname": "node1", "fname": "/scratch/study/data/f", **args},
    ),
    "no arguments": lambda fields, _: shaped(fields, None),
    "items": lambda fields, args: shaped({"name": "fwrite", **fields}, {"size": 16, **args}),
    "metadata": lambda fields, args: shaped(
        {"name": "FH", "cat": "dftracer", "ph": 4, **fields}, {"name": "/scratch/a", "value": "bb", **args}
    ),
}


@pytest.mark.parametrize("base", BASES)
def test_each_value_of_each_field_gives_the_same_digest(native: Callable[[], Watched], base: str) -> None:
    make = BASES[base]
    usual = make({}, {})
    changed = [make({key: value}, {}) for key, values in FIELDS.items() for value in values]
    changed += [make({}, {key: value}) for key, values in ARGUMENTS.items() for value in values]
    changed += [make({}, {"name": path}) for path in PATHS] + [make({}, {"value": path}) for path in PATHS]
    scanned = 0
    for text in changed:
        scanned += assert_same(native, [(usual * 3 + text + usual, ""), None, (text * 2, "")])
    assert scanned > 3 * len(changed)


WRITTEN = line(args={"count": 8, "whence": 0}).decode().rstrip("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"dur":5', '"dur":05'),
        ('"dur":5', '"dur":00'),
        ('"ret":8', '"ret":-0'),
        ('"ret":8', '"ret":"-8"'),
        ('"ret":8', '"ret":"08"'),
        ('"ret":8', '"ret":8.0'),
        ('"ret":8', '"ret":8e0'),
        ('"ret":8', '"ret":+8'),
        ('"ret":8', '"ret":8,"ret":9'),
        ('"ret":8', '"ret":8,"ret":null'),
        ('"ret":8', '"ret" :8'),
        ('"ret":8', '"r\\u0065t":9'),
        ('"dur":5', '"dur":5,"dur":6'),
        ('"dur":5', '"dur":5,'),
        ('"count":8', '"count":-'),
        ('"count":8', '"count":1.'),
        ('"count":8', '"count":.5'),
        ('"count":8', '"count":-1.25'),
        ('"count":8', '"count":12345678.123456789012345678901234567890'),
        ('"count":8', '"count":1.5e3'),
        ('"count":8', '"count":12345678901234567890'),
        ('"count":8', '"a key that is longer than sixteen bytes":8'),
        ('"count":8', '"args":{"ret":9}'),
        ('"count":8', '"":""'),
        ('"aa"', '"a\ta"'),
        ('"aa"', '"a\x7fa"'),
        ('"aa"', '"a\x01a"'),
        ('"aa"', '"café"'),
        ('"write"', '"wr\\u0069te"'),
        ('"write"', '"write "'),
        ('"args":{', '"args":{},"args":{'),
        ('"args":{', '"args":null,"x":{'),
        ("}}", '},"args":{"ret":3}}'),
        ("}}", '},"tail":1}'),
        ("}}", '},"ret":9,"hhash":"zz"}'),
        ("}}", '},"name":"read"}'),
        ("}}", "}},"),
        ("}}", "}},,"),
        ("}}", "}}\r"),
        ("}}", "}},\r"),
        ("}}", "}} "),
        ("}}", "}}}"),
        ("}}", ",}}"),
        ("}}", "}"),
        ("}}", "}}]"),
        ("}}", "}}\0"),
        ("}}", "}}{}"),
        ('{"id"', ' {"id"'),
        ('{"id"', '[{"id"'),
        ('{"id"', '{,"id"'),
        ('{"id"', '\ufeff{"id"'),
    ],
)
def test_each_way_to_write_a_line_gives_the_same_digest(
    native: Callable[[], Watched], old: str, new: str
) -> None:
    assert old in WRITTEN
    text = WRITTEN.replace(old, new).encode() + b"\n"
    assert assert_same(native, [(line() * 3 + text + line(), ""), None, (text * 2 + line() * 2, "")]) > 3
    assert_same(native, [(line() * 3 + text.rstrip(b"\n"), "")])


def test_objects_without_arguments_or_with_none_at_all(native: Callable[[], Watched]) -> None:
    short = b'{"name":"write","cat":"POSIX","pid":7,"tid":7,"ts":9,"ph":1,"args":{}'
    lines = [short + tail for tail in (b"}\n", b',"hhash":"bb"}\n', b',"dur":3}\n', b"}}\n")]
    moved = short[:-1] + b'"hhash":"aa","ret":8},"fhash":"00000000000000f1"}\n'  # no argument any more
    for text in [*lines, moved, b"{}\n", b'{"args":{}}\n']:
        assert_same(native, [(line() * 3 + text * 2 + line(), ""), (text, "")])


@given(steps=STEPS)
@example(steps=[(line() + line("write", args={"ret": 8}), "")])
@example(steps=[(b'{"a":1} {"b":2}\n\n' + line(), "")])
def test_any_lines_give_the_same_digests(native: Callable[[], Watched], steps: list[Step]) -> None:
    assert_same(native, [*WARM, *steps])


@given(steps=STEPS)
def test_any_lines_give_the_same_digests_when_tables_are_small(
    native: Callable[[], Watched], steps: list[Step]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "MAX_NAMES", 2)
        patch.setattr(names, "MAX_PROCESSES", 1)
        patch.setattr(digest, "MAX_THREADS", 2)
        patch.setattr(trace_decoder, "MAX_SPANS", 1)
        patch.setattr(trace_decoder, "MAX_PENDING", 3)
        patch.setattr(trace_decoder, "_SETTLE_LINES", 4)
        patch.setattr(trace_decoder, "_CHUNK_BYTES", 500)
        assert_same(native, steps)
        patch.setattr(names, "MAX_NAMES", 5)
        patch.setattr(names, "MAX_PROCESSES", 5)
        assert_same(native, [*WARM, *steps])


@given(data=st.binary(max_size=300))
def test_any_bytes_give_the_same_digests(native: Callable[[], Watched], data: bytes) -> None:
    assert_same(native, [(line() + data + b"\n" + line(), "")])
    assert_same(native, [(data, "")])


# ---- bounds


def numbered(template: bytes, count: int) -> bytes:
    """Return lines that differ in the number at the mark."""
    return b"".join(template.replace(b"@", b"%d" % number) for number in range(count))


@pytest.mark.parametrize(
    ("template", "count"),
    [
        (explain("hash@", "/scratch/study/data/@") + line(args={"fhash": "hash@"}), 40_000),
        (line(args={"fhash": "", "fname": "/scratch/study/data/@"}), 40_000),
        (line("call@"), 9_000),
        (line(pid=0).replace(b'"pid":0', b'"pid":@') * 2, 20_000),
        (line(args={"fhash": "hash@", "key@": 1}), 20_000),
    ],
    ids=["files", "paths", "names", "processes", "accesses and keys"],
)
def test_full_tables_change_no_digest(native: Callable[[], Watched], template: bytes, count: int) -> None:
    data = numbered(template, count)
    scanned = assert_same(native, [(data[: len(data) // 2], ""), None, (data[len(data) // 2 :], "")])
    assert scanned > count / 2


def test_many_sums_of_many_processes_change_no_digest(native: Callable[[], Watched]) -> None:
    explained = explain("00000000000000f1", "/scratch/study/data/f")
    lines = [line(pid=pid, args={"ret": size}) for pid in range(300) for size in range(100)]
    assert assert_same(native, [(explained + b"".join(lines), "")]) > 25_000


def test_durations_that_overflow_64_bits_are_summed_up(native: Callable[[], Watched]) -> None:
    assert_same(native, [(line() + line(dur=2**62) * 9 + line(ts=2**62, dur=2**62), "")])


@pytest.mark.parametrize("length", [1 << 16, 1 << 20, 5 << 20])
def test_a_line_of_any_length_costs_only_itself(native: Callable[[], Watched], length: int) -> None:
    for filler in (b"x", b"\0", b"9"):
        long = line().replace(b"write", filler * length)
        assert_same(native, [(line() * 3 + long + line() * 3, ""), (long[:-1], ""), (long[:length], "")])


def test_sources_have_processes_of_their_own(native: Callable[[], Watched]) -> None:
    steps: list[Step] = [(line(args={"hhash": host}) * 3, host) for host in ("aa", "bb", "aa")]
    hosts = b"".join(explain(host, f"node-{host}", "HH") for host in ("aa", "bb"))
    assert assert_same(native, [*steps, (hosts, "")]) == 7


def test_a_hash_that_comes_to_mean_another_file_counts_for_each_in_turn(
    native: Callable[[], Watched],
) -> None:
    here = explain("00000000000000f1", "/scratch/study/data/f")
    there = explain("00000000000000f1", "/etc/passwd")
    steps: list[Step] = [(line() + here + line() * 2 + there + line() * 4 + here + line() * 8, "")]
    assert assert_same(native, steps) > 8
    (taken,) = digests_of(TraceDecoder(TIERS, native()), steps)
    assert taken is not None
    assert [(found.tier, found.count) for found in taken.accesses] == [("other", 4), ("prefix", 11)]


def test_a_path_that_the_decoder_knew_otherwise_counts_for_each_in_turn(
    native: Callable[[], Watched],
) -> None:
    spaced = json.dumps(json.loads(explain("00000000000000f1", "/scratch/study/data/f"))).encode() + b"\n"
    there = explain("00000000000000f1", "/etc/passwd")
    steps: list[Step] = [(line() + spaced + line() * 2, ""), None, (line() * 4 + there + line() * 8, "")]
    assert assert_same(native, steps) > 8
    assert assert_same(native, [*steps[:2], (there + line() * 8, "")]) > 8


def test_a_path_that_is_no_ascii_is_for_the_decoder(native: Callable[[], Watched]) -> None:
    explained = explain("00000000000000f1", "/scratch/study/data/@")
    for letter in (b"\x80", b"\x85", b"\xff", "\u00e9".encode(), "\u0080".encode()):
        text = line() * 3 + explained.replace(b"@", letter) + line()
        assert assert_same(native, [(text, "")]) > 2


def test_a_process_learns_its_host_from_the_first_line_that_has_one(native: Callable[[], Watched]) -> None:
    silent = shaped({}, None)
    hosts = explain("aa", "node-a", "HH", pid=9) + explain("bb", "node-b", "HH", pid=9)
    steps: list[Step] = [(silent * 3 + line(args={"hhash": "bb"}) * 2 + line() * 2 + hosts, "")]
    assert assert_same(native, steps) > 4
    (taken,) = digests_of(TraceDecoder(TIERS, native()), steps)
    assert taken is not None
    assert ("node-b", 7) in taken.processes


def test_paths_beyond_the_limit_are_forgotten_in_the_same_order(native: Callable[[], Watched]) -> None:
    both = explain("hash@", "/scratch/study/data/@") + line(args={"fhash": "hash@"})
    again = b"".join(line(args={"fhash": f"hash{number}"}) for number in range(40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "MAX_NAMES", 16)
        assert_same(native, [(line() * 2 + numbered(both, 40) + again, ""), None, (again, "")])


# ---- without it


def test_there_is_no_scanner_where_the_library_was_not_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scanner, "libscrtune_path", lambda: None)
    assert scanner.new_scanner() is None
    (tmp_path / "libscrtune.so").write_bytes(b"no library")
    monkeypatch.setattr(scanner, "libscrtune_path", lambda: tmp_path / "libscrtune.so")
    assert scanner.new_scanner() is None
