"""What is installed: a package missing from setup.cfg works when editable and is absent from the wheel."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _tracked() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    source = target / "source"
    for name in _tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(target), str(source)]
    subprocess.run(command, check=True, timeout=110)
    return zipfile.ZipFile(next(target.glob("scrtune-*.whl")))


def test_the_wheel_holds_the_listed_packages_with_their_data_the_library_and_nothing_else(
    wheel: zipfile.ZipFile,
) -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    folders = {Path(*package.split(".")[1:]).as_posix() for package in config["options"]["packages"].split()}
    expected = {
        f"scrtune/{name}"
        for name in _tracked()
        if Path(name).parent.as_posix() in folders and Path(name).suffix in {".py", ".json", ".j2", ".typed"}
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name and not name.endswith(".so")}
    assert found == expected - {"scrtune/setup.py"}
    libraries = {name for name in wheel.namelist() if name.endswith(".so")}
    assert libraries <= {"scrtune/client/libscr/libscrtune.so"}


def test_every_folder_of_modules_is_a_listed_package(wheel: zipfile.ZipFile) -> None:
    outside = {"benchmarks", "native", "tests"}
    modules = {Path(name) for name in _tracked() if name.endswith(".py")}
    rooms = {path for path in modules if path.parts[0] not in outside and path != Path("setup.py")}
    assert {f"scrtune/{path.as_posix()}" for path in rooms} <= set(wheel.namelist())


def test_the_command_and_the_licence_are_there(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert "scrtune = scrtune.cli.main:main" in wheel.read(entry_points).decode()
    assert any(name.endswith("LICENSE") for name in names)


def test_an_mpi_is_installed_only_where_it_is_asked_for(wheel: zipfile.ZipFile) -> None:
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    lines = wheel.read(metadata).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist: mpich")]
    assert len(required) == 1
    assert "extra ==" in required[0], "its mpiexec would hide the system's"
    assert any(line.startswith("Requires-Dist: mpi4py") and "extra" not in line for line in lines)
