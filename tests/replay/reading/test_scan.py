"""Tables of trace files: the same sums as another reader has, on any number of threads, and remembered."""

import gzip
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from scrtune.replay.reading import scan
from scrtune.replay.reading.cache import TableCache
from scrtune.replay.reading.scan import Progress, read_table
from scrtune.replay.table import TraceTable

from ...support.plain_reader import lines_of, sums_of

TRACES = Path(__file__).parents[2] / "data" / "traces"
GENERATIONS = sorted(path.name for path in TRACES.glob("gen*") if "aggregated" not in path.name)
TIERS = {"/scratch/study/data": "prefix", "/scratch/study/cache": "cache"}


def sums(table: TraceTable) -> tuple[Counter[tuple[str, str, int, int]], ...]:
    """What the plain reader has, of a table."""
    found: tuple[Counter[tuple[str, str, int, int]], ...] = (Counter(), Counter(), Counter())
    for key, amount in table.resolved().accesses.items():
        place = key.tier, key.operation, key.thread.pid, key.thread.tid
        for counter, value in zip(found, amount[:3], strict=True):
            counter[place] += value
    return found


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_real_traces_have_the_sums_of_another_reader(generation: str, threads: int) -> None:
    found = sorted((TRACES / generation).rglob("*.pfw*"))
    # the plain reader knows no aggregated lines
    paths = [path for path in found if not any(b"dft_cnt" in line for line in lines_of(path))]
    assert paths
    table = read_table(paths, TIERS, threads=threads)
    assert sums(table) == sums_of(paths, TIERS)
    reading = table.reading
    assert reading.lines == reading.events + reading.metadata + reading.blank + sum(reading.dropped.values())
    assert (reading.files, reading.unread) == (len(paths), 0)


def write_large(path: Path, lines: int, unit: str = "") -> Path:
    """A trace of several blocks, in which files are explained anywhere and used everywhere after it."""
    source, texts = random.Random(5), []
    if unit:
        args = {"name": "time_metric", "value": unit}
        texts.append({"name": "CM", "cat": "dftracer", "pid": 7, "tid": 7, "ph": 4, "args": args})
    for number in range(lines):
        if number % 50 == 0:
            args = {"name": f"/p/ckpt/{number}/rank.pt", "value": f"{number:016x}", "hhash": "aa"}
            texts.append({"name": "FH", "cat": "dftracer", "pid": 7, "tid": 7, "ph": 4, "args": args})
        call = {"name": "write", "cat": "POSIX", "pid": 7, "tid": 7 + number % 3}
        times = {"ts": 10**15 + 500 * number, "dur": source.randrange(400), "ph": 1}
        fhash = f"{source.randrange(number // 50 + 1) * 50:016x}"
        texts.append(
            {"id": number, **call, **times, "args": {"hhash": "aa", "fhash": fhash, "ret": number % 5000}}
        )
    data = "".join(json.dumps(text, separators=(",", ":")) + "\n" for text in texts)
    path.write_bytes(gzip.compress(data.encode(), 1) if path.suffix == ".gz" else data.encode())
    return path


@pytest.mark.parametrize("unit", ["", "NS"])
def test_several_threads_on_one_file_make_the_table_of_one(tmp_path: Path, unit: str) -> None:
    path = write_large(tmp_path / "a.pfw.gz", 30_000, unit)
    alone, together = (read_table([path], {"/p": "prefix"}, threads=threads).resolved() for threads in (1, 4))
    assert sums(alone) == sums_of([path], {"/p": "prefix"})
    assert together == alone
    assert {key.file_class for key in alone.accesses} == {"rank.pt"}
    assert sum(amount.bytes for amount in alone.activity.values()) == sum(
        amount.bytes for amount in alone.accesses.values()
    )


def test_a_unit_of_time_that_is_said_late_holds_for_the_lines_behind_it(tmp_path: Path) -> None:
    data = write_large(tmp_path / "a.pfw", 30_000).read_bytes()
    said = b'{"name":"CM","cat":"dftracer","pid":7,"ph":4,"args":{"name":"time_metric","value":"NS"}}\n'
    path = tmp_path / "b.pfw"
    path.write_bytes(data + said + data)
    table = read_table([path], {"/p": "prefix"}, threads=4)
    assert sums(table) == sums_of([path], {"/p": "prefix"})
    assert table.reading.lines == 2 * data.count(b"\n") + 1


