"""Whatever the bytes: nothing is raised, every line is counted once, and only the bad one is lost."""

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.goodput.validation import LARGEST_INTEGER, is_within_bounds
from scrtune.intents.events import Tier, TraceDigest
from scrtune.intents.trace.decoder import MAX_SPANS, TraceDecoder
from scrtune.intents.trace.digest import MAX_PENDING

TRACES = Path(__file__).parents[2] / "data" / "traces"
GOOD = (
    b'{"id":3,"name":"write","cat":"POSIX","type":3,"pid":7,"tid":7,"ts":1795252232481640,"dur":14,"ph":1,'
    b'"args":{"hhash":"6882804a826580cd","ret":320,"count":320,"fhash":"15ead2fd64f72c68"}}\n'
)
REAL = (
    (TRACES / "gen4-broken-strings" / "app-9f45089a82f8aafd-app.pfw").read_bytes().splitlines(keepends=True)
)


def digest_of(data: bytes) -> TraceDigest:
    """The digest of `data`, once it is clear that it adds up and can be written to the journal."""
    decoder = TraceDecoder()
    decoder.feed(data)
    taken = decoder.take(final=True) or TraceDigest()
    fed = data.count(b"\n") + bool(data and not data.endswith(b"\n"))
    assert fed == taken.lines + decoder.blank
    assert taken.lines == taken.events + taken.metadata + sum(taken.dropped.values())
    assert math.isfinite(taken.start_s)
    assert math.isfinite(taken.end_s)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(taken), type=TraceDigest) == taken
    return taken


def changed(old: bytes, new: bytes) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"name":"write","args":{"s":"he "said" it"}}', "broken json"),
        (b'{"name":"wri', "broken json"),
        (b"\x00\x01\xff\xfe", "broken json"),
        (b'{"a":NaN}', "broken json"),
        (b'{"a":1} {"b":2}', "broken json"),
        (b'[{"a":1},{"b":2}]', "broken json"),
        (b"null", "not an object"),
        (b"[1,2]", "not an object"),
        (b'"text"', "not an object"),
        (b"17", "not an object"),
        (b"{}", "unknown phase"),
        (changed(b'"ph":1', b'"ph":"Q"').strip(), "unknown phase"),
        (changed(b'"ph":1', b'"ph":null').strip(), "unknown phase"),
        (changed(b'"ph":1', b'"ph":{}').strip(), "unknown phase"),
        (changed(b'"ts":1795252232481640,', b"").strip(), "no time"),
        (changed(b'"ts":1795252232481640', b'"ts":-1').strip(), "number out of range"),
        (changed(b'"ts":1795252232481640', b'"ts":"yesterday"').strip(), "number out of range"),
        (changed(b'"dur":14', b'"dur":-14').strip(), "number out of range"),
        (changed(b'"dur":14', b'"dur":1e300').strip(), "number out of range"),
        (changed(b'"dur":14', b'"dur":' + b"9" * 6000).strip(), "number out of range"),
        (changed(b'"count":320', b'"value":1e999').strip(), "number out of range"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"a":' + b'{"a":' * 50_000, "nested too deep"),
    ],
)
def test_a_bad_line_costs_only_itself(bad: bytes, reason: str) -> None:
    taken = digest_of(GOOD + bad + b"\n" + GOOD)
    assert taken.dropped == {reason: 1}
    assert taken.events == 2
    assert taken.accesses[0].sizes == {320: 2}


@pytest.mark.parametrize(
    "tolerated",
    [
        b"  " + GOOD,
        GOOD.strip() + b",\n",
        GOOD.strip() + b" ,\r\n",
        b"[" + GOOD,
        GOOD.strip() + b"]\n",
        GOOD.strip(),
        changed(b'"ts":1795252232481640', b'"ts":1795252232481640.0'),
        changed(b'"ts":1795252232481640', b'"ts":"1795252232481640"'),
        changed(b'"dur":14', b'"dur":14,"dur":14'),
        changed(b'"count":320', b'"name":{"any":["thing"]},"value":1.5,"p_idx":[]'),
        changed(b'"count":320', b'"note":"caf\xe9 \xff"'),
        changed(b'"count":320', b'"count":1e999'),
        changed(b'"id":3', b'"id":{}'),
        changed(b'"tid":7', b'"tid":"main"'),
        changed(b'"tid":7', b'"tid":null'),
        changed(b'"hhash":"6882804a826580cd"', b'"hhash":[1]'),
        changed(b'"hhash":"6882804a826580cd"', b'"hhash":"' + b"a" * 10_000 + b'"'),
        changed(b'"name":"write"', b'"name":"write","type":1e5'),
    ],
)
def test_an_odd_line_is_still_an_access(tolerated: bytes) -> None:
    taken = digest_of(tolerated)
    assert (taken.events, taken.dropped) == (1, {})
    assert taken.accesses[0].sizes == {320: 1}


@pytest.mark.parametrize(
    "result",
    [b'"none"', b"null", b"true", b"{}", b"1.5", b"-1", b"99999999999999999999", b'"320 bytes"', b'""'],
)
def test_an_access_whose_result_is_no_size_counts_without_one(result: bytes) -> None:
    taken = digest_of(changed(b'"ret":320', b'"ret":' + result))
    (found,) = taken.accesses
    assert (taken.events, found.op, found.count, found.bytes, found.sizes) == (1, "write", 1, 0, {})


