"""What watching costs beside a job: the CPU time of the forwarder and the daemon for each event of DFTracer.

    python benchmarks/forwarder_cost.py [--json] [--lines 5000000] [--idle 20]

Lines of dftracer 2.2.0 (those of scan.py: POSIX calls of a real trace, amplified) are appended to a file on
tmpfs, which the real forwarder follows; it sends digests to the real daemon. Until that has counted all:

fast       as fast as they are taken
1 M/s      one million lines a second
raw lines  a tenth of them, sent to the daemon as they are, 256 a message, by a sender that has no digests;
           its own CPU time is not counted
idle       both, while no line comes; the share of a core that the forwarder takes

Targets: 0.2 us of CPU an event for both together, 0.2 % of a core for a forwarder without lines.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import msgspec
import psutil
import zmq
from scan import PREFIX, trace

from scrtune.client.paths import JobPaths
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.daemon.views import StatusView

TARGET_US = 0.2
TARGET_IDLE = 0.002
BLOCK_LINES = 100_000
MESSAGE_LINES = 256
MOST_WAITING_BYTES = 128 * 1024 * 1024
"""Of what the forwarder has not read yet: beyond 256 MiB it would skip lines."""
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Cost:
    """CPU microseconds of each process for one event."""

    forwarder_us: float
    daemon_us: float

    @property
    def both_us(self) -> float:
        """The sum."""
        return self.forwarder_us + self.daemon_us


class Watchers:
    """A daemon and a forwarder of a job whose traces are in `directory`."""

    def __init__(self, directory: Path, log_prefix: Path) -> None:
        self.paths = JobPaths.of("benchmark", base=directory / "run")
        environment = {**os.environ, "SCRTUNE_RUN_DIR": str(self.paths.base), "SCR_PREFIX": PREFIX}
        forward = ["forward", str(log_prefix), self.paths.events_endpoint]
        commands = (["daemon", "--job-id", "benchmark"], forward)
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "scrtune", *command], env=environment, stderr=subprocess.DEVNULL
            )
            for command in commands
        ]
        until(self.answers)
        time.sleep(1.0)  # what they import is no cost of an event

    def answers(self) -> bool:
        """Whether the daemon answers."""
        try:
            return bool(ask_daemon(self.paths.control_endpoint, "status", 0.2).result)
        except DaemonUnavailable:
            return False

    def counted(self) -> int:
        """Lines that have reached the daemon."""
        answer = ask_daemon(self.paths.control_endpoint, "status", PATIENCE_S)
        return msgspec.json.decode(answer.result, type=StatusView).counters.trace_lines

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds of daemon and forwarder so far."""
        daemon, forwarder = (sum(psutil.Process(each.pid).cpu_times()[:2]) for each in self.processes)
        return daemon, forwarder

    def close(self) -> None:
        """End both."""
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


@contextmanager
def watchers(directory: Path) -> Iterator[tuple[Watchers, Path]]:
    """A daemon and a forwarder beside the block, and the file that they follow."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        both = Watchers(Path(place), Path(place) / "app")
        try:
            yield both, Path(place) / "app-1.pfw"
        finally:
            both.close()


def until(happened: object) -> None:
    """Wait until `happened()`, without taking much of the CPU."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():  # type: ignore[operator]
        if time.monotonic() > deadline_s:
            sys.exit("the lines did not arrive")
        time.sleep(0.25)


def cost(both: Watchers, before: tuple[float, float], lines: int) -> Cost:
    """What `lines` lines have cost since `before`, when all of them have arrived."""
    until(lambda: both.counted() >= lines)
    daemon_s, forwarder_s = (now - then for now, then in zip(both.cpu_s(), before, strict=True))
    return Cost(round(1e6 * forwarder_s / lines, 4), round(1e6 * daemon_s / lines, 4))


def followed(directory: Path, blocks: list[bytes], lines_per_s: float) -> Cost:
    """The cost of lines that are appended to a file."""
    with watchers(directory) as (both, file):
        before, begun_s, lines = both.cpu_s(), time.monotonic(), 0
        with file.open("ab", buffering=0) as out:
            for block in blocks:
                out.write(block)
                lines += block.count(b"\n")
                time.sleep(max(0.0, begun_s + lines / lines_per_s - time.monotonic()))
                while file.stat().st_blocks * 512 > MOST_WAITING_BYTES:
                    time.sleep(0.01)
        return cost(both, before, lines)


def pushed(directory: Path, blocks: list[bytes]) -> Cost:
    """The cost of lines that are sent to the daemon as they are."""
    with watchers(directory) as (both, _), zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.set_hwm(32)
        push.connect(both.paths.events_endpoint)
        before, lines = both.cpu_s(), 0
        for block in blocks:
            split = block.splitlines(keepends=True)
            lines += len(split)
            for start in range(0, len(split), MESSAGE_LINES):
                push.send(b"".join(split[start : start + MESSAGE_LINES]))
        return cost(both, before, lines)


def idle(directory: Path, seconds: float) -> Cost:
    """The shares of a core that both take with no lines, in place of microseconds."""
    with watchers(directory) as (both, file):
        file.touch()
        time.sleep(2.0)
        before = both.cpu_s()
        time.sleep(seconds)
        daemon_s, forwarder_s = (now - then for now, then in zip(both.cpu_s(), before, strict=True))
    return Cost(round(forwarder_s / seconds, 5), round(daemon_s / seconds, 5))


def blocks_of(lines: int) -> list[bytes]:
    """About that many lines, in blocks of whole lines."""
    block = trace(min(lines, BLOCK_LINES), "calls")
    return [block] * max(1, round(lines / block.count(b"\n")))


def show(result: dict[str, Cost]) -> None:
    """Print it for people."""
    print("us of CPU an event   forwarder   daemon   both")
    for name in ("fast", "1 M/s", "raw lines"):
        found = result[name]
        print(f"{name:20} {found.forwarder_us:9.3f} {found.daemon_us:8.3f} {found.both_us:6.3f}")
    ratio = result["raw lines"].both_us / result["1 M/s"].both_us
    print(f"digests cost 1/{ratio:.0f} of raw lines; target {TARGET_US} us")
    share = result["idle"]
    print(
        f"idle: forwarder {share.forwarder_us:.2%} of a core (target {TARGET_IDLE:.1%}),"
        f" daemon {share.daemon_us:.2%}; load {os.getloadavg()[0]:.1f}"
    )


@click.command(help=__doc__)
@click.option("--lines", default=5_000_000, show_default=True)
@click.option("--idle", "idle_s", default=20.0, show_default=True, help="Seconds without lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(lines: int, idle_s: float, as_json: bool) -> None:
    """Measure all of it, one after the other."""
    shared_memory = Path("/dev/shm")  # noqa: S108  tmpfs, as in a real run
    with tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as scratch:
        directory = Path(scratch)
        result = {
            "fast": followed(directory, blocks_of(lines), float("inf")),
            "1 M/s": followed(directory, blocks_of(lines), 1e6),
            "raw lines": pushed(directory, blocks_of(lines // 10)),
            "idle": idle(directory, idle_s),
        }
    if as_json:
        print(json.dumps({name: asdict(found) for name, found in result.items()}))
    else:
        show(result)


if __name__ == "__main__":
    main()
