"""A small program under DFTracer and libscrtune.so that says itself when an output begins and ends.

What a test gives is the program's text; `PRELUDE` has what it may call.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrtune.client.capture.environment import OBSERVE, capture_environment

PRELUDE = """
import ctypes, os, sys, time
from pathlib import Path

_library = ctypes.CDLL(None)
_library.scrtune_observe_close.restype = ctypes.c_size_t
DATA, OTHER, TRACE = (Path(text) for text in sys.argv[1:4])

def begin():
    _library.scrtune_observe_begin(os.fsencode(DATA))

def open_gate():
    _library.scrtune_observe_open()

def close_gate():
    cost_s = ctypes.c_double()
    calls = _library.scrtune_observe_close(ctypes.byref(cost_s))
    print(calls, cost_s.value, flush=True)

def deliver():
    _library.scrtune_observe_deliver()

def output(*written):
    open_gate()
    for name, times in written:
        write(DATA / name, times)
    close_gate()
    deliver()

def lines():
    return sum(path.read_bytes().count(b"\\n") for path in TRACE.glob("*.pfw"))

def write(path, times):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(times):
        os.write(fd, b"x" * 8)
    os.close(fd)
"""
OPEN_AND_CLOSE = 2


@dataclass(frozen=True)
class Traced:
    """What a program printed, and the lines of its trace and of its children's."""

    printed: list[str]
    lines: list[dict[str, Any]]

    def calls(self, path: Path) -> list[str]:
        """The names of the calls that were traced on `path`, in order."""
        return [line["name"] for line in self.lines_on(path)]

    def lines_on(self, path: Path) -> list[dict[str, Any]]:
        """The lines of the calls that were traced on `path`, in order."""
        metadata = [line for line in self.lines if line["name"] == "FH"]
        hashes = {line["args"]["value"] for line in metadata if line["args"]["name"] == str(path)}
        return [line for line in self.lines if line.get("args", {}).get("fhash") in hashes]

    def stream_bytes(self, path: Path) -> dict[str, int]:
        """The bytes that were traced on `path` through streams, by call."""
        moved: Counter[str] = Counter()
        for line in self.lines_on(path):
            if line["name"] in {"fread", "fwrite"}:
                moved[line["name"]] += line["args"]["ret"] * line["args"]["size"]
        return dict(moved)

    def writes(self, path: Path) -> int:
        """The writes that were traced on `path`."""
        return self.calls(path).count("write")


@dataclass(frozen=True)
class Program:
    """Programs with `library` preloaded. Files in `data` are traced, those in `other` are not."""

    library: Path
    base: Path
    core: Path | None = None
    """What is preloaded in DFTracer's stead, if anything."""

    @property
    def data(self) -> Path:
        """The directory that is traced."""
        return self.base / "data"

    @property
    def other(self) -> Path:
        """A directory that is not."""
        return self.base / "other"

    @property
    def trace(self) -> Path:
        """DFTracer's files."""
        return self.base / "trace"

    def environment(self, **more: str) -> dict[str, str]:
        """Return what `scrtune run` sets for a program on this node; an empty OBSERVE is unset."""
        for directory in (self.data, self.other, self.trace):
            directory.mkdir(exist_ok=True)
        own = {name: text for name, text in os.environ.items() if not name.startswith(("SCR", "DFTRACER"))}
        own.pop("LD_PRELOAD", None)
        live = capture_environment(self.trace / "trace", [self.data], "preload", own, gated=True)
        preloaded = f"{self.library}:{self.core or live['LD_PRELOAD']}"
        variables = {**own, **live, "LD_PRELOAD": preloaded, **more}
        return {name: text for name, text in variables.items() if (name, text) != (OBSERVE, "")}

    def run(self, text: str, **more: str) -> Traced:
        """Run Python code after the prelude to its end, and read its trace."""
        return self.execute(*self.python(text), **more)

    def python(self, text: str) -> tuple[str, str]:
        """Return the command of a program; DFTracer would write the text itself down, and cut it anywhere."""
        program = self.base / "program.py"
        program.write_text(PRELUDE + text)
        return sys.executable, str(program)

    def execute(self, *command: str, **more: str) -> Traced:
        """Run `command` to its end, and read its trace."""
        ran = self.start(*command, **more)
        assert ran.returncode == 0, (ran.returncode, ran.stderr)
        return self.traced(ran)

    def start(self, *command: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run `command`, with the three directories as its last arguments, to whatever end."""
        return subprocess.run(
            [*command, str(self.data), str(self.other), str(self.trace)],
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def traced(self, ran: "subprocess.CompletedProcess[str]") -> Traced:
        """Read the trace of what ran: a line that is not whole fails the test."""
        texts = [text for path in sorted(self.trace.glob("*.pfw")) for text in path.read_text().splitlines()]
        return Traced(ran.stdout.splitlines(), [json.loads(text) for text in texts])
