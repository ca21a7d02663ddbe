"""Find SCR's library, if this process can load it.

A library that is linked to another MPI than this process runs on is refused before it is loaded: its SCR_Init
would use an MPI that nobody has initialized.
"""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

NAME = "libscr.so"
HINTS = ("SCR_ROOT", "SCR_PREFIX_DIR", "SCR_DIR", "scr_DIR", "SCR_INSTALL", "SCR_INSTALL_DIR")
"""Variables that name an installed SCR: modules, Spack, CMake's package hint and SCR's own examples."""

_MPI = re.compile(r"libmpi(ch|_cray|_ibm|_intel|_abi)?(_[a-z0-9]+)?\.so(\.[0-9]+)*")
_USUAL = (Path("/usr/local"), Path("/usr"), *sorted(Path("/opt").glob("scr*"), reverse=True))
_PT_LOAD, _PT_DYNAMIC = 1, 2  # the ELF specification, 64-bit
_DT_NEEDED, _DT_STRTAB, _DT_SONAME = 1, 5, 14
_CMAKE_DEPTH = 4  # <prefix>/lib/cmake/scr, and one to spare


class LibscrUnavailable(RuntimeError):  # noqa: N818 - it is a state of the machine, and reads as one
    """No libscr can be used; the text names every place that was looked at and what was wrong there.

    `short` is what a user who has not asked for one needs to know of it.
    """

    def __init__(self, text: str, short: str = "") -> None:
        super().__init__(text)
        self.short = short or text


class LibraryPlaces(NamedTuple):
    """Where libraries are that no variable names: loaded, in the loader's cache, in the usual places."""

    loaded: Callable[[], Iterable[Path]]
    cached: Callable[[], Iterable[Path]]
    usual: Iterable[Path] = _USUAL


def find_libscr(environment: Mapping[str, str], machine: LibraryPlaces | None = None) -> Path:
    """Return the first of :func:`places` that this process can use. Raises :class:`LibscrUnavailable`."""
    machine = machine or LibraryPlaces(mapped_libraries, _of_the_loader)
    failures: dict[Path, str] = {}
    for source, path in places(environment, machine):
        if path in failures:
            continue
        if not (why := unusable_reason(path, machine.loaded())):
            return path
        failures[path] = f"{path} ({source}): {why}"
    refused = next((text for path, text in failures.items() if path.exists()), "")
    raise LibscrUnavailable(
        f"no {NAME} that this process can use; set SCR_ROOT to an installed SCR. Looked at: "
        + "; ".join(failures.values()),
        short=refused or f"no {NAME} was found",
    )


def places(environment: Mapping[str, str], machine: LibraryPlaces) -> Iterator[tuple[str, Path]]:
    """Yield where a libscr may be, best first: what said so, and the path, which need not exist."""
    yield from (("loaded already", each) for each in machine.loaded() if each.name.startswith(NAME))
    for hint in HINTS:
        if root := environment.get(hint):
            yield from _below(Path(root), f"${hint}")
    if package := environment.get("scr_DIR"):
        for parent in list(Path(package).parents)[:_CMAKE_DEPTH]:
            yield from _below(parent, "above $scr_DIR")
    for directory in filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")):
        yield "$LD_LIBRARY_PATH", Path(directory) / NAME
    for program in ("scr_index", "scr_run"):
        if found := shutil.which(program, path=environment.get("PATH", "")):
            yield from _below(Path(found).resolve().parent.parent, f"next to {program} on $PATH")
    yield from (("the loader's cache", each) for each in machine.cached())
    for usual in machine.usual:
        yield from _below(usual, "usual place")


def unusable_reason(path: Path, loaded: Iterable[Path]) -> str:
    """Return why `path` is no libscr for a process that has `loaded` libraries; empty when it is one."""
    if not path.is_file():
        return "no such file"
    try:
        wanted = _mpi_of(path)
    except (OSError, ValueError) as error:
        return str(error)
    own = sorted(library for library in loaded if _MPI.fullmatch(library.name))
    names = {_soname(library) for library in own}
    if wanted and names and not wanted <= names:
        return (
            f"it is linked to {', '.join(sorted(wanted))}, and this process runs on {own[0]}: build SCR with"
            " that MPI, or mpi4py with SCR's"
        )
    return ""


def mapped_libraries() -> tuple[Path, ...]:
    """Return the shared libraries in this process, in the order of their addresses."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    paths = (line[line.index("/") :] for line in lines if "/" in line and ".so" in line)
    return tuple(dict.fromkeys(Path(path) for path in paths))


def _below(root: Path, source: str) -> Iterator[tuple[str, Path]]:
    for directory in ("lib", "lib64", "."):
        yield source, root / directory / NAME


def _of_the_loader() -> Iterator[Path]:
    """Yield what /etc/ld.so.cache has, by the one program that can read it."""
    program = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if program is None:
        return
    try:
        ran = subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return
    for line in ran.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if path and name.split()[0].startswith(NAME):
            yield Path(path)


def _mpi_of(path: Path) -> frozenset[str]:
    """Return the names of the MPI libraries that `path`, or what it needs from next to it, is linked to."""
    seen: dict[Path, tuple[str, ...]] = {}
    waiting = [path]
    while waiting:
        library = waiting.pop()
        if library not in seen:
            seen[library] = needed(library)
            waiting += [near for name in seen[library] if (near := path.with_name(name)).is_file()]
    return frozenset(name for names in seen.values() for name in names if _MPI.fullmatch(name))


def needed(path: Path) -> tuple[str, ...]:
    """Return the libraries that `path` is linked to (DT_NEEDED). Raises OSError, ValueError."""
    return _names(path, _DT_NEEDED)


def _soname(path: Path) -> str:
    """Return the name by which others are linked to a library: its file may be named otherwise."""
    try:
        return next(iter(_names(path, _DT_SONAME)), path.name)
    except (OSError, ValueError):  # it was replaced while we run
        return path.name


def _names(path: Path, wanted: int) -> tuple[str, ...]:
    """Return the strings of `wanted` entries in a library's dynamic section. Raises OSError, ValueError."""
    data = path.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("it is no 64-bit shared library")
    try:
        return tuple(_strings(data, wanted, "<" if data[5] == 1 else ">"))
    except (struct.error, IndexError, ValueError):
        raise ValueError("it is a damaged shared library") from None


def _strings(data: bytes, wanted: int, order: str) -> Iterator[str]:
    table, _sections, _flags, _header, size, count = struct.unpack_from(order + "QQIHHH", data, 32)
    segments = [struct.unpack_from(order + "IIQQQQ", data, table + size * number) for number in range(count)]
    loaded = [
        (address, offset, length) for kind, _, offset, address, _, length in segments if kind == _PT_LOAD
    ]
    for kind, _, offset, _, _, length in segments:
        if kind != _PT_DYNAMIC:
            continue
        entries = [struct.unpack_from(order + "qQ", data, at) for at in range(offset, offset + length, 16)]
        (strings,) = (value for tag, value in entries if tag == _DT_STRTAB)
        (start,) = (strings - base + at for base, at, long in loaded if base <= strings < base + long)
        for tag, value in entries:
            if tag == wanted:
                yield data[start + value : data.index(b"\0", start + value)].decode()
