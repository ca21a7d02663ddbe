"""A daemon as users run it: a process of its own, with its sockets in a directory of the test.

And a real libscr, where there is one: $SCR_ROOT, or wherever scrtune finds it.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from scrtune.client.paths import JobPaths
from scrtune.client.transport import wire
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.daemon.views import ExplainView, GoodputView, StatusView
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event

PATIENCE_S = 120.0
_NUMBERS = itertools.count()
_KINDS = {
    "status": StatusView,
    "explain": ExplainView,
    "goodput": GoodputView,
    "recommendation": Advice,
}

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and printed tables honour it
os.environ.pop("PYTHONUNBUFFERED", None)  # users do not have it: what they print is written at the end

# Machines are shared and busy: how long an example took says nothing of what it tests.
settings.register_profile(
    "fixed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, max_examples=40
)
# `make test-random`: what it finds becomes an @example of the test.
settings.register_profile(
    "random", settings.get_profile("fixed"), derandomize=False, max_examples=1000, print_blob=True
)
settings.load_profile("fixed")


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Keep Hypothesis from drawing the constants of those modules of ours that happen to be imported.

    Which these are depends on the tests that ran before, and on where the checkout lies.
    """
    if settings().derandomize and hasattr(providers, "is_local_module_file"):
        providers.is_local_module_file = lambda _path: False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell started us in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each reason for which tests were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED {count}: {reason}")


class RealDaemon:
    """`scrtune daemon` of job ``j``: start it, push to it, ask it, end it."""

    def __init__(self, base: Path) -> None:
        self.paths = JobPaths.of("j", base=base)
        self.output = base.parent / f"{base.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._push = self._context.socket(zmq.PUSH)
        self._push.connect(self.paths.events_endpoint)
        self._sequence = 0

    def spawn(self, *options: str, command: tuple[str, ...] = ("-m", "scrtune")) -> subprocess.Popen[bytes]:
        """Start the process and do not wait for it."""
        environment = {**os.environ, "SCRTUNE_RUN_DIR": str(self.paths.base)}
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, *command, "daemon", "--job-id", "j", *options],
                stderr=output,
                env=environment,
            )
        return self.process

    def start(self, *options: str, **kwargs: Any) -> "RealDaemon":
        """Start the process; returns when it answers."""
        process = self.spawn(*options, **kwargs)
        until(lambda: process.poll() is not None or self.answers())
        assert process.poll() is None, self.log()
        return self

    def answers(self) -> bool:
        if not Path(self.paths.control_endpoint.removeprefix("ipc://")).exists():
            return False  # ZeroMQ would look for it again only after a tenth of a second
        with contextlib.suppress(DaemonUnavailable):
            return not ask_daemon(self.paths.control_endpoint, "status", 0.2).error
        return False

    def view(self, command: str) -> Any:
        """What the daemon answers to `command`, decoded."""
        answer = ask_daemon(self.paths.control_endpoint, command, PATIENCE_S)
        assert not answer.error, answer.error
        return msgspec.json.decode(answer.result, type=_KINDS[command])

    def push(self, *messages: bytes) -> None:
        for message in messages:
            self._push.send(message)

    def tell(self, *events: Event) -> None:
        """Push events, each in an envelope of its own."""
        for event in events:
            self.push(wire.encode(sender="test", sequence=self._sequence, events=(event,)))
            self._sequence += 1

    def forget_job(self) -> None:
        """Take the journal away: the next daemon is another job's, to which every sender is new."""
        self.paths.journal.unlink()
        self._sequence = 0

    def hand_over(self) -> None:
        """Wait until the system has all that was pushed so far, and connect anew."""
        self._push.close(linger=int(1000 * PATIENCE_S))
        self._context.term()
        self._context = zmq.Context()
        self._push = self._context.socket(zmq.PUSH)
        self._push.connect(self.paths.events_endpoint)

    def until_events(self, count: int) -> StatusView:
        """Wait until the pipeline has seen `count` events."""
        until(lambda: self.view("status").counters.events >= count)
        return self.view("status")

    def end(self, number: int) -> int:
        """Send a signal; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        return self.output.read_text()

    def close(self) -> None:
        self._context.destroy(linger=0)
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.paths.trace_directory.parent, ignore_errors=True)


def until(happened: Callable[[], object], what: str = "it", limit_s: float = PATIENCE_S) -> None:
    """Wait until it happens; a test that waits in vain fails."""
    deadline_s = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline_s, f"{what}: not within {limit_s:.0f} s"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _no_earlier_jobs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job of another test, and none of the user's, is remembered; no defaults of the user's count."""
    state = tmp_path_factory.getbasetemp() / f"state-{next(_NUMBERS)}"  # made when something is kept
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(state / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(state / "cache"))


