"""Decode a line of DFTracer, whatever generation, as a record (`docs/traces.md` has the generations).

The fast path decodes a whole batch at once; a line that it rejects sends the batch down the slow path, line
by line, where a bad line costs only itself.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

BROKEN_JSON = "broken json"
NOT_AN_OBJECT = "not an object"
OUT_OF_RANGE = "number out of range"
TOO_DEEP = "nested too deep"
UNKNOWN_PHASE = "unknown phase"
NO_TIME = "no time"
TOO_MANY_PROCESSES = "too many processes"
TOO_MANY_SPANS = "too many checkpoint spans"
REASONS = frozenset(
    {
        BROKEN_JSON,
        NOT_AN_OBJECT,
        OUT_OF_RANGE,
        TOO_DEEP,
        UNKNOWN_PHASE,
        NO_TIME,
        TOO_MANY_PROCESSES,
        TOO_MANY_SPANS,
    }
)
"""All for which a line is dropped."""

# Whatever is kept has a limit: sums stay finite and fit into MessagePack, tables stay small.
MAX_TIME = 2**62
MAX_BYTES = 2**50
MAX_COUNT = 2**40
MAX_NAME = 256
MAX_HASH = 64
MAX_PATH = 4096

_Time = Annotated[int, Meta(ge=0, le=MAX_TIME)]
_Bytes = Annotated[int, Meta(ge=-MAX_BYTES, le=MAX_BYTES)]
_Id = Annotated[int, Meta(ge=-MAX_TIME, le=MAX_TIME)]
_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_Name = Annotated[str, Meta(max_length=MAX_NAME)]
_Hash = _Id | Annotated[str, Meta(max_length=MAX_HASH)]

NEWEST = 4
"""The generation whose phases are numbers."""
COMPLETE, COUNTER, AGGREGATED, METADATA = range(4)
KINDS: dict[int | str, int] = {
    "X": COMPLETE,
    "C": COUNTER,  # in generation 3 an aggregated line, if it has dft_cnt
    "M": METADATA,
    1: COMPLETE,
    2: COUNTER,
    3: AGGREGATED,
    4: METADATA,
}
"""What a line is, by its phase."""

_LIMITS = {"hhash": MAX_HASH, "fhash": MAX_HASH, "fname": MAX_PATH}
_Struct = TypeVar("_Struct", bound=msgspec.Struct)

_PADDING = b" \t\r\f\v,"
_BLANKS = (b"", b"[", b"]", b"[]")
# MsgspecError and UnicodeDecodeError are ValueErrors
_UNREADABLE = (ValueError, RecursionError, OverflowError)


class Arguments(msgspec.Struct, gc=False):
    """The fields of ``args`` that are used. `name` and `value` may be anything: users choose them.

    Hashes are integers in generation 1 and texts since. The ``_sum``, ``_min``, ``_max`` fields and `dft_cnt`
    belong to aggregated lines, whose `dur` (unless summed) is here too.
    """

    hhash: _Hash = ""
    fhash: _Hash = ""
    ret: _Bytes | None = None
    size: Any = None
    name: Any = None
    value: Any = None
    hostname: _Name = ""
    fname: Annotated[str, Meta(max_length=MAX_PATH)] = ""
    p_idx: Any = None
    epoch: Any = None
    step: Any = None
    dft_cnt: _Count | None = None
    dur: Any = None
    dur_sum: _Time | None = None
    dur_max: _Time | None = None
    ret_sum: _Bytes | None = None
    ret_min: _Bytes | None = None
    ret_max: _Bytes | None = None
    size_min: _Bytes | None = None
    size_max: _Bytes | None = None


class TraceRecord(msgspec.Struct, gc=False):
    """One line. `ts` and `dur` are in the writer's unit; `ph` is a letter, or a number since generation 4."""

    ph: int | str = ""
    name: _Name = ""
    cat: _Name = ""
    pid: _Id | None = None
    tid: _Id | None = None
    ts: _Time | None = None
    dur: _Time = 0
    id: Any = None
    args: Arguments | None = None


