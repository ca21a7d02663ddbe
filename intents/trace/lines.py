"""DFTracer's lines, of every generation, as records (`docs/traces.md` describes the generations).

The quick way takes a whole batch at once; one line that it does not like sends the batch the slow way, line
by line, where a bad line costs only itself.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

BROKEN_JSON = "broken json"
NOT_AN_OBJECT = "not an object"
OUT_OF_RANGE = "number out of range"
TOO_DEEP = "nested too deep"

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

_PADDING = b" \t\r\f\v,"
_BLANKS = (b"", b"[", b"]", b"[]")
# MsgspecError and UnicodeDecodeError are ValueErrors
_UNREADABLE = (ValueError, RecursionError, OverflowError)


class Arguments(msgspec.Struct, gc=False):
    """What ``args`` holds, as far as it matters here. `name` and `value` may be anything: users choose them.

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
    dft_cnt: _Count | None = None
    dur: Any = None
    dur_sum: _Time | None = None
    dur_max: _Time | None = None
    ret_sum: _Bytes | None = None
    ret_min: _Bytes | None = None
    ret_max: _Bytes | None = None
    size_min: _Bytes | None = None
    size_max: _Bytes | None = None


class Record(msgspec.Struct, gc=False):
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


class Decoded(NamedTuple):
    """A batch: its records, how many lines were empty or a bracket, and how many were dropped, by reason."""

    records: list[Record]
    blank: int
    dropped: dict[str, int]


# strict=False: generation 0 quotes its numbers
_decoder = msgspec.json.Decoder(Record, strict=False)


def decode(data: bytes) -> Decoded:
    """Take whole lines apart (the last may lack its newline). Never raises."""
    if not data:
        return Decoded([], 0, {})
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    try:
        records = _decoder.decode_lines(data)
    except _UNREADABLE:
        records = []
    if len(records) == lines:  # otherwise some were blank, or one record had spread over two lines
        return Decoded(records, 0, {})
    return _decode_singly(data.removesuffix(b"\n").split(b"\n"))


def _decode_singly(lines: Iterable[bytes]) -> Decoded:
    records: list[Record] = []
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
            if isinstance(record, Record):
                records.append(record)
            else:
                dropped[record] += 1
    return Decoded(records, blank, dict(dropped))


def _bare(line: bytes) -> bytes:
    """`line` without what makes a JSON array of the file: leading spaces, trailing comma, brackets."""
    text = line.strip(_PADDING)
    if text.startswith(b"[{"):
        text = text[1:]
    return text[:-1].rstrip(_PADDING) if text.endswith(b"}]") else text


def _decode_loosely(line: bytes) -> Record | str:
    """The record of a line whose fields have types we did not expect, or why there is none."""
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
    ts = integer(fields.get("ts"), 0, MAX_TIME)
    dur = integer(fields.get("dur", 0), 0, MAX_TIME)
    if dur is None or (ts is None and "ts" in fields):
        return OUT_OF_RANGE
    args = fields.get("args")
    phase = fields.get("ph")
    return Record(
        ph=phase if isinstance(phase, int | str) else "",
        name=_text(fields.get("name"), MAX_NAME),
        cat=_text(fields.get("cat"), MAX_NAME),
        pid=integer(fields.get("pid"), -MAX_TIME, MAX_TIME),
        tid=integer(fields.get("tid"), -MAX_TIME, MAX_TIME),
        ts=ts,
        dur=dur,
        id=fields.get("id"),
        args=_loose_arguments(args) if isinstance(args, dict) else None,
    )


def _loose_arguments(args: dict[str, Any]) -> Arguments:
    def number(name: str, low: int, high: int) -> int | None:
        return integer(args.get(name), low, high)

    return Arguments(
        hhash=_hash(args.get("hhash")),
        fhash=_hash(args.get("fhash")),
        ret=number("ret", -MAX_BYTES, MAX_BYTES),
        size=args.get("size"),
        name=args.get("name"),
        value=args.get("value"),
        hostname=_text(args.get("hostname"), MAX_NAME),
        fname=_text(args.get("fname"), MAX_PATH),
        p_idx=args.get("p_idx"),
        dft_cnt=number("dft_cnt", 0, MAX_COUNT),
        dur=args.get("dur"),
        dur_sum=number("dur_sum", 0, MAX_TIME),
        dur_max=number("dur_max", 0, MAX_TIME),
        ret_sum=number("ret_sum", -MAX_BYTES, MAX_BYTES),
        ret_min=number("ret_min", -MAX_BYTES, MAX_BYTES),
        ret_max=number("ret_max", -MAX_BYTES, MAX_BYTES),
        size_min=number("size_min", -MAX_BYTES, MAX_BYTES),
        size_max=number("size_max", -MAX_BYTES, MAX_BYTES),
    )


def integer(value: Any, low: int, high: int) -> int | None:
    """`value` as an integer from `low` to `high`, or None: numbers may be quoted, or written as 1.0."""
    try:
        number = msgspec.convert(value, int, strict=False) if not isinstance(value, bool) else None
    except _UNREADABLE:
        return None
    return number if number is not None and low <= number <= high else None


def _text(value: Any, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _hash(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_TIME:
        return value
    return _text(value, MAX_HASH)
