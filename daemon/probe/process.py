"""The probe as a process: nothing of it runs in the daemon's thread, where ranks may wait for an answer."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from ...intents.events import StorageProbed, StorageTargetsObserved

Probed = TypeVar("Probed", bound=StorageProbed | StorageTargetsObserved)

LIMIT_S = 10.0
"""On a node whose CPUs are all busy a probe takes up to two seconds, most of which it waits."""

_KILL_LIMIT_S = 0.1
_MOST_OUTPUT_BYTES = 65_536


class ProbeProcess(Generic[Probed]):
    """A `script` beside this file, in an interpreter that loads no packages, `limit_s` seconds at most.

    It writes fields of its `result`.
    """

    def __init__(self, host: str, script: str, result: type[Probed], limit_s: float = LIMIT_S) -> None:
        self._host, self._script, self._result = host, script, result
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._end_s = 0.0

    @property
    def is_running(self) -> bool:
        """Return whether its result is still to be taken."""
        return self._process is not None

    def start(self, directory: str, now: float, *more: str) -> Probed | None:
        """Begin to look at `directory`; return a result, of the time `now`, if it cannot."""
        if not Path(directory).is_absolute():
            return self._of(now, problem=f"{directory}: not an absolute path")
        # as a file, not as a module of the package: that would be imported, with msgspec and what it needs
        command = [sys.executable, "-I", "-S", self._script, directory, *more]
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self._end_s = time.monotonic() + self._limit_s
        try:
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            return self._of(now, problem=f"{directory}: {error}")
        return None

    def take(self, now: float) -> Probed | None:
        """Return the result, of the time `now`, when the process has ended or its time is over."""
        process = self._process
        if process is None or (process.poll() is None and time.monotonic() < self._end_s):
            return None
        fields, problems = _parsed(process)
        if process.returncode is None:
            problems.append(f"it had not ended after {self._limit_s:g} s")
        elif process.returncode:
            problems.append(f"it ended with {process.returncode}")
        self.close()
        return self._of(now, problem="; ".join(problems), **fields)

    def close(self) -> None:
        """End the process if it still runs. Its file has no name: it goes with the process."""
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # it hangs in the file system: nobody waits for it
                self._process.wait(_KILL_LIMIT_S)
            self._process = None

    def _of(self, now: float, **fields: str) -> Probed:
        return msgspec.convert({**fields, "host": self._host, "time_s": now}, self._result, strict=False)


def _parsed(process: "subprocess.Popen[bytes]") -> tuple[dict[str, str], list[str]]:
    """Return what the process has written so far: fields with their values, and problems."""
    fields, problems = {}, []
    if process.stdout is not None:
        with process.stdout as output:
            os.set_blocking(output.fileno(), False)
            text = (output.read(_MOST_OUTPUT_BYTES) or b"").decode("utf-8", "replace")
        for entry in text.split("\0")[:-1]:
            name, _, value = entry.partition("=")
            if name == "problem":
                problems.append(value)
            else:
                fields[name] = value
    return fields, problems
