"""A command beside the daemon, looked at now and then: nothing of it holds up a turn of the loop."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

_MOST_BYTES = 8 * 1024 * 1024
_KILL_LIMIT_S = 0.1


class SideProcess:
    """One command at a time, `limit_s` seconds at most. Times are seconds of any clock that only grows."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._output = -1
        self._end_s = 0.0

    @property
    def is_running(self) -> bool:
        """Return whether its output is still to be taken."""
        return self._process is not None

    def start(self, command: Sequence[str], time_s: float, variables: Mapping[str, str] = os.environ) -> None:
        """Start `command` with `variables`, but for LD_PRELOAD. Raises OSError, and ValueError for a NUL."""
        environment = {name: value for name, value in variables.items() if name != "LD_PRELOAD"}
        output, self._end_s = os.memfd_create("scrtune"), time_s + self.limit_s
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, env=environment, start_new_session=True
            )
        except (OSError, ValueError):
            os.close(output)
            raise
        self._output = output

    def take(self, time_s: float) -> tuple[str, int | None] | None:
        """Return what it has printed, and its exit code (None: its time is over), once it is done."""
        process = self._process
        if process is None or (process.poll() is None and time_s < self._end_s):
            return None
        text, code = os.pread(self._output, _MOST_BYTES, 0).decode("utf-8", "replace"), process.returncode
        self.close()
        return text, code

    def close(self) -> None:
        """End what still runs."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended, and all that it started
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel: nobody waits for it
            self._process.wait(_KILL_LIMIT_S)
        self._process = None
        os.close(self._output)