class DecodedLines(NamedTuple):
    """A batch: its records, the number of blank lines (empty, a bracket), and of those dropped, by reason."""

    records: list[TraceRecord]
    blank: int
    dropped: dict[str, int]


# strict=False: generation 0 quotes its numbers
_decoder = msgspec.json.Decoder(TraceRecord, strict=False)


def decode(data: bytes) -> DecodedLines:
    """Return the records of whole lines (the last may lack its newline). Never raises."""
    if not data:
        return DecodedLines([], 0, {})
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    try:
        records = _decoder.decode_lines(data)
    except _UNREADABLE:
        records = []
    # otherwise some were blank, or had two records, or one record had spread over two lines
    if len(records) == lines == data.count(b"\n{") + data.startswith(b"{"):
        return DecodedLines(records, 0, {})
    return _decode_singly(data.removesuffix(b"\n").split(b"\n"))


def _decode_singly(lines: Iterable[bytes]) -> DecodedLines:
    records: list[TraceRecord] = []
    dropped: Counter[str] = Counter()
    blank = 0
    for line in lines:
        text = _bare(line)
        if text in _BLANKS:
            blank += 1
            continue
        try:
            records.append(_decoder.decode(text))
        except _UNREADABLE:
            record = _decode_loosely(text)
            if isinstance(record, TraceRecord):
                records.append(record)
            else:
                dropped[record] += 1
    return DecodedLines(records, blank, dict(dropped))


def _bare(line: bytes) -> bytes:
    """Return `line` without the syntax of a JSON array: leading spaces, trailing comma, brackets."""
    text = line.strip(_PADDING)
    if text.startswith(b"[{"):
        text = text[1:]
    return text[:-1].rstrip(_PADDING) if text.endswith(b"}]") else text


def _decode_loosely(line: bytes) -> TraceRecord | str:
    """Return the record of a line with fields of unexpected types, or the reason to drop it."""
    try:
        fields = msgspec.json.decode(line.decode("utf-8", "replace"))
    except msgspec.ValidationError:
        return OUT_OF_RANGE
    except RecursionError:
        return TOO_DEEP
    except ValueError:
        return BROKEN_JSON
    if not isinstance(fields, dict):
        return NOT_AN_OBJECT
    args = fields.pop("args", None)
    record = _lenient(TraceRecord, fields)
    if (record.ts is None and "ts" in fields) or integer(fields.get("dur", 0), 0, MAX_TIME) is None:
        return OUT_OF_RANGE
    record.args = _lenient(Arguments, args) if isinstance(args, dict) else None
    return record


def _lenient(kind: type[_Struct], fields: Mapping[str, object]) -> _Struct:
    """Return a record of the fields that can be read, long texts cut; the others have their defaults."""
    known = {}
    for field in msgspec.structs.fields(kind):
        value = fields.get(field.name)
        cut = value[: _LIMITS.get(field.name, MAX_NAME)] if isinstance(value, str) else value
        for each in (value, cut):
            with contextlib.suppress(*_UNREADABLE):
                known[field.name] = msgspec.convert(each, field.type, strict=False)
                break
    return kind(**known)


def integer(value: Any, low: int, high: int) -> int | None:
    """Return `value` as an integer in [`low`, `high`], or None. Numbers may be quoted, or written as 1.0."""
    try:
        number = msgspec.convert(value, int, strict=False) if not isinstance(value, bool) else None
    except _UNREADABLE:
        return None
    return number if number is not None and low <= number <= high else None


def generation_of(record: TraceRecord, kind: int, known: int | None) -> int | None:
    """Return the generation of a line whose phase is a letter; where that is open, the `known` one."""
    args = record.args
    if isinstance(record.id, str):
        return 0
    if args is None or (args.hhash == "" and not args.hostname and kind != METADATA):
        return known
    if isinstance(args.hhash, int) or (args.hhash == "" and kind == METADATA):
        return 1
    if args.hhash == "":
        return 0
    newer = record.id is None if kind == METADATA else args.p_idx is None
    return 3 if newer else 2
