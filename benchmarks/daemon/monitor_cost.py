"""What share of a core it takes to have a job watched, at one snapshot a second.

    python benchmarks/daemon/monitor_cost.py [--json] [--seconds 60] [--steps 50000] [--steps-per-s 10]

Two daemons get the same job side by side: one serves metrics and writes scalars and rows every second, the
other does nothing of that. Both first hear of --steps steps, then of so many a second. The share is what the
first spends beyond the second, by all its threads; a scrape a second is part of it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, Popen

import msgspec
import psutil

from scrtune.client.paths import JobPaths
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.client.transport.sender import Emitter
from scrtune.daemon.views import StatusView
from scrtune.goodput.events import JobStarted, OutputCompleted, StepCompleted
from scrtune.intents.events import Event

START_LIMIT_S = 120.0
STEP_S = 0.1
OUTPUT_EVERY = 100


def steps(first: int, count: int, began_s: float) -> Iterator[Event]:
    """Steps of a tenth of a second, and a checkpoint with every hundredth."""
    for step in range(first, first + count):
        start_s = began_s + step * STEP_S
        yield StepCompleted(step=step, start_s=start_s, end_s=start_s + 0.9 * STEP_S, writer="rank0")
        if step % OUTPUT_EVERY == 0:
            output_s = start_s + 0.9 * STEP_S
            yield OutputCompleted(
                dataset=step // OUTPUT_EVERY + 1,
                name=f"c{step}",
                start_s=output_s,
                end_s=output_s + 0.005,
                generation=0,
                write_s=0.005,
            )


def status(paths: JobPaths) -> StatusView:
    """What the daemon says of itself."""
    return msgspec.json.decode(ask_daemon(paths.control_endpoint, "status", 30.0).result, type=StatusView)


def wait_for(paths: JobPaths, events: int) -> None:
    """Return when the daemon has taken in so many events."""
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        try:
            if status(paths).counters.events >= events:
                return
        except DaemonUnavailable:
            pass
        time.sleep(0.1)
    sys.exit("the daemon does not get on")


def spent_s(process: "Popen[bytes]") -> float:
    """CPU seconds of a process so far."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Both daemons, one job."""
    began_s = time.time() - options.steps * STEP_S
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        os.environ["SCRTUNE_RUN_DIR"] = f"{place}/r"
        watched = ["--metrics", "0", "--tensorboard", f"{place}/tb", "--csv", f"{place}/g.csv"]
        daemons, emitters = [], []
        for name, more in (("watched", [*watched, "--monitor-every", "1"]), ("alone", [])):
            paths = JobPaths.of(name)
            command = [sys.executable, "-m", "scrtune", "daemon", "--until-eof", "--job-id", name, *more]
            daemons.append(
                (stack.enter_context(Popen(command, stdin=-1, stdout=DEVNULL, stderr=DEVNULL)), paths)
            )
            stack.callback(daemons[-1][0].terminate)
            wait_for(paths, 0)
            emitters.append(Emitter(paths.events_endpoint, queue_limit=1_000_000))
        first: list[Event] = [JobStarted(time_s=began_s, writer="rank0"), *steps(0, options.steps, began_s)]
        for emitter, (_, paths) in zip(emitters, daemons, strict=True):
            for event in first:
                emitter.emit(event)
            wait_for(paths, len(first))
        scraped = next(each.name for each in status(daemons[0][1]).monitors if "http" in each.name)
        url = scraped[scraped.index("http") :]
        time.sleep(2.0)
        before_s = [spent_s(process) for process, _ in daemons]
        begun_s = time.monotonic()
        for second in range(options.seconds):
            at = options.steps + second * options.steps_per_s
            for event in steps(at, options.steps_per_s, began_s):
                for emitter in emitters:
                    emitter.emit(event)
            urllib.request.urlopen(url, timeout=10).read()  # noqa: S310  our own daemon's
            time.sleep(max(0.0, begun_s + second + 1 - time.monotonic()))
        took_s = time.monotonic() - begun_s
        after_s = [spent_s(process) for process, _ in daemons]
        rows = Path(f"{place}/g.csv").read_text().count("\n")
    with_s, without_s = (after - before for after, before in zip(after_s, before_s, strict=True))
    return {
        "seconds": took_s,
        "rows": rows,
        "watched_percent": 100 * with_s / took_s,
        "alone_percent": 100 * without_s / took_s,
        "monitor_percent": 100 * (with_s - without_s) / took_s,
    }


def main() -> None:
    """Print the shares of a core."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=int, default=60, help="how long they run side by side")
    parser.add_argument("--steps", type=int, default=50_000, help="steps that the job has behind it")
    parser.add_argument("--steps-per-s", type=int, default=10, help="steps that it makes in a second")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
        return
    print(f"a job of {options.steps:,} steps, {options.steps_per_s} more a second, {result['seconds']:.0f} s")
    print(f"  daemon that is watched   {result['watched_percent']:6.2f} % of a core")
    print(f"  daemon that is not       {result['alone_percent']:6.2f} % of a core")
    print(f"  the monitor              {result['monitor_percent']:6.2f} % of a core")


if __name__ == "__main__":
    main()
