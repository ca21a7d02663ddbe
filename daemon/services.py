"""The two processes beside an application on its node: the daemon and the forwarder."""

import logging
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..client.advice import DaemonUnavailable, ask_daemon
from ..client.paths import JobPaths

log = logging.getLogger("scrtune.run")

READY_LIMIT_S = 20.0
_STOP_LIMIT_S = 10.0
_MOST_RESTARTS = 5
_KEEP_PIECES_S = 0.05


class NodeServices:
    """Starts both, restarts a daemon that was killed, ends both. The application never depends on either.

    The forwarder is a process of its own so that it keeps its place in the files while a daemon is restarted.
    """

    def __init__(self, paths: JobPaths, daemon_options: Sequence[str], *, follow: bool) -> None:
        self._paths = paths
        self._daemon_options = daemon_options
        self._follow = follow
        self._daemon: subprocess.Popen[bytes] | None = None
        self._forwarder: subprocess.Popen[bytes] | None = None
        self.restarts = 0

    def start(self) -> None:
        """Start both; returns when the daemon answers, or cannot (then the application runs untuned)."""
        self._paths.create()
        self._start_daemon()
        if self._follow:
            self._forwarder = self._spawn(
                "forward", str(self._paths.trace_prefix), self._paths.events_endpoint
            )
        deadline_s = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < deadline_s and self._daemon and self._daemon.poll() is None:
            if self.ready():
                return
            time.sleep(_KEEP_PIECES_S)
        log.warning("the daemon did not start; see %s. The application runs untuned.", self._paths.log)

    def ready(self) -> bool:
        """Whether the daemon answers."""
        try:
            ask_daemon(self._paths.control_endpoint, "status", limit_s=0.2)
        except DaemonUnavailable:
            return False
        return True

    def check(self) -> None:
        """Restart a daemon that has died; it goes on from its journal."""
        if self._daemon is None or self._daemon.poll() is None or self.restarts >= _MOST_RESTARTS:
            return
        self.restarts += 1
        log.warning("the daemon ended with %s; starting it again", self._daemon.returncode)
        self._start_daemon()

    def stop(self) -> None:
        """End both in the order of the data: what the forwarder has still reaches the daemon."""
        for process in (self._forwarder, self._daemon):
            if process is None or process.poll() is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._follow:
            shutil.rmtree(self._paths.trace_directory, ignore_errors=True)

    def _start_daemon(self) -> None:
        self._daemon = self._spawn("daemon", "--job-id", self._paths.job_id, *self._daemon_options)

    def _spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start one of our commands, in a session of its own: a Ctrl-C at the terminal is ours to handle."""
        with Path(self._paths.log).open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "scrtune.daemon", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
