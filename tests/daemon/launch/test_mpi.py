"""A launcher of one MPI and an application of another: found in their files, before anything is started."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scrtune.daemon.launch.mpi import Mpi, mpi_mismatch, mpi_of

from ...support.native_build import compiler, run

MPIEXEC = Path(sys.executable).with_name("mpiexec")
"""That of the mpich wheel."""


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with programs that need a library of an MPI: ``app.12``, ``app.40``, ``mpiexec``.

    Each makes the file that its first argument names.
    """
    place = tmp_path_factory.mktemp("linked")
    source = str(place / "program.c")
    Path(source).write_text(
        "#include <fcntl.h>\nint main(int n, char **words) { return n > 1 && creat(words[1], 0600) < 0; }\n"
    )
    needs = {"app.12": "libmpi.so.12", "app.40": "libmpi.so.40", "mpiexec": "libopen-rte.so.40"}
    for name, library in needs.items():
        needed = str(place / library)
        run(compiler(), "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", needed, source)
        run(compiler(), f"-Wl,--no-as-needed,-rpath,{place}", "-o", str(place / name), source, needed)
    return place


def environment_of(interpreter: Path, library: str, *, built: Path | None = None) -> Path:
    """Make an environment with `interpreter`, a library of an MPI, and perhaps an mpi4py that was `built`."""
    mpi4py = interpreter.parents[1] / "lib/python3.11/site-packages/mpi4py"
    for directory in (interpreter.parent, mpi4py):
        directory.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
    (mpi4py.parents[2] / library).write_bytes(b"a library")
    if built:
        shutil.copy(built, mpi4py / "MPI.cpython-311-x86_64-linux-gnu.so")
    return interpreter


def test_launchers_and_programs_are_known_by_what_they_need(linked: Path, tmp_path: Path) -> None:
    assert mpi_of(MPIEXEC) is mpi_of(linked / "app.12") is Mpi.MPICH
    assert mpi_of(linked / "mpiexec") is mpi_of(linked / "app.40") is Mpi.OPEN_MPI
    empty = tmp_path / "empty"
    empty.touch()
    for unknown in (Path(sys.executable), Path(shutil.which("sh") or ""), empty, tmp_path, tmp_path / "none"):
        assert mpi_of(unknown) is None


@pytest.mark.parametrize("which", ["mpiexec.openmpi", "mpiexec.mpich"])
def test_debians_launchers_are_known(which: str) -> None:
    path = shutil.which(which)
    if path is None:
        pytest.skip(f"needs {which} (Debian: openmpi-bin, mpich)")
    assert mpi_of(Path(path)) is (Mpi.OPEN_MPI if "openmpi" in which else Mpi.MPICH)


def test_a_program_under_another_mpis_launcher_is_said_with_the_launcher_that_fits(
    linked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"PATH": f"{MPIEXEC.parent}:{linked}"}
    app = str(linked / "app.40")
    told = mpi_mismatch(["mpiexec", "-n", "2", app, "-x"], environment)
    assert told.startswith(f"{MPIEXEC} is MPICH's, {app} is Open MPI's: ")
    assert told.endswith(f"Start them with {linked / 'mpiexec'}")
    told = mpi_mismatch(["mpiexec", "-n", "2", app], {"PATH": str(MPIEXEC.parent)})
    assert told.endswith("Start them with the mpiexec of Open MPI"), "none is on PATH"
    monkeypatch.chdir(linked)
    assert ", app.40 is Open MPI's" in mpi_mismatch(["mpiexec", "-n", "2", "./app.40"], environment)


def test_nothing_is_said_of_what_fits_or_is_not_known(linked: Path) -> None:
    environment = {"PATH": f"{MPIEXEC.parent}:{linked}"}
    app = str(linked / "app.12")
    for command in (
        ["mpiexec", "-n", "2", app],
        [str(linked / "mpiexec"), "-n", "2", str(linked / "app.40")],
        [app],
        ["srun", "-n", "2", app],
        ["mpiexec", "-n", "2", "sh", "-c", app],
        ["mpiexec", "-n", "2", "/nowhere/app"],
        ["mpiexec"],
    ):
        assert mpi_mismatch(command, environment) == ""


def test_of_python_its_mpi4py_counts(linked: Path, tmp_path: Path) -> None:
    environment = {"PATH": f"{linked}:{MPIEXEC.parent}"}
    wheels = environment_of(tmp_path / "wheel/bin/python3", "libmpi.so.12")
    told = mpi_mismatch(["mpiexec", "-n", "2", str(wheels), "train.py"], environment)
    library = wheels.parents[1] / "lib/libmpi.so.12"
    assert told.startswith(f"{linked / 'mpiexec'} is Open MPI's, {library} is MPICH's: ")
    assert told.endswith(f"Start them with {MPIEXEC}, or install mpi4py for Open MPI (docs/install.md)")
    command = ["mpiexec", "-n", "2", str(wheels), "train.py"]
    assert mpi_mismatch(command, {**environment, "MPI4PY_LIBMPI": "/opt/libmpi.so"}) == ""
    built = environment_of(tmp_path / "built/bin/python3", "libmpi.so.12", built=linked / "app.40")
    assert mpi_mismatch(["mpiexec", "-n", "2", str(built), "train.py"], environment) == ""


def test_scrtune_run_says_it_and_starts_the_job_all_the_same(linked: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scrtune", "run", "--trace", "off", "--", str(MPIEXEC), "-n", "1"]
    started = tmp_path / "started"
    ran = subprocess.run(
        [*command, str(linked / "app.40"), str(started)],
        env={**os.environ, "SCRTUNE_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"scrtune: {MPIEXEC} is MPICH's, {linked / 'app.40'} is Open MPI's: " in ran.stderr
    # not its exit code: of a program that ends at once MPICH's mpiexec may be killed by SIGPIPE (1 in 360)
    assert started.exists()