def test_the_last_of_duplicated_keys_holds() -> None:
    taken = digest_of(changed(b'"ret":320', b'"ret":1,"ret":2'))
    assert taken.accesses[0].sizes == {2: 1}


def test_a_path_that_is_not_utf_8_still_has_its_tier() -> None:
    decoder = TraceDecoder({"/prefix": "prefix"})
    decoder.feed(
        b'{"name":"FH","cat":"dftracer","pid":7,"tid":7,"ph":4,"args":{"name":"/prefix/caf\xe9","value":"15ead2fd64f72c68"}}\n'
    )
    decoder.feed(GOOD)
    taken = decoder.take()
    assert taken is not None
    assert taken.accesses[0].tier == "prefix"


def test_a_record_spread_over_two_lines_is_two_bad_lines_however_it_is_batched() -> None:
    spread = changed(b',"name"', b',\n"name"')
    assert digest_of(spread).dropped == {"broken json": 2}
    assert digest_of(GOOD + spread + GOOD).events == 2


def test_absurd_numbers_add_up_to_something_the_journal_can_hold() -> None:
    largest = changed(b'"ret":320', b'"ret":1125899906842624').replace(
        b'"dur":14', b'"dur":4611686018427387904'
    )
    summed = changed(b'"ret":320', b'"dft_cnt":1099511627776,"ret_sum":1125899906842624').replace(
        b'"ph":1', b'"ph":3'
    )
    taken = digest_of((largest + summed) * 9000)
    (found,) = taken.accesses
    assert found.bytes == LARGEST_INTEGER


def test_checkpoint_spans_beyond_the_limit_are_dropped_and_counted() -> None:
    taken = digest_of(changed(b'"cat":"POSIX"', b'"cat":"checkpoint"') * (MAX_SPANS + 2))
    assert (len(taken.checkpoints), taken.events) == (MAX_SPANS, MAX_SPANS)
    assert taken.dropped == {"too many checkpoint spans": 2}


def test_too_much_that_waits_for_an_explanation_is_given_up_at_once() -> None:
    decoder = TraceDecoder()
    fed = MAX_PENDING * 2 // 5  # each waits with its file, its size and its thread
    decoder.feed(b"".join(changed(b"15ead2fd64f72c68", b"%016x" % number) for number in range(fed)))
    taken, rest = decoder.take(), decoder.take(final=True)
    assert taken is not None
    assert rest is not None
    assert taken.unresolved == taken.accesses[0].count >= MAX_PENDING // 3
    assert taken.accesses[0].tier is Tier.OTHER
    assert taken.unresolved + rest.unresolved == fed


@given(data=st.binary(max_size=400))
@example(data=b"\n")
@example(data=b"\xef\xbb\xbf{}")
def test_any_bytes(data: bytes) -> None:
    digest_of(data)
    taken = digest_of(data.replace(b"\n", b" ") + b"\n" + GOOD)
    assert taken.events >= 1


@given(
    line=st.sampled_from(REAL),
    edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=3)), min_size=1, max_size=4),
)
def test_real_lines_with_bytes_changed(line: bytes, edits: list[tuple[int, bytes]]) -> None:
    mutated = bytearray(line)
    for position, new in edits:
        start = position % len(mutated)
        mutated[start : start + len(new)] = new
    digest_of(GOOD + bytes(mutated) + b"\n" + GOOD)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("name", "cat", "pid", "tid", "ts", "dur", "ph", "id", "args")
ARGUMENTS = (
    "hhash",
    "fhash",
    "ret",
    "size",
    "name",
    "value",
    "dft_cnt",
    "dur_sum",
    "ret_sum",
    "ret_max",
    "dur",
)
PHASES = st.sampled_from(["X", "M", "C", 1, 2, 3, 4])


@given(
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON),
    args=st.dictionaries(st.sampled_from(ARGUMENTS), JSON),
    phase=PHASES,
    name=st.sampled_from(["write", "fread", "FH", "HH", "CM", "open"]),
)
def test_any_types_in_the_fields_we_read(
    fields: dict[str, object], args: dict[str, object], phase: object, name: str
) -> None:
    written = {"ts": 1, "cat": "POSIX", "name": name, "args": args, "ph": phase, **fields}
    digest_of(msgspec.json.encode(written) + b"\n" + GOOD)


@pytest.mark.parametrize("scale", [1, 10**3, 2**20, 2**40, 2**61])
def test_whatever_numbers_lines_have_their_digest_is_one_that_the_daemon_takes(scale: int) -> None:
    number = b"%d" % scale
    lines = (
        b'{"id":1,"name":"write","cat":"POSIX","pid":%s,"tid":%s,"ts":%s,"dur":%s,"ph":1,"args":{"ret":5}}\n'
        b'{"id":1,"name":"save","cat":"checkpoint","pid":%s,"tid":%s,"ts":%s,"dur":1,"ph":1,"args":{"step":%s}}\n'
    )
    taken = digest_of(lines % ((number,) * 8))
    assert taken.events == 2
    assert is_within_bounds(taken)
