"""Where a libscr is found, and why another is refused. Needs no libscr."""

import struct
import subprocess
from pathlib import Path

import pytest

from scrtune.client.libscr.find import (
    LibraryPlaces,
    LibscrUnavailable,
    find_libscr,
    mapped_libraries,
    needed,
    unusable_reason,
)


def shared_library(path: Path, *names: str, soname: str = "") -> Path:
    """The least that the loader would call a shared library: it needs `names`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in (*names, soname))
    tagged = [(1, name) for name in names] + ([(14, soname)] if soname else [])
    start = 64 + 2 * 56
    dynamic = struct.pack("<qQ", 5, start)
    dynamic += b"".join(struct.pack("<qQ", tag, strings.index(name.encode())) for tag, name in tagged)
    end = start + len(strings)
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    )
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, end, end, 1)
    table = struct.pack("<IIQQQQQQ", 2, 4, end, end, end, len(dynamic), len(dynamic), 8)
    path.write_bytes(header + load + table + strings + dynamic)
    return path


def test_needed_libraries_are_read_from_the_file(tmp_path: Path) -> None:
    path = shared_library(tmp_path / "x.so", "libmpi.so.12", "libz.so.1")
    assert needed(path) == ("libmpi.so.12", "libz.so.1")
    for length in (0, 3, 40, 100, 200):
        (tmp_path / "y.so").write_bytes(path.read_bytes()[:length])
        with pytest.raises(ValueError, match="shared library"):
            needed(tmp_path / "y.so")


def test_real_libraries_are_read_as_the_loader_reads_them() -> None:
    own = next(
        path for path in mapped_libraries() if path.name.startswith("libpthread") or "libm.so" in path.name
    )
    ran = subprocess.run(["ldd", str(own)], capture_output=True, text=True, check=True)
    assert all(name in ran.stdout for name in needed(own))


def machine(base: Path, *loaded: str) -> LibraryPlaces:
    """One on which nothing is installed but below `base`, and a process that has `loaded`."""
    return LibraryPlaces(lambda: [Path(each) for each in loaded], list, [base / "usr"])


@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("SCR_ROOT", "{base}/scr", "scr/lib"),
        ("SCR_ROOT", "{base}/scr", "scr/lib64"),
        ("SCR_DIR", "{base}/scr", "scr/lib"),
        ("SCR_PREFIX_DIR", "{base}/scr/lib", "scr/lib"),
        ("scr_DIR", "{base}/scr/share/scr/cmake", "scr/lib64"),
        ("SCR_INSTALL", "{base}/scr", "scr/lib"),
        ("LD_LIBRARY_PATH", "{base}/nothing::{base}/scr", "scr"),
        ("PATH", "{base}/scr/bin", "scr/lib64"),
        ("UNUSED", "", "usr/lib64"),
    ],
)
def test_a_library_is_found_where_users_have_it(
    tmp_path: Path, variable: str, value: str, place: str
) -> None:
    program = tmp_path / "scr" / "bin" / "scr_index"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    library = shared_library(tmp_path / place / "libscr.so", "libc.so.6")
    assert find_libscr({variable: value.format(base=tmp_path)}, machine(tmp_path)) == library


def test_the_error_names_every_place_and_what_was_wrong_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "libscr.so").write_text("INPUT(libscr.a)")
    with pytest.raises(LibscrUnavailable) as failure:
        find_libscr({"SCR_ROOT": "/none", "LD_LIBRARY_PATH": str(tmp_path / "a")}, machine(tmp_path))
    told = str(failure.value)
    assert "/none/lib64/libscr.so ($SCR_ROOT): no such file" in told
    assert f"{tmp_path}/a/libscr.so ($LD_LIBRARY_PATH): it is no 64-bit shared library" in told
    assert "set SCR_ROOT" in told
    assert failure.value.short == f"{tmp_path}/a/libscr.so ($LD_LIBRARY_PATH): it is no 64-bit shared library"
    with pytest.raises(LibscrUnavailable) as failure:
        find_libscr({"SCR_ROOT": "/none"}, machine(tmp_path))
    assert failure.value.short == "no libscr.so was found"


@pytest.mark.parametrize("through", ["", "libaxl_mpi.so"])
def test_a_library_of_another_mpi_is_refused_before_it_is_loaded(tmp_path: Path, through: str) -> None:
    path = shared_library(tmp_path / "lib" / "libscr.so", "libc.so.6", through or "libmpi.so.40")
    if through:
        shared_library(tmp_path / "lib" / through, "libmpi.so.40")
    mpich = machine(tmp_path, "/venv/lib/libmpi.so.12")
    with pytest.raises(LibscrUnavailable, match=r"linked to libmpi.so.40, and this process runs on /venv"):
        find_libscr({"SCR_ROOT": str(tmp_path)}, mpich)
    assert "libmpi.so.40" in unusable_reason(path, mpich.loaded())
    openmpi = machine(tmp_path, "/usr/lib/libmpi.so.40")
    assert find_libscr({"SCR_ROOT": str(tmp_path)}, openmpi) == path


def test_a_library_is_of_the_mpi_whose_file_says_more_of_its_version(tmp_path: Path) -> None:
    """Debian's Open MPI: linked to as libmpi.so.40, the file in the process is libmpi.so.40.30.4."""
    mpi = shared_library(tmp_path / "mpi" / "libmpi.so.40.30.4", soname="libmpi.so.40")
    other = shared_library(tmp_path / "mpi" / "libmpi.so.20.10.1", soname="libmpi.so.20")
    library = shared_library(tmp_path / "lib" / "libscr.so", "libmpi.so.40")
    assert unusable_reason(library, [mpi]) == ""
    assert "this process runs on" in unusable_reason(library, [other])
