"""Lines of every shape are digested with a scanner as without one."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.intents.trace import decoder as trace_decoder
from scrtune.intents.trace import digest, names

from ...support.trace_lines import TIERS, explain, line
from .scanned import FILES, Step, Watched, assert_same

OTHER_TIERS = {"/scratch/study": "cache", "/scratch/study/data/deep": "prefix"}
REAL = sorted({text for data in FILES.values() for text in data.splitlines(keepends=True)})


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


PLAIN = st.builds(
    lambda ret, pid, name: line(name, pid=pid, args={"ret": ret}),
    st.integers(0, 3),
    st.sampled_from([7, 7, 7, 8]),
    st.sampled_from(["write", "read", "open64"]),
)


def shaped(fields: dict[str, Any], args: dict[str, Any] | None) -> bytes:
    return line(**fields, args=args)


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
