"""`scrtune run` in a working directory and a run directory of its own."""

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from scrtune.client.libscr.library import libscrtune_path
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import replay_journal
from scrtune.intents.pipeline import Pipeline

SHOW_ENVIRONMENT = (sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")
LIBRARY = [str(path)] if (path := libscrtune_path()) else []
needs_library = pytest.mark.skipif(not LIBRARY, reason="libscrtune.so was not built")
HOLD = "until [ -e let_go ]; do sleep 0.05; done"


@dataclass
class Place:
    """A working directory, a run directory of its own, and one job that runs there."""

    directory: Path
    base: Path
    job_id: str
    environment: dict[str, str] = field(default_factory=dict)
    started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    @property
    def paths(self) -> JobPaths:
        return JobPaths.of(self.job_id, base=self.base)

    def start(self, *command: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """`scrtune run` in the background."""
        process = subprocess.Popen(
            [sys.executable, "-m", "scrtune", "run", "--job-id", self.job_id, *options, "--", *command],
            cwd=self.directory,
            env={**os.environ, "SCRTUNE_RUN_DIR": str(self.base), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(
        self, *command: str, options: tuple[str, ...] = ("--trace", "off")
    ) -> "subprocess.CompletedProcess[str]":
        """`scrtune run` to its end, which must leave nothing behind."""
        return self.finish(self.start(*command, options=options))

    def finish(self, process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
        with process:
            output, errors = process.communicate(timeout=100)
        assert self.processes() == []
        assert not self.paths.trace_directory.exists()
        assert not self.paths.trace_directory.parent.exists()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def clean_up(self) -> None:
        """After a test that failed: end what it started."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=100)
        for process in self.processes():
            process.kill()

    def processes(self, name: str = "") -> list[psutil.Process]:
        """What runs with this run directory: daemon, forwarder, application."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_here = process.environ().get("SCRTUNE_RUN_DIR") == str(self.base)
                names = (f"scrtune-{name}"[:15], *process.cmdline()[3:4])  # a copy of `run`, or the command
                is_named = not name or name == names[-1] or process.name() == names[0]
                if is_here and process.status() != psutil.STATUS_ZOMBIE and is_named:
                    found.append(process)
        return found if name else [each for each in found if each.pid != os.getpid()]

    def replayed(self) -> Pipeline:
        return replay_journal(self.paths.journal)[0]


APPLICATION = """
import time
from scrtune.client.transport.sender import Emitter
from scrtune.client.paths import JobPaths
from scrtune.goodput.events import JobStarted, OutputCompleted, OutputStarted, StepCompleted

emitter, now = Emitter(JobPaths.of().events_endpoint), time.time()
emitter.emit(JobStarted(time_s=now - 0.2, ranks=1, nodes=1))
emitter.emit(StepCompleted(step=1, start_s=now - 0.2, end_s=now - 0.1))
emitter.emit(OutputStarted(dataset=1, name="c1", time_s=now - 0.1, generation=0))
emitter.emit(
    OutputCompleted(
        dataset=1, name="c1", start_s=now - 0.1, end_s=now, generation=0, bytes=1024, write_s=0.1
    )
)
emitter.close(10.0)
"""

IMPORTS = """
from scrtune.intents.declared import Declared
from scrtune.intents.events import SettingsObserved
"""
"""For events by their repr."""


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
