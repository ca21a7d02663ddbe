"""How long the real daemon takes to answer, while it is idle and while it is busy.

    python benchmarks/daemon/daemon_latency.py [--json] [--seconds 6] [--lines-per-s 200000]

A daemon process is asked for its recommendation (`docs/wire.md`), first idle, then while a sender
pushes trace lines at the given rate as the forwarder does, 256 an envelope. Asks alternate in blocks with a
bare ZeroMQ REQ/REP round trip to a process that does nothing else: what this machine, as busy as it is right
now, takes at best. Target: p99 < 1 ms.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.daemon.views import StatusView

TARGET_P99_MS = 1.0
BLOCK = 20  # asks, then as many bare round trips
PAUSE_S = 0.002  # between two: an application does not ask all the time
START_LIMIT_S = 30.0

ECHO = """
import sys, zmq
socket = zmq.Context().socket(zmq.REP)
socket.bind(sys.argv[1])
while True:
    socket.send(socket.recv())
"""

SENDER = """
import os, sys, time, zmq
from scrtune.client.transport import wire
endpoint, rate, parent = sys.argv[1], float(sys.argv[2]), os.getppid()
line = '{{"id":{0},"name":"write","cat":"POSIX","type":3,"pid":{1},"tid":{1},"ts":{2},"dur":17,"ph":1,"args":'
line += '{{"hhash":"6882804a826580cd","ret":{3},"count":{3},"fhash":"{4:016x}"}}}}'
start_us = 1795252232000000
lines = [line.format(n, 15000 + n % 8, start_us + 40 * n, 320 << n % 12, n // 200) for n in range(25600)]
batches = ["\\n".join(lines[n : n + 256]).encode() + b"\\n" for n in range(0, len(lines), 256)]
socket = zmq.Context().socket(zmq.PUSH)
socket.set_hwm(32)
socket.connect(endpoint)
begun, sequence = time.monotonic(), 0
while os.getppid() == parent:
    while sequence * 256 < (time.monotonic() - begun) * rate:
        batch = batches[sequence % len(batches)]
        socket.send(wire.encode(sender="benchmark", sequence=sequence, lines=batch))
        sequence += 1
    time.sleep(0.001)
"""


@contextmanager
def process(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of ours, ended with the block."""
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL) as started:
        try:
            yield started
        finally:
            started.kill()


def lines_taken(paths: JobPaths) -> int:
    """Trace lines that the daemon has summed up."""
    answer = ask_daemon(paths.control_endpoint, "status", START_LIMIT_S)
    return msgspec.json.decode(answer.result, type=StatusView).counters.trace_lines


def round_trips(paths: JobPaths, echo: "zmq.Socket[bytes]", seconds: float) -> dict[str, Any]:
    """Milliseconds of asks and of bare round trips, in turns for `seconds`."""
    question = b'{"command":"recommendation"}'
    asks_ms: list[float] = []
    bare_ms: list[float] = []
    lines, begun_s = lines_taken(paths), time.perf_counter()
    with zmq.Context() as context, context.socket(zmq.REQ) as daemon:
        daemon.connect(paths.control_endpoint)
        while time.perf_counter() < begun_s + seconds:
            for socket, times_ms in ((daemon, asks_ms), (echo, bare_ms)):
                for _ in range(BLOCK):
                    started_s = time.perf_counter()
                    socket.send(question)
                    socket.recv()
                    times_ms.append((time.perf_counter() - started_s) * 1000)
                    time.sleep(PAUSE_S)
    lines_per_s = (lines_taken(paths) - lines) / (time.perf_counter() - begun_s)
    ask50, ask99, askmax = np.percentile(asks_ms, [50, 99, 100])
    bare50, bare99, baremax = np.percentile(bare_ms, [50, 99, 100])
    return {
        "asks": len(asks_ms),
        "lines_per_s": round(lines_per_s),
        "ask_ms": {"p50": round(ask50, 3), "p99": round(ask99, 3), "max": round(askmax, 3)},
        "bare_ms": {"p50": round(bare50, 3), "p99": round(bare99, 3), "max": round(baremax, 3)},
        "ratio": {"p50": round(ask50 / bare50, 2), "p99": round(ask99 / bare99, 2)},
        "target_met": bool(ask99 < TARGET_P99_MS),
    }


def measure(seconds: float, rate: float) -> dict[str, Any]:
    """A daemon of our own, idle and then busy."""
    with tempfile.TemporaryDirectory() as place, zmq.Context() as context, context.socket(zmq.REQ) as echo:
        paths = JobPaths.of("latency", base=Path(place) / "r")
        os.environ["SCRTUNE_RUN_DIR"] = str(paths.base)
        endpoint = f"ipc://{place}/echo"
        daemon = ("-m", "scrtune", "daemon", "--job-id", "latency")
        with process(*daemon), process("-c", ECHO, endpoint):
            wait_for(paths)
            echo.connect(endpoint)
            idle = round_trips(paths, echo, seconds)
            with process("-c", SENDER, paths.events_endpoint, str(rate)):
                time.sleep(1.0)  # until it is up to speed
                busy = round_trips(paths, echo, seconds)
        shutil.rmtree(paths.trace_directory.parent, ignore_errors=True)
    return {
        "target_p99_ms": TARGET_P99_MS,
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "idle": idle,
        "busy": busy,
    }


def wait_for(paths: JobPaths) -> None:
    """Return when the daemon answers."""
    deadline_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            ask_daemon(paths.control_endpoint, "status", 0.2)
        except DaemonUnavailable:
            if time.monotonic() > deadline_s:
                sys.exit("the daemon did not start")
        else:
            return


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=6.0, help="duration of each half (default 6)")
    parser.add_argument("--lines-per-s", type=float, default=200_000, help="load of the busy half")
    options = parser.parse_args()
    result = measure(options.seconds, options.lines_per_s)
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['cores']} cores, load average {result['load_average_1_min']}")
    for name in ("idle", "busy"):
        half = result[name]
        print(f"\n{name}: {half['lines_per_s']:,} lines/s, {half['asks']} asks")
        for what, label in (("ask_ms", "the daemon"), ("bare_ms", "bare REQ/REP")):
            print(
                f"  {label:<18}" + "".join(f"{key} {value:>7.3f} ms   " for key, value in half[what].items())
            )
        print(f"  {'ratio':<18}p50 {half['ratio']['p50']:>7}      p99 {half['ratio']['p99']:>7}")
        print(f"  target p99 < {TARGET_P99_MS} ms: {verdict(half)}")


def verdict(half: dict[str, Any]) -> str:
    """Whether the target was met, and if not, whether this machine could have met it at all."""
    if half["target_met"]:
        return "met"
    if half["bare_ms"]["p99"] >= TARGET_P99_MS:
        return "MISSED, but by a bare round trip as well: something else keeps this machine busy"
    return "MISSED"


if __name__ == "__main__":
    main()
