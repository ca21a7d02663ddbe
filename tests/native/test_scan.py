"""The scanner under the sanitizers: it reads nothing beyond its data, whatever the data."""

import gzip
from pathlib import Path
from random import Random

import pytest

from ..support.native_build import ROOT, SANITIZED, STRICT, compiler, run

TRACES = ROOT / "tests" / "data" / "traces"
WRITE = (
    b'{"id":3,"name":"write","cat":"POSIX","type":3,"pid":7,"tid":7,"ts":1795252232481640,"dur":14,"ph":1,'
    b'"args":{"hhash":"6882804a826580cd","ret":320,"count":320,"fhash":"15ead2fd64f72c68"}}\n'
)
BAD = (b'"', b"\\", b"\n", b"\0", b"\xff", b"{", b"}", b",", b"9" * 30, b"-", b".", b" ", b"")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scanner with a main of its own, under gcc's address and undefined behaviour sanitizers."""
    if "/" not in run(compiler(), "-print-file-name=libasan.so"):
        pytest.skip("needs gcc's address sanitizer")
    target = tmp_path_factory.mktemp("scan") / "scan_inputs"
    sources = [ROOT / "tests" / "support" / "scan_inputs.c"]
    sources += [ROOT / "native" / "scan" / name for name in ("line.c", "tables.c")]
    checks = (*SANITIZED, "-fsanitize=address,undefined")
    run(compiler(), *STRICT, *checks, "-o", str(target), *map(str, sources))
    return target


def scanned(program: Path, directory: Path, inputs: list[bytes]) -> int:
    """Scan each of `inputs`; return how many lines were plain."""
    paths = []
    for number, data in enumerate(inputs):
        paths.append(directory / str(number))
        paths[-1].write_bytes(data)
    return int(run(str(program), *map(str, paths)))


def test_real_traces_cut_anywhere(program: Path, tmp_path: Path) -> None:
    inputs = []
    for path in sorted(TRACES.glob("*/*.pfw*")):
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
        inputs += [data, data[: len(data) // 2], data[-100:], data[:200], data[:64], data[:63], data[:1]]
    assert scanned(program, tmp_path, inputs) > 1000


def test_a_line_cut_at_every_byte(program: Path, tmp_path: Path) -> None:
    inputs = [WRITE[:length] for length in range(len(WRITE) + 1)]
    inputs += [WRITE + WRITE[start:] for start in range(len(WRITE))]
    assert scanned(program, tmp_path, inputs) >= len(WRITE)


def test_changed_bytes(program: Path, tmp_path: Path) -> None:
    random = Random(11)
    inputs = []
    for _ in range(300):
        data = bytearray(WRITE * random.choice([1, 2, 5]))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(data))
            data[at : at + random.randint(0, 3)] = random.choice(BAD)
        inputs.append(bytes(data))
    assert scanned(program, tmp_path, inputs) > 300


def test_lines_of_any_length(program: Path, tmp_path: Path) -> None:
    long = [1 << 16, (1 << 16) + 64, 3 << 20]
    inputs = [b"", b"\n", b"{", b"[\n", b"\0" * 1000, b"\n" * 1000, b"{" * 1000, b'{"' * 5000]
    inputs += [WRITE.replace(b"POSIX", b"x" * length) + WRITE for length in [*long, 255, 256, 257]]
    inputs += [WRITE + b'{"' + b"x" * length for length in long]
    inputs += [WRITE + b"9" * length + WRITE for length in long]
    assert scanned(program, tmp_path, inputs) > 10


def test_full_tables_begin_anew(program: Path, tmp_path: Path) -> None:
    files = b"".join(WRITE.replace(b"15ead2fd64f72c68", b"%016x" % number) for number in range(70_000))
    names = b"".join(WRITE.replace(b'"write"', b'"call%d"' % number) for number in range(9_000))
    pids = b"".join(WRITE.replace(b'"pid":7', b'"pid":%d' % number) for number in range(20_000))
    keys = b"".join(WRITE.replace(b'"count"', b'"key%d"' % number) for number in range(300))
    sizes = b"".join(WRITE.replace(b'"ret":320', b'"ret":%d' % number) for number in range(40_000))
    inputs = [files, names, pids, keys, sizes]
    assert scanned(program, tmp_path, inputs) > 100_000
