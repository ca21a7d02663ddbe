"""What the account of a long job costs: cold, for one more event, in memory; beside ml-goodput-measurement.

    python benchmarks/goodput_ledger.py --install          # fetches the peer from PyPI, for this run
    python benchmarks/goodput_ledger.py --peer PYTHON      # one that has it already
    python benchmarks/goodput_ledger.py                    # ours alone

Both are told the same job by their own recorders' words, each in a process of its own, one after the other;
telling is not counted for the peer, and is for us. Ours is the median of three processes; the peer, which
takes minutes, has one. Targets: cold >= 20 times faster, one more event <= 1 ms, <= 1/5
of the memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from peer.long_log import long_log

from scrtune.goodput.events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    RestartCompleted,
    StepStarted,
)
from scrtune.goodput.ledger import Ledger

HERE = Path(__file__).parent
PEER = "ml-goodput-measurement==0.2.3"
CHUNK = 65_536
KINDS = {"init": "device_init", "prep": "training_prep", "load": "data_loading", "custom": "custom"}


def events(steps: int, *, full: bool) -> Iterator[GoodputEvent]:
    """The long job as our events."""
    for told in long_log(steps, full=full):
        match told:
            case "job_start", start:
                yield JobStarted(time_s=start)
            case "job_end", end:
                yield JobEnded(time_s=end, exit_code=0)
            case "step", step, start:
                yield StepStarted(step=step, time_s=start)
            case "save", _, start, seconds:
                yield Interval(kind="checkpoint_save", start_s=start, end_s=start + seconds)
            case "restore", step, start, seconds:
                yield RestartCompleted(dataset=step, name=f"{step}", start_s=start, end_s=start + seconds)
            case kind, start, end:
                yield IntervalStarted(kind=KINDS[kind], time_s=start)
                yield IntervalEnded(kind=KINDS[kind], time_s=end)


def measure(steps: int, *, full: bool) -> dict[str, Any]:
    """What it costs us. The log comes in pieces, as from a file; making them is not counted."""
    Ledger().account(0.0)  # loads numpy: of the peer, what it loads is not counted either
    ledger = Ledger(remembered=None)
    log, count, cold_s, now_s = events(steps, full=full), 0, 0.0, 0.0
    while chunk := list(islice(log, CHUNK)):
        count += len(chunk)
        began_s = time.perf_counter()
        ledger.extend(chunk)
        cold_s += time.perf_counter() - began_s
        now_s = getattr(chunk[-1], "time_s", now_s)
    began_s = time.perf_counter()
    account = ledger.account(now_s)
    cold_s += time.perf_counter() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert abs(sum(account.buckets.values()) - account.wall_s) < 1e-3
    return {
        "events": count,
        "cold_s": cold_s,
        "more_s": one_more(ledger, steps, now_s),
        "peak_mib": peak_mib,
        "window_s": one_window(ledger, now_s),
    }


def one_more(ledger: Ledger, steps: int, now_s: float) -> float:
    """Median of a hundred times one more event and a new account."""
    took_s = []
    for more in range(100):
        began_s = time.perf_counter()
        ledger.handle(StepStarted(step=steps + more, time_s=now_s + 1.5 * more))
        ledger.account(now_s + 1.5 * more)
        took_s.append(time.perf_counter() - began_s)
    return median(took_s)


def one_window(ledger: Ledger, now_s: float) -> float:
    """Median of windows of an hour, each one later than the last."""
    took_s = []
    for hour in range(100, 0, -1):
        began_s = time.perf_counter()
        ledger.window(now_s - 3600 * hour, now_s - 3600 * (hour - 1), now_s)
        took_s.append(time.perf_counter() - began_s)
    return median(took_s)


def asked(command: list[Any]) -> dict[str, Any]:
    """What another process measured."""
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def compare(steps: int, python: str | None) -> bool:
    """Measure both on both logs; returns whether every target is met."""
    met = True
    for log in ("plain", "full"):
        rounds = [
            asked([sys.executable, __file__, "--steps", str(steps), "--measure", log]) for _ in range(3)
        ]
        mine = {name: median(each[name] for each in rounds) for name in rounds[0]}
        print(
            f"{log}: {mine['events']} events: cold {mine['cold_s']:.2f} s"
            f" ({1e6 * mine['cold_s'] / mine['events']:.2f} us an event), one more event"
            f" {1e3 * mine['more_s']:.2f} ms, a window {1e3 * mine['window_s']:.2f} ms,"
            f" peak {mine['peak_mib']:.0f} MiB",
            flush=True,
        )
        met &= mine["more_s"] <= 1e-3
        if python is None:
            continue
        peer = asked([python, HERE / "peer" / "cost.py", str(steps), log])
        faster, smaller = peer["cold_s"] / mine["cold_s"], peer["peak_mib"] / mine["peak_mib"]
        print(
            f"  {PEER}: {peer['events']} entries: cold {peer['cold_s']:.2f} s, one more"
            f" {peer['more_s']:.2f} s, peak {peer['peak_mib']:.0f} MiB\n"
            f"  ratios: cold {faster:.0f} times faster (target 20), one more event"
            f" {peer['more_s'] / mine['more_s']:.0f} times faster, memory 1/{smaller:.1f} (target 1/5)",
            flush=True,
        )
        met &= faster >= 20 and smaller >= 5
    return met


def main() -> int:
    """Compare; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--peer", metavar="PYTHON", help="a python that has the peer installed")
    parser.add_argument("--install", action="store_true", help=f"install {PEER} from PyPI for this run")
    parser.add_argument("--measure", choices=("plain", "full"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.steps, full=options.measure == "full")))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        python = options.peer
        if options.install:
            venv.create(directory, with_pip=True)
            python = str(Path(directory) / "bin" / "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
        if python is None:
            print(f"not compared with {PEER}: give --install to fetch it from PyPI, or --peer")
        return 0 if compare(options.steps, python) else 1


if __name__ == "__main__":
    sys.exit(main())
