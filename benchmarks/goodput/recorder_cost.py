"""What it costs an application to record one event, against ml-goodput-measurement and a list's append.

    python benchmarks/goodput/recorder_cost.py [--events 20000] [--work-us 200] [--peer-python PYTHON]

The three alternate in blocks, in one process and one run: a call of ours, the same call of the peer's
recorder with a logger that keeps entries in a list (the least that it can cost: its real one sends them to a
cloud), and an append to a list. Once the application works for --work-us between two events, as a training
loop does, once it records in a tight loop. Ours writes a real log file meanwhile. CPU is what the process
spent beyond its own work, by all its threads, per event.

The peer comes from PyPI: the benchmark runs in an environment that has ml-goodput-measurement 0.2.3 and
scrtune; without --peer-python one is made in a temporary directory (some 150 MB, once per run).
Target: <= 10 us p50.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEER = "ml-goodput-measurement==0.2.3"
TARGET_P50_US = 10.0
BLOCKS = 20


class InMemoryLogger:
    """What the peer's recorder takes in place of its cloud logger."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def write_cloud_logging_entry(self, entry: Any) -> None:
        """Keep it."""
        self.entries.append(entry)


def measure(calls: dict[str, Callable[[int], object]], events: int, work_us: float) -> dict[str, Any]:
    """p50 and p99 of each call, in microseconds, and what the process spent for each event."""
    taken_ns: dict[str, list[int]] = {name: [] for name in calls}
    spent_s = dict.fromkeys(calls, 0.0)
    step = 0
    for _ in range(BLOCKS):
        for name, call in calls.items():
            times = taken_ns[name]
            began_s, worked_ns = time.process_time(), 0
            for _ in range(events // BLOCKS):
                step += 1
                before_ns = time.perf_counter_ns()
                call(step)
                times.append(time.perf_counter_ns() - before_ns)
                if work_us:
                    worked_ns += busy(work_us)
            time.sleep(0.05)  # what waits for a thread is that thread's: here, and not in the next block
            spent_s[name] += time.process_time() - began_s - worked_ns / 1e9
    result = {}
    for name, times in taken_ns.items():
        times.sort()
        result[name] = {
            "p50_us": times[len(times) // 2] / 1e3,
            "p99_us": times[len(times) * 99 // 100] / 1e3,
            "cpu_us": max(0.0, spent_s[name]) / len(times) * 1e6,
        }
    return result


def busy(work_us: float) -> int:
    """Work for so long; returns the nanoseconds of this thread's CPU time that it took."""
    cpu_ns = time.thread_time_ns()
    until_ns = time.perf_counter_ns() + int(work_us * 1000)
    while time.perf_counter_ns() < until_ns:
        pass
    return time.thread_time_ns() - cpu_ns


def run(events: int, work_us: float) -> dict[str, Any]:
    """Measure all three; this process has the peer."""
    from ml_goodput_measurement import goodput  # noqa: PLC0415  only the environment with the peer has it

    from scrtune.client.recorder import Recorder  # noqa: PLC0415

    peers = goodput.GoodputRecorder("benchmark", "benchmark", True, InMemoryLogger())
    kept: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        ours = Recorder("benchmark", writer="rank0", log=Path(directory) / "log")
        ours.record_step_start_time(0)
        ours.flush()
        results = {
            "a step's start": {
                "scrtune": ours.record_step_start_time,
                "peer": peers.record_step_start_time,
                "list.append": kept.append,
            },
            "the start of a data load": {
                "scrtune": lambda _: ours.record_data_loading_start_time(),
                "peer": lambda _: peers.record_data_loading_start_time(),
                "list.append": kept.append,
            },
        }
        measured = {
            what: {
                "with work between": measure(calls, events, work_us),
                "tight loop": measure(calls, events, 0.0),
            }
            for what, calls in results.items()
        }
        recorded = ours.lost, ours.flush(10.0)
        ours.close()
    assert recorded == (0, True), "events were lost"
    return {"events": events, "work_us": work_us, "load": os.getloadavg()[0], "measured": measured}


def environment_with_peer(directory: Path) -> Path:
    """A Python that has the peer; scrtune and what it needs come from this one."""
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    python = directory / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", PEER], check=True)
    return python


def ask(python: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run this benchmark in the environment of `python`, with this one's packages behind its own."""
    own = [path for path in sys.path if path.endswith("-packages")]
    code = (
        "import runpy, site, sys; paths = sys.argv[1].split(':')\n"
        "for path in paths: site.addsitedir(path)\n"
        "sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    numbers = ["--events", str(options.events), "--work-us", str(options.work_us)]
    command = [python, "-W", "ignore", "-c", code, ":".join(own), __file__, "--inside", *numbers]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(said)
    return result


def main() -> int:
    """Print the table; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000, help="events of each kind")
    parser.add_argument("--work-us", type=float, default=200.0, help="work between two events")
    parser.add_argument("--peer-python", type=Path, help="a Python that has ml-goodput-measurement 0.2.3")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(run(options.events, options.work_us)))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        result = ask(options.peer_python or environment_with_peer(Path(directory)), options)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for what, paces in result["measured"].items():
            for pace, rows in paces.items():
                print(f"{what}, {pace} (load {result['load']:.1f})")
                table(rows)
    p50_us = [rows["scrtune"]["p50_us"] for paces in result["measured"].values() for rows in paces.values()]
    return max(p50_us) > TARGET_P50_US


def table(rows: dict[str, dict[str, float]]) -> None:
    """Print the three, and the ratios."""
    for name, row in rows.items():
        p50, p99, cpu = row["p50_us"], row["p99_us"], row["cpu_us"]
        print(f"  {name:12} p50 {p50:6.2f} us  p99 {p99:7.2f} us  CPU {cpu:6.2f} us")
    ours = rows["scrtune"]
    for name in ("peer", "list.append"):
        p50, p99 = (ours[key] / rows[name][key] for key in ("p50_us", "p99_us"))
        print(f"  ratio to {name}: p50 {p50:.2f}, p99 {p99:.2f}")


if __name__ == "__main__":
    sys.exit(main())
