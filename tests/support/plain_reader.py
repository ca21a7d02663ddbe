"""Another reader of traces, as plain as can be: what ours makes of them, it must make too.

It knows nothing of aggregated lines. Times are in nanoseconds, and a broken line is none.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

READS = {"preadv", "read", "pread", "pread64", "readv", "fread"}
WRITES = {
    "sendfile",
    "sendfile64",
    "copy_file_range",
    "pwritev",
    "write",
    "pwrite",
    "pwrite64",
    "writev",
    "fwrite",
}
SYNCS = {"fsync", "fdatasync", "msync", "sync", "fflush"}
PROCESSES = {
    "fork",
    "vfork",
    "clone",
    "wait",
    "waitpid",
    "wait3",
    "wait4",
    "waitid",
    "execve",
    "execv",
    "execvp",
}
UNITS_NS = {"NS": 1, "US": 1000, "MS": 10**6, "SEC": 10**9}
_Sums = Counter[tuple[str, str, int, int]]


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a trace."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error):
            data = zlib.decompressobj(31).decompress(data)
    return data.split(b"\n")


def records_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a trace."""
    for line in lines_of(path):
        try:
            record = json.loads(line.strip(b" \t\r,[]"))
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def sums_of(paths: Iterable[Path], tiers: Mapping[str, str]) -> tuple[_Sums, _Sums, _Sums]:
    """Return calls, bytes and nanoseconds by (tier, operation, pid, tid)."""
    accesses: list[tuple[Any, str, int, int, int, int]] = []
    names: dict[Any, str] = {}
    for path in paths:
        units: dict[object, int] = {}
        for record in records_of(path):
            args, pid = record.get("args") or {}, int(record.get("pid") or 0)
            if record.get("ph") in ("M", 4):
                _explain(record, args, names, (str(path), pid), units, pid)
            elif record.get("cat") in ("POSIX", "STDIO") and record["name"] not in PROCESSES:
                operation, total = operation_of(record["name"], args)
                duration_ns = int(record.get("dur", 0)) * units.get(pid, units.get(0, 1000))
                found = name_of(args, names, (str(path), pid))
                accesses.append((found, operation, pid, int(record["tid"]), total, duration_ns))
    calls, sizes, durations = _Sums(), _Sums(), _Sums()
    for name, operation, pid, tid, total, duration_ns in accesses:
        key = tier_of(names.get(name, name) if isinstance(name, str) else "", tiers), operation, pid, tid
        calls[key] += 1
        sizes[key] += total
        durations[key] += duration_ns
    return calls, sizes, durations


def _explain(  # noqa: PLR0913, PLR0917 - a helper of one caller
    record: Mapping[str, Any],
    args: Mapping[str, Any],
    names: dict[Any, str],
    place: tuple[str, int],
    units: dict[object, int],
    pid: int,
) -> None:
    if record["name"] == "FH":
        value = args["value"]
        names[(*place, value) if isinstance(value, int) else value] = args["name"]
    elif record["name"] == "CM" and args.get("name") == "time_metric":
        units[pid] = UNITS_NS[args["value"]]


def name_of(args: Mapping[str, Any], names: Mapping[Any, str], place: tuple[str, int]) -> str:
    """Return the path of an access, or its hash; generation 1's hash has to be explained before."""
    key = args.get("fhash", "")
    if isinstance(key, int):
        return names.get((*place, key), "")
    return key or args.get("fname", "")


def operation_of(name: str, args: Mapping[str, Any]) -> tuple[str, int]:
    """Return the kind of a call, and the bytes it moved."""
    operation = "read" if name in READS else "write" if name in WRITES else "sync" if name in SYNCS else ""
    result = int(args.get("ret", -1))
    if operation not in {"read", "write"} or result < 0:
        return operation or "metadata", 0
    return operation, result * (int(args.get("size", 1)) if name in {"fread", "fwrite"} else 1)


def tier_of(path: str, tiers: Mapping[str, str]) -> str:
    """Return the tier of a path."""
    return next(
        (tier for directory, tier in tiers.items() if f"{path}/".startswith(f"{directory}/")), "other"
    )
