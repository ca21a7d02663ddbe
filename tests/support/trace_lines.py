"""DFTracer's recorded traces, and lines of any other shape."""

import gzip
import json
from pathlib import Path
from typing import Any

TRACES = Path(__file__).parents[1] / "data" / "traces"
TIERS = {"/scratch/study/data": "prefix"}
HASH = "00000000000000f1"
"""Of the file that a line is about, unless it says otherwise."""


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def line(name: str = "write", /, **changes: Any) -> bytes:
    """A line of generation 4; `changes` replace fields, `args` are added to its own; None leaves one out."""
    fields = {"id": 1, "name": name, "cat": "POSIX", "pid": 7, "tid": 7}
    fields |= {"ts": 1_700_000_000_000_000, "dur": 5, "ph": 1, "args": {}, **changes}
    if (args := fields["args"]) is not None:
        fields["args"] = without_none({"hhash": "aa", "ret": 8, "fhash": HASH, **args})
    text = json.dumps(without_none(fields), separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def explain(value: object, path: object, kind: str = "FH", **changes: Any) -> bytes:
    """A line that says what a hash stands for."""
    args = without_none({"hhash": "aa", "name": path, "value": value})
    fields = {"name": kind, "cat": "dftracer", "pid": 7, "tid": 7, "ph": 4, "args": args, **changes}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
