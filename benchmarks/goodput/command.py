"""`scrtune goodput FILE` beside ml-goodput-measurement on the same file.

    python benchmarks/goodput/command.py --install          # fetches the peer from PyPI, for this run
    python benchmarks/goodput/command.py --peer PYTHON      # one that has it already
    python benchmarks/goodput/command.py                    # ours alone

Each run is a whole process, from its start to its exit: the CPU of all its threads, the wall time, the peak
of its memory. The file has the entries of ml-goodput-measurement's recorder, a JSON object a line; both read
it and print all buckets. The two alternate, and the least of as many rounds of each counts (one, where the
peer takes more than a minute).

Targets: CPU >= 10 times less, for many kinds of events >= 12; memory <= 1/4.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from peer.long_log import LOGS, Mix, long_log

HERE = Path(__file__).parent
PEER = "ml-goodput-measurement==0.2.3"
COMMAND = "from scrtune.cli.main import main; main()"
ROUNDS, A_MINUTE_S = 3, 60.0
SHARES = {"plain": 1.0, "many kinds": 1.0, "many restarts": 0.1}
"""How many of the steps each log has."""
FASTER = {"plain": 10, "many kinds": 12, "many restarts": 12}
SMALLER = 4
"""The targets."""
KEYS = {"init": "tpu_init", "prep": "training_prep", "load": "data_loading", "custom": "custom_badput_event"}
PARTS = {
    "save": ("wait_for_prev", "checkpointer_blocking", "get_old_steps", "checkpoint_manager_blocking"),
    "restore": ("checkpointer", "checkpoint_manager"),
}


class Cost(NamedTuple):
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mib: float


def entries(steps: int, mix: Mix) -> Iterator[dict[str, Any]]:
    """The long job as the peer's recorder, and Orbax, log it."""
    for told in long_log(steps, mix):
        match told:
            case ("job_start" | "job_end") as border, time_s:
                yield {f"{border}_time": time_s}
            case "step", step, time_s:
                yield {"step_count": step, "step_start_time": time_s}
            case ("save" | "restore") as kind, step, start_s, took_s:
                times = {f"{part}_start_time": start_s for part in PARTS[kind]}
                took = {f"{part}_duration_secs": took_s for part in PARTS[kind]}
                yield {"step": step, "event_type": kind, "directory": "gs://bucket/run", **times, **took}
            case kind, start_s, end_s:
                named = {"custom_badput_event_type": "eval"} if kind == "custom" else {}
                yield {**named, f"{KEYS[kind]}_start_time": start_s}
                yield {**named, f"{KEYS[kind]}_end_time": end_s}


def write(path: Path, steps: int, mix: Mix) -> int:
    """Write the log of the job; returns how many lines it has."""
    with path.open("w") as file:
        lines = (json.dumps({"job_name": "job", **entry}) + "\n" for entry in entries(steps, mix))
        return sum(file.write(line) > 0 for line in lines)


def cost(command: list[Any], environment: dict[str, str]) -> Cost:
    """Run a command to its end."""
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall_s = time.perf_counter() - began_s
    return Cost(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / 1024)


def compare(log: str, steps: int, python: str | None, directory: Path) -> bool:
    """Measure both, in turns, and print what came out; returns whether the targets are met."""
    path = directory / "log.jsonl"
    count = write(path, steps, LOGS[log])
    # byte code is kept, as of an installed package
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(directory / "pycache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    own = [sys.executable, "-c", COMMAND, "goodput"]
    cost([*own, "--help"], environment)
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(ROUNDS):
        ours.append(cost([*own, path], environment))
        if python is not None and not (theirs and theirs[0].wall_s > A_MINUTE_S):
            theirs.append(cost([python, HERE / "peer" / "cost.py", path], environment))
    size_mib = path.stat().st_size / 2**20
    print(f"{log}, {count:,} entries, {size_mib:.0f} MiB, load {os.getloadavg()[0]:.1f}")
    print(f"  scrtune: {text(ours)}", flush=True)
    if not theirs:
        return True
    faster, sooner, smaller = (there / here for here, there in zip(best(ours), best(theirs), strict=True))
    print(
        f"  {PEER}: {text(theirs)}\n"
        f"  ratios: CPU {faster:.1f} (target {FASTER[log]}), wall time {sooner:.1f},"
        f" memory {smaller:.1f} (target {SMALLER})",
        flush=True,
    )
    return faster >= FASTER[log] and smaller >= SMALLER


def best(rounds: list[Cost]) -> Cost:
    """The least of each number."""
    return Cost(*map(min, zip(*rounds, strict=True)))


def text(rounds: list[Cost]) -> str:
    """The least of each number, in words."""
    cost = best(rounds)
    return (
        f"CPU {cost.cpu_s:.2f} s, wall time {cost.wall_s:.2f} s, peak {cost.peak_mib:,.0f} MiB,"
        f" best of {len(rounds)}"
    )


def main() -> int:
    """Compare; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--peer", metavar="PYTHON", help="a python that has the peer installed")
    parser.add_argument("--install", action="store_true", help=f"install {PEER} from PyPI for this run")
    parser.add_argument("--log", choices=LOGS, action="append", help="only this one (may be given again)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory, python = Path(name), options.peer
        if options.install:
            venv.create(directory / "peer", with_pip=True)
            python = str(directory / "peer" / "bin" / "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
        if python is None:
            print(f"not compared with {PEER}: give --install to fetch it from PyPI, or --peer")
        met = [
            compare(log, int(options.steps * SHARES[log]), python, directory) for log in options.log or LOGS
        ]
        return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
