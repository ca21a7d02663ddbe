"""An archive of traces is read as what it holds, and of a damaged one everything that can be."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.replay.reading.scan import read_table
from scrtune.replay.reading.traces import Summary, find_traces, read_traces
from scrtune.replay.table import TraceTable

TRACES = Path(__file__).parents[2] / "data" / "traces"
GENERATIONS = sorted(path.name for path in TRACES.glob("gen*"))
TIERS = {"/scratch/study/data": "prefix", "/scratch/study/cache": "cache"}
FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)


def line(number: int) -> bytes:
    args = '"args":{"hostname":"n1","fname":"/p/a","ret":1}'
    call = f'"id":0,"name":"write","cat":"POSIX","pid":7,"tid":7,"ts":{10**15 + number},"dur":1,"ph":1'
    return f"{{{call},{args}}}\n".encode()


def archive(files: Mapping[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(data)
            tar.addfile(header, io.BytesIO(data))
    return out.getvalue()


def pack(directory: Path, path: Path, form: int) -> Path:
    path.write_bytes(b"")
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w", format=form) as tar:
        tar.add(directory, "logs")
    return path


def of_content(table: TraceTable) -> TraceTable:
    """The table without what says from which files it is."""
    return msgspec.structs.replace(table, reading=msgspec.structs.replace(table.reading, files=0))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def events(path: Path) -> int:
    return read_table([path], {}).reading.events


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("name", "form"), [*zip(("a.tar", "a.tar.gz", "a.tgz"), FORMATS, strict=True)])
def test_it_has_the_table_of_the_files_in_it(tmp_path: Path, generation: str, name: str, form: int) -> None:
    path = pack(TRACES / generation, tmp_path / name, form)
    alone, together, expected = (
        read_table([each], TIERS, threads=threads)
        for each, threads in ((path, 1), (path, 3), (TRACES / generation, 1))
    )
    assert of_content(alone) == of_content(together) == of_content(expected)
    sizes = [each.stat().st_size for each in (TRACES / generation).glob("*.pfw*")]
    assert alone.reading.files <= len(sizes), "those without a line are not counted"


@pytest.mark.parametrize("form", FORMATS[:2])
def test_names_of_any_length_and_what_is_no_trace(tmp_path: Path, form: int) -> None:
    long = "d" * 90 + "/" + "f" * 200 + "é.pfw"
    files = {"notes.txt": b"x" * 5000, long: line(1), "b.pfw.gz": gzip.compress(line(2)), "c.pfw": b""}
    path = written(tmp_path / "a.tar", archive(files, form))
    summary = Summary()
    batches = {batch.source: batch.data for batch in read_traces([path], summary)}
    assert batches == {f"{path}/{long}": line(1), f"{path}/b.pfw.gz": line(2)}
    assert (summary.files, summary.lines, summary.damage) == (2, 2, [])


def test_a_directory_is_searched_for_archives_only_where_it_has_no_traces(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tgz", gzip.compress(archive({"a.pfw": line(1)})))
    assert find_traces([tmp_path]) == [path]
    trace = written(tmp_path / "a.pfw", line(1))
    assert find_traces([tmp_path]) == [trace]
    assert set(find_traces([tmp_path, path])) == {trace, path}


def test_a_damaged_header_costs_its_own_trace_alone(tmp_path: Path) -> None:
    data = bytearray(archive({f"{number}.pfw": line(number) * 30 for number in range(3)}))
    data[data.index(b"1.pfw") + 30] ^= 0xFF
    path = written(tmp_path / "a.tar", data)
    reading = read_table([path], {}).reading
    assert reading.events == 60
    (damage,) = reading.damage
    assert "a file of the archive is lost: bad checksum" in damage


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_that_was_cut_off_keeps_what_is_before(tmp_path: Path, compressed: bool) -> None:
    rest = b"".join(line(number) for number in range(3000))
    trace = gzip.compress(rest) if compressed else rest
    name = "b.pfw.gz" if compressed else "b.pfw"
    whole = archive({"a.pfw": line(0) * 100, name: trace})
    path = written(tmp_path / "a.tar", whole[: whole.index(name.encode()) + 512 + len(trace) // 2])
    reading = read_table([path], {}).reading
    assert 100 + 1000 < reading.events < 3100
    assert any("the archive ends within this file" in text for text in reading.damage)


def test_a_missing_end_is_said(tmp_path: Path) -> None:
    data = archive({"a.pfw": line(0)})
    path = written(tmp_path / "a.tar", data[: data.rindex(b"}") // 512 * 512 + 512])
    reading = read_table([path], {}).reading
    assert (reading.events, len(reading.damage)) == (1, 1)
    assert "the archive is cut off" in reading.damage[0]


def test_the_damage_of_a_compressed_trace_is_its_own(tmp_path: Path) -> None:
    torn = gzip.compress(b"".join(line(number) for number in range(3000)))[:-20]
    path = written(tmp_path / "a.tar", archive({"a.pfw.gz": torn, "b.pfw": line(0) * 7}))
    reading = read_table([path], {}).reading
    assert 2000 < reading.events < 3007
    (damage,) = reading.damage
    assert damage.startswith(f"{path}/a.pfw.gz, byte 0: the gzip member that begins here is cut off")


@settings(max_examples=150)
@given(position=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 10**6), packed=st.booleans())
def test_a_flipped_bit_and_a_cut_are_survived(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int, cut: int, packed: bool
) -> None:
    files = {f"{number}.pfw": line(number) * 5 for number in range(6)} | {"z.pfw.gz": gzip.compress(line(9))}
    data = bytearray(archive(files))
    data = bytearray(gzip.compress(data, mtime=0)) if packed else data
    data[position % len(data)] ^= 1 << bit
    path = written(tmp_path_factory.getbasetemp() / "a.tar", data[: len(data) - cut % (len(data) // 2)])
    assert 0 <= events(path) <= 31


def test_any_bytes_under_an_archive_s_name_are_damage(tmp_path: Path) -> None:
    for data in (b"", b"x", b"x" * 5000, gzip.compress(b"y" * 600)):
        reading = read_table([written(tmp_path / "a.tar.gz", data)], {}).reading
        assert (reading.events, bool(reading.damage)) == (0, True)