@pytest.fixture
def real_daemon(tmp_path: Path) -> Iterator[RealDaemon]:
    """A daemon that is not started yet; it is ended with the test."""
    daemon = RealDaemon(tmp_path / "r")
    yield daemon
    daemon.close()


@pytest.fixture
def system_conf(tmp_path: Path) -> Path:
    """Where the system's config file of an SCR in tmp_path/bin lies; it is not there yet."""
    program = tmp_path / "bin" / "scr_index"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "scr.conf"


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Bounded waiting."""
    return until


LOAD = """
import os, sys
from mpi4py import MPI
from scrtune.client.libscr.find import LibscrUnavailable, find_libscr
from scrtune.client.libscr.library import Library
try:
    path = find_libscr(os.environ)
    print(path if sys.argv[1] == "find" else Library(path) and "loaded")
except LibscrUnavailable as error:
    sys.exit(str(error))
"""
NODE = """
node=$((${PMI_RANK:-$OMPI_COMM_WORLD_RANK} * $1 / $2)); base=$3; shift 3
mkdir -p "$base/node$node" "$base/cache"
exec unshare --uts --mount sh -c 'hostname n$0; mount --bind "$1/node$0" "$1/cache"; shift; exec "$@"' \
    $node "$base" "$@"
"""
"""One rank in a UTS namespace with its node's name, and with its node's cache mounted."""


def simulated_nodes(base: Path, ranks: int, nodes: int) -> tuple[str, ...]:
    """What to put before the command of a rank, for `nodes` nodes with caches below `base`."""
    if subprocess.run(["unshare", "--uts", "--mount", "true"], check=False).returncode:
        pytest.skip("to simulate nodes needs unshare --uts --mount, which needs root")
    return ("sh", "-c", NODE, "node", str(nodes), str(ranks), str(base))


@dataclass(frozen=True)
class RealScr:
    """The libscr at `path`; it can be loaded by a process with :meth:`environment`."""

    path: Path

    def environment(self, base: Path, **variables: str) -> dict[str, str]:
        """For an application whose prefix directory, cache and control directory are below `base`.

        One of `variables` that is empty is left out.
        """
        for name in ("prefix", "cache"):
            (base / name).mkdir(parents=True, exist_ok=True)
        libraries = [str(self.path.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        own = {k: v for k, v in os.environ.items() if not k.startswith(("SCR", "DFTRACER", "SLURM"))}
        wanted = {
            **own,
            "USER": "tester",
            "SCR_ROOT": str(self.path.parent.parent),
            "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
            "SCR_PREFIX": str(base / "prefix"),
            "SCR_CACHE_BASE": str(base / "cache"),
            "SCR_CNTL_BASE": str(base / "cache"),
            **variables,
        }
        return {name: value for name, value in wanted.items() if value}

    def mpiexec(
        self, base: Path, ranks: int, *command: str, nodes: int = 0, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run `command` on `ranks` ranks, as if on `nodes` nodes if given: the cache of each is ``nodeN``."""
        if nodes:
            command = (*simulated_nodes(base, ranks, nodes), *command)
        return subprocess.run(
            [Path(sys.executable).parent / "mpiexec", "-n", str(ranks), *command],
            env=self.environment(base, **variables),
            cwd=base / "prefix",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture(scope="session")
def libscr(tmp_path_factory: pytest.TempPathFactory) -> RealScr:
    """A real libscr that loads next to mpi4py's MPI; skips with the reason where there is none."""

    def ask(what: str, environment: dict[str, str]) -> str:
        command = [sys.executable, "-c", LOAD, what]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if ran.returncode:
            pytest.skip(ran.stderr.strip().partition(". ")[0][-200:])
        return ran.stdout.strip()

    scr = RealScr(Path(ask("find", dict(os.environ))))
    ask("load", scr.environment(tmp_path_factory.mktemp("scr")))
    return scr
