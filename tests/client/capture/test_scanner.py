"""The scanner changes how fast lines are digested, and nothing else: real traces, bounds, and no library."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.capture import scanner
from scrtune.intents.trace import names
from scrtune.intents.trace.calls import IO_CATEGORIES, OPERATION_OF
from scrtune.intents.trace.decoder import TraceDecoder

from ...support.trace_lines import TIERS, explain, line
from .scanned import FILES, Step, Watched, assert_same, digests_of


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
    silent = line(args=None)
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


def test_there_is_no_scanner_where_the_library_was_not_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scanner, "libscrtune_path", lambda: None)
    assert scanner.new_scanner() is None
    (tmp_path / "libscrtune.so").write_bytes(b"no library")
    monkeypatch.setattr(scanner, "libscrtune_path", lambda: tmp_path / "libscrtune.so")
    assert scanner.new_scanner() is None