def test_a_damaged_file_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    path = write_large(tmp_path / "a.pfw.gz", 5000)
    whole = read_table([path], {}).reading.events
    path.write_bytes(path.read_bytes()[:-2000])
    reading = read_table([path], {}).reading
    assert 0 < reading.events < whole
    assert len(reading.damage) == 1
    assert "cut off" in reading.damage[0]


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path, cache = write_large(tmp_path / "a.pfw", 500), TableCache(tmp_path / "cache")
    first, again, other, grown = (Progress() for _ in range(4))
    table = read_table([path], {}, cache=cache, progress=first)
    assert read_table([path], {}, cache=cache, progress=again) == table
    assert (first.remembered, again.remembered, again.done_files) == (0, 1, 1)
    read_table([path], {"/p": "prefix"}, cache=cache, progress=other)
    path.write_bytes(path.read_bytes() * 2)
    longer = read_table([path], {}, cache=cache, progress=grown)
    assert (other.remembered, grown.remembered) == (0, 0)
    assert longer.reading.events == 2 * table.reading.events


def test_of_too_many_tables_those_that_were_not_used_for_longest_go(tmp_path: Path) -> None:
    paths = [write_large(tmp_path / f"{number}.pfw", 500 + number) for number in range(4)]
    cache = TableCache(tmp_path / "cache")
    for path in paths:
        read_table([path], {}, cache=cache)
    sizes = {path: cache.path_of(path, {}).stat().st_size for path in paths}
    for used_s, path in enumerate(paths):
        os.utime(cache.path_of(path, {}), (used_s, used_s))
    assert cache.get(paths[0], {}) is not None, "a use"
    small = replace(cache, limit_bytes=sum(sizes.values()) - 1)
    small.prune()
    assert [path for path in paths if cache.get(path, {})] == [paths[0], *paths[2:]]
    new = write_large(tmp_path / "new.pfw", 700)
    read_table([new], {}, cache=replace(cache, limit_bytes=max(sizes.values()) * 2))
    assert cache.get(new, {}) is not None
    assert sum(size for _, size, _ in cache.files()) <= max(sizes.values()) * 2


def test_a_remembered_table_that_is_damaged_is_none(tmp_path: Path) -> None:
    path, cache = write_large(tmp_path / "a.pfw", 100), TableCache(tmp_path / "cache")
    table = read_table([path], {}, cache=cache)
    (kept,) = cache.directory.iterdir()
    kept.write_bytes(kept.read_bytes()[:50])
    assert read_table([path], {}, cache=cache) == table


def test_what_is_asked_to_stop_says_what_it_has_not_read(tmp_path: Path) -> None:
    for number in range(3):
        write_large(tmp_path / f"{number}.pfw", 200)
    cache = TableCache(tmp_path / "cache")
    reading = read_table([tmp_path], {}, cache=cache, progress=Progress(stop=True)).reading
    assert (reading.files, reading.unread, reading.lines) == (3, 3, 0)
    assert not cache.directory.exists(), "what was not read is not remembered"


def test_a_sparse_trace_of_a_long_time_has_wider_bins(tmp_path: Path) -> None:
    call = {"name": "write", "cat": "POSIX", "pid": 7, "tid": 7, "dur": 5, "ph": 1}
    args = {"hostname": "n1", "fname": "/p/a", "ret": 8}
    lines = ({"id": 0, **call, "ts": 10**15 + 3_000_000 * number, "args": args} for number in range(20_000))
    path = tmp_path / "a.pfw"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    table = read_table([path], {"/p": "prefix"})
    assert 1 < table.bin_s < 60
    assert len(table.activity) < 20_000, "each thread that reads has 8,192 rows"
    assert sum(amount.bytes for amount in table.activity.values()) == 160_000


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_scanner_makes_the_table_of_the_decoder(generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_scanner = read_table([TRACES / generation], TIERS, threads=1)
    monkeypatch.setattr(scan, "new_scanner", lambda _: None)
    assert read_table([TRACES / generation], TIERS, threads=1) == by_scanner
