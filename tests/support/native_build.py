"""What the tests of libscrtune.so are made with: the C compiler, the library, decisions, an application."""

import json
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from scrtune.intents.effects import Advice
from scrtune.intents.events import Value
from scrtune.scr_config.decision import decision_text

ROOT = Path(__file__).parents[2]
STRICT = ("-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror")
SANITIZED = ("-O0", "-g", "-fno-sanitize-recover=all")  # optimized, they take four times as long to compile
POLITE_MPI = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1",
    "MPIR_CVAR_NOLOCAL": "1",
}
"""Ranks that wait leave the CPU to the others: there are more ranks than cores here."""


def compiler() -> str:
    """The C compiler; skips where there is none."""
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        pytest.skip("needs a C compiler (Debian: gcc and libc6-dev)")
    return found


def build_library(target: Path, *options: str) -> Path:
    """libscrtune.so from native/, with every warning an error."""
    run(compiler(), *STRICT, *options, "-shared", "-o", str(target), *library_sources(target.parent), "-ldl")
    return target


def library_sources(place: Path) -> tuple[str, ...]:
    """What the library is compiled of; its table of levers is made in `place`, as setup.py makes it."""
    table = runpy.run_path(str(ROOT / "native" / "levers_table.py"))["levers_table"]
    (place / "levers.inc").write_text(table(ROOT / "scr_config" / "parameters.json"))
    return (f"-I{place}", *(str(path) for path in sorted((ROOT / "native").rglob("*.c"))))


def build(target: Path, text: str, *options: str) -> Path:
    """A small program or library in C."""
    source = target.with_suffix(".c")
    source.write_text(text)
    run(compiler(), "-O1", "-Wall", "-o", str(target), str(source), *options)
    return target


def build_application(target: Path, libscr: Path, *options: str, library: str = "scr") -> Path:
    """tests/apps/native_app.c on a real SCR."""
    mpicc, lib = Path(sys.executable).parent / "mpicc", libscr.parent
    if not mpicc.exists() or not (lib.parent / "include" / "scr.h").is_file():
        pytest.skip("needs mpicc, and scr.h next to libscr")
    compiler()
    places = (f"-I{lib.parent / 'include'}", f"-L{lib}", f"-Wl,-rpath-link,{lib}")
    source = str(ROOT / "tests" / "apps" / "native_app.c")
    run(str(mpicc), "-O1", "-Wall", "-Wextra", *options, "-o", str(target), source, *places, f"-l{library}")
    return target


def run(*command: str) -> str:
    """The output of `command`; the test fails with what it said when it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def decision(generation: int, **settings: Value) -> str:
    """The text of a decision."""
    return decision_text(Advice(generation=generation, settings=settings))


A_DECISION = decision(
    12,
    SCR_COPY_TYPE="SINGLE",
    SCR_FILE_BUF_SIZE=8 << 20,
    SCRTUNE_FLUSH_CPUS="1,3-5",
    SCR_CHECKPOINT_OVERHEAD=2.5,
)


@dataclass(frozen=True)
class Told:
    """What an application printed: one dictionary an output; and what libscrtune.so told."""

    outputs: list[dict[str, str]]
    events: list[dict[str, object]]
    standard_error: str
    returncode: int

    @classmethod
    def of(cls, ran: "subprocess.CompletedProcess[str]", events: Path) -> "Told":
        """Read what was printed, and the file of events."""
        lines = [line.split()[2:] for line in ran.stdout.splitlines() if line.startswith("out ")]
        outputs = [dict(pair.split("=", 1) for pair in line) for line in lines]
        told = events.read_text().splitlines() if events.exists() else []
        return cls(outputs, [json.loads(line) for line in told if line], ran.stderr, ran.returncode)

    def column(self, name: str) -> list[str]:
        """One value of every output."""
        return [output[name] for output in self.outputs]

    def of_type(self, kind: str) -> list[dict[str, object]]:
        """The events of one type."""
        return [event for event in self.events if event["type"] == kind]

    def assert_sound(self, outputs: int) -> None:
        """All outputs are there, valid, and with the same settings on every rank."""
        assert self.returncode == 0, self.standard_error
        assert self.column("same") == ["1"] * outputs
        assert self.column("valid") == ["1"] * outputs
