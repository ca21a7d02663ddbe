"""What is installed: a folder missing from setup.cfg works when editable and is absent from the wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("client", "daemon", "examples", "goodput", "intents", "replay", "scr_config")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    source = target / "source"
    source.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in tracked.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(target), str(source)]
    subprocess.run(command, check=True, timeout=110)
    return zipfile.ZipFile(next(target.glob("scrtune-*.whl")))


def test_every_module_and_data_file_of_every_room_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    expected = {
        f"scrtune/{path.relative_to(ROOT)}"
        for room in ROOMS
        for path in (ROOT / room).iterdir()
        if path.suffix in {".py", ".json"} or path.name == "py.typed"
    }
    assert expected - set(wheel.namelist()) == set()


def test_nothing_but_scrtune_is_installed_at_the_top(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0].partition("-")[0] for name in wheel.namelist()} == {"scrtune"}


def test_there_is_no_package_above_the_rooms(wheel: zipfile.ZipFile) -> None:
    assert "scrtune/__init__.py" not in wheel.namelist()


def test_the_command_and_the_licence_are_there(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert "scrtune = scrtune.daemon.cli:main" in wheel.read(entry_points).decode()
    assert any(name.endswith("LICENSE") for name in names)
