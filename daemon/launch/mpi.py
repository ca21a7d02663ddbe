"""Whether the MPI of a job's launcher is that of its application, by what is in their files.

Under the launcher of another MPI the ranks fail in MPI_Init, or each is alone. Nothing is started to find
that out; where the files do not tell, nothing is said.
"""

import enum
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .application import program_of

_LAUNCHER = re.compile(r"mpi(exec|run)(\.\w+)?|orterun|prterun")
_PYTHON = re.compile(r"(pypy|python)[\d.]*")
_READ_BYTES = 4 << 20
"""A program's libraries are named near its beginning."""


class Mpi(enum.Enum):
    """An MPI, and what its launchers, and the programs that are linked with it, have in them."""

    OPEN_MPI = (b"\0libmpi.so.20\0", b"\0libmpi.so.40\0", b"\0libopen-rte.so", b"\0libopen-pal.so")
    MPICH = (b"\0libmpi.so.12\0", b"\0libmpich.so.12\0", b"HYDRA build details")

    @property
    def title(self) -> str:
        """Its name."""
        return "MPICH" if self is Mpi.MPICH else "Open MPI"


def mpi_mismatch(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what is wrong with the launcher of `command`, and what to do; empty if nothing is known."""
    path = environment.get("PATH", os.defpath)
    launcher = next((each for each in command if _LAUNCHER.fullmatch(Path(each).name)), "")
    started_by, program = (shutil.which(each, path=path) for each in (launcher, program_of(command) or ""))
    if not started_by or not program:
        return ""
    theirs, (file, ours) = mpi_of(Path(started_by)), _linked(Path(program), environment)
    if theirs is None or ours is None or theirs is ours:
        return ""
    directories = [str(file.parent.parent / "bin"), *path.split(os.pathsep)]  # the mpich wheel's first
    candidates = (Path(each, Path(started_by).name) for each in directories)
    fitting = next((str(each) for each in candidates if mpi_of(each) is ours), f"the mpiexec of {ours.title}")
    wrong = f"{started_by} is {theirs.title}'s, {file} is {ours.title}'s: the ranks fail, or each is alone"
    rebuild = f", or install mpi4py for {theirs.title} (docs/install.md)" if str(file) != program else ""
    return f"{wrong}. Start them with {fitting}{rebuild}"


def mpi_of(file: Path) -> Mpi | None:
    """Return the MPI of a launcher, a program or a library; None if its file does not tell."""
    own_name = b"\0%s\0" % os.fsencode(file.name)
    if named := [mpi for mpi in Mpi if own_name in mpi.value]:
        return named[0]
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text:
            found = [mpi for mpi in Mpi if any(text.find(each, 0, _READ_BYTES) >= 0 for each in mpi.value)]
    except (OSError, ValueError):  # cannot be read, or is empty
        return None
    return found[0] if len(found) == 1 else None


def _linked(program: Path, environment: Mapping[str, str]) -> tuple[Path, Mpi | None]:
    """Return the file that tells the MPI of `program`, and that MPI."""
    files = _mpi4py(program) if _PYTHON.fullmatch(program.name) else iter([program])
    if "MPI4PY_LIBMPI" in environment or "MPI4PY_MPIABI" in environment:  # they know what they do
        files = iter([program])
    return next(((file, mpi) for file in files if (mpi := mpi_of(file))), (program, None))


def _mpi4py(interpreter: Path) -> Iterator[Path]:
    """Yield what tells the MPI of the mpi4py in the environment of `interpreter`.

    It is built for one, or a wheel that takes the library beside it (`pip install mpich`), else the system's.
    """
    libraries = interpreter.parent.parent / "lib"
    yield from libraries.glob("python3*/site-packages/mpi4py/MPI.cpython-*.so")
    yield from libraries.glob("libmpi.so.*")
