"""What the account of a long job costs: cold, for one more event, in memory; beside ml-goodput-measurement.

    python benchmarks/goodput/ledger.py --install          # fetches the peer from PyPI, for this run
    python benchmarks/goodput/ledger.py --peer PYTHON      # one that has it already
    python benchmarks/goodput/ledger.py                    # ours alone

Both are told the same jobs (peer/long_log.py). Cold is from the log in memory, in the form that each one's
own recorder writes, to the first account with all buckets: of ours from event objects that come 64 thousand
at a time, of the peer's from a list of entries. Making the events is not counted for either, nor loading
libraries; taking them in is. One more event is a step's start and the account after it: of ours the median
of a hundred. Each measurement has a process of its own; ours and the peer's alternate, and the best of as
many rounds of each counts (two, where the peer takes more than a minute).

Targets: cold >= 20 times faster, one more event <= 1 ms, <= 1/5 of the memory.
"""

import argparse
import json
import os
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

from peer.long_log import LOGS, Mix, long_log

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
from scrtune.goodput.ledger.ledger import Ledger

HERE = Path(__file__).parent
PEER = "ml-goodput-measurement==0.2.3"
CHUNK = 65_536
ROUNDS, ROUNDS_OF_LONG = 3, 2
A_MINUTE_S = 60.0
SHARES = {"plain": 1.0, "many kinds": 1.0, "many restarts": 0.1}
"""How many of the steps each log has."""
FASTER, SMALLER, MORE_S = 20, 5, 1e-3
"""The targets."""
KINDS = {"init": "device_init", "prep": "training_prep", "load": "data_loading", "custom": "custom"}


def events(steps: int, mix: Mix) -> Iterator[GoodputEvent]:
    """The long job as our events."""
    for told in long_log(steps, mix):
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


def measure(steps: int, mix: Mix) -> dict[str, Any]:
    """What it costs us. The log comes in pieces, as from a file; making them is not counted."""
    Ledger().account(0.0)  # loads numpy: of the peer, what it loads is not counted either
    ledger = Ledger(remembered=None)
    log, count, cold_s, now_s = events(steps, mix), 0, 0.0, 0.0
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


def compare(log: str, steps: int, python: str | None) -> bool:
    """Measure both, in turns, and print what came out; returns whether every target is met."""
    own, others = [sys.executable, __file__], [python, HERE / "peer" / "cost.py"]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(asked([*own, "--measure", log, "--steps", str(steps)]))
        if python is not None:
            theirs.append(asked([*others, str(steps), log]))
            if theirs[-1]["cold_s"] > A_MINUTE_S and len(theirs) == ROUNDS_OF_LONG:
                break
    mine = best(ours)
    print(
        f"{log}, {steps:,} steps ({mine['events']:,} events), load {os.getloadavg()[0]:.1f},"
        f" best of {len(ours)}\n"
        f"  scrtune: cold {mine['cold_s']:.2f} s ({1e6 * mine['cold_s'] / mine['events']:.2f} us an event),"
        f" one more event {1e3 * mine['more_s']:.2f} ms, peak {mine['peak_mib']:.0f} MiB,"
        f" a window of an hour {1e3 * mine['window_s']:.2f} ms",
        flush=True,
    )
    if not theirs:
        return bool(mine["more_s"] <= MORE_S)
    peer = best(theirs)
    ratios = {name: peer[name] / mine[name] for name in ("cold_s", "more_s", "peak_mib")}
    print(
        f"  {PEER}: cold {peer['cold_s']:.2f} s ({1e6 * peer['cold_s'] / peer['events']:.1f} us an entry),"
        f" one more event {peer['more_s']:.2f} s, peak {peer['peak_mib']:,.0f} MiB\n"
        f"  ratios: cold {ratios['cold_s']:.0f} times faster (target {FASTER}), one more event"
        f" {ratios['more_s']:,.0f} times faster, memory 1/{ratios['peak_mib']:.1f} (target 1/{SMALLER})",
        flush=True,
    )
    return bool(mine["more_s"] <= MORE_S and ratios["cold_s"] >= FASTER and ratios["peak_mib"] >= SMALLER)


def best(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The least of each number."""
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def main() -> int:
    """Compare; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--peer", metavar="PYTHON", help="a python that has the peer installed")
    parser.add_argument("--install", action="store_true", help=f"install {PEER} from PyPI for this run")
    parser.add_argument("--log", choices=LOGS, action="append", help="only this one (may be given again)")
    parser.add_argument("--measure", choices=LOGS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.steps, LOGS[options.measure])))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        python = options.peer
        if options.install:
            venv.create(directory, with_pip=True)
            python = str(Path(directory) / "bin" / "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
        if python is None:
            print(f"not compared with {PEER}: give --install to fetch it from PyPI, or --peer")
        met = [compare(log, int(options.steps * SHARES[log]), python) for log in options.log or LOGS]
        return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
