"""A job's daemons as on several nodes: processes of one machine with a host name each, on loopback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport import wire
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.daemon.views import ClusterView, ExplainView, StatusView
from scrtune.intents.events import Event

PATIENCE_S = 60.0
_AS_HOST = "import socket, sys; host = sys.argv.pop(1); socket.gethostname = lambda: host\n"
_DAEMON = _AS_HOST + "from scrtune.cli.main import main; main()"


def until(happened: Callable[[], object], what: str = "it", limit_s: float = PATIENCE_S) -> None:
    """Wait until it happens; a test that waits in vain fails."""
    deadline_s = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline_s, f"{what} did not happen within {limit_s:.0f} s"
        time.sleep(0.05)


class NodeDaemon:
    """`scrtune daemon --cluster` of job ``j`` as on the node `host`."""

    def __init__(
        self, base: Path, host: str, order: int, address: str = "127.0.0.1", within: tuple[str, ...] = ()
    ) -> None:
        """It listens at `address`, started by the command `within` (of a network of its own, say)."""
        self.host = host
        self._address, self._within = address, within
        self.paths = JobPaths.of("j", host, base / "r")
        self.output = base / f"{host}.log"
        self.conf = base / "shared" / "scr.conf"
        self._directory = base / "shared" / "cluster"
        self._order = order
        self._process: subprocess.Popen[bytes] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._push = self._context.socket(zmq.PUSH)
        self._push.connect(self.paths.events_endpoint)
        self._sequence = 0

    def spawn(self, *options: str) -> None:
        """Start it, or start it again."""
        environment = {
            **os.environ,
            "SCRTUNE_RUN_DIR": str(self.paths.base),
            "SCRTUNE_ADDRESS": self._address,
            "SLURM_NODEID": str(self._order),
        }
        command = [
            *self._within,
            sys.executable,
            "-c",
            _DAEMON,
            self.host,
            "daemon",
            "--job-id",
            "j",
            "--no-probe",
        ]
        command += ["--scr-conf", str(self.conf), "--cluster", str(self._directory), *options]
        self.conf.parent.mkdir(exist_ok=True)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(command, stderr=output, env=environment)

    def ready(self) -> "NodeDaemon":
        """Wait until it answers."""
        process = self._process
        assert process is not None
        until(lambda: process.poll() is not None or self.answers(), "an answer")
        assert process.poll() is None, self.log()
        return self

    def answers(self) -> bool:
        """Whether it can be asked."""
        try:
            return self.paths.control_socket.exists() and not self._ask("status", 0.5).error
        except DaemonUnavailable:
            return False

    def _ask(self, command: str, limit_s: float = PATIENCE_S) -> wire.Answer:
        return ask_daemon(self.paths.control_endpoint, command, limit_s)

    def error(self, command: str) -> str:
        """Why it does not do what it is asked."""
        return self._ask(command).error

    def view(self, command: str, kind: type[Any]) -> Any:
        """What it answers."""
        answer = self._ask(command)
        assert not answer.error, answer.error
        return msgspec.json.decode(answer.result, type=kind)

    @property
    def status(self) -> StatusView:
        """What it says of itself."""
        view: StatusView = self.view("status", StatusView)
        return view

    @property
    def explain(self) -> ExplainView:
        """Why the settings are what they are."""
        view: ExplainView = self.view("explain", ExplainView)
        return view

    @property
    def cluster(self) -> ClusterView:
        """What it says of the job's daemons."""
        found = self.status.cluster
        assert found is not None
        return found

    def tell(self, *events: Event, sender: str = "test") -> None:
        """Say events to it, as a process of its node."""
        for event in events:
            self._push.send(wire.encode(sender=sender, sequence=self._sequence, events=(event,)))
            self._sequence += 1

    def kill(self) -> None:
        """End it as a lost node does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """End it as Slurm does; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def log(self) -> str:
        """What it has logged."""
        return self.output.read_text()

    def close(self) -> None:
        """End all of it."""
        self._context.destroy(linger=0)
        self.kill()
