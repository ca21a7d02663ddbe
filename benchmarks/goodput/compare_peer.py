"""Our compat API against ml-goodput-measurement itself, on random logs, number by number.

    python benchmarks/goodput/compare_peer.py --install        # an environment with the peer, from PyPI
    python benchmarks/goodput/compare_peer.py --python PATH    # one that has it already
    python benchmarks/goodput/compare_peer.py --python PATH --write tests/data/peer   # new golden results

Both sides get the same calls of the public recorder and the same questions to the public calculator, and
every number of every answer is compared. Without one of the first two options, it says so and does nothing.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from peer import ask
from peer.fixed_logs import fixed_logs
from peer.random_logs import NOW_S, random_log

from scrtune.goodput.compat import goodput, goodput_elastic

HERE = Path(__file__).parent
PEER = "ml-goodput-measurement==0.2.3"
TOLERANCE = 1e-9


class ListLogger:
    """A log in memory."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        """Add an entry."""
        self.entries.append(entry)

    def read_cloud_logging_entries(self, *_: Any, **__: Any) -> tuple[list[dict[str, Any]], None]:
        """All of them."""
        return self.entries, None


def ours(log: dict[str, Any]) -> dict[str, Any]:
    """What our compat API answers."""
    store = ListLogger()
    prefix = "Elastic" if log["elastic"] else ""
    module = goodput_elastic if log["elastic"] else goodput
    recorder = getattr(module, f"{prefix}GoodputRecorder")("job", "log", True, store)
    calculators: Callable[..., Any] = getattr(module, f"{prefix}GoodputCalculator")
    now = ask.dt.datetime.fromtimestamp(NOW_S, ask.UTC)
    with (
        mock.patch.object(goodput, "utc_now", return_value=now),
        mock.patch.object(goodput, "tell"),
    ):
        answers = ask.ask(
            log, recorder, store.write_cloud_logging_entry, lambda: calculators("job", "log", store)
        )
    answers_as_json: dict[str, Any] = json.loads(json.dumps(answers))
    return answers_as_json


def theirs(python: str, logs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the peer answers, and its version."""
    question = json.dumps({"now_s": NOW_S, "logs": logs})
    ran = subprocess.run(
        [python, HERE / "peer" / "driver.py"], input=question, stdout=subprocess.PIPE, text=True, check=True
    )
    answers: dict[str, Any] = json.loads(ran.stdout)
    return answers


def differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Where two answers differ, by path."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs)):
            if key in ours and key in theirs:
                yield from differences(ours[key], theirs[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}: only {'ours' if key in ours else 'theirs'}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(ours, float) and isinstance(theirs, float):
        if not math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{where}: {ours!r} against {theirs!r}"
    elif ours != theirs:
        yield f"{where}: {ours!r} against {theirs!r}"


def numbers(answer: Any) -> int:
    """How many numbers there are to compare."""
    if isinstance(answer, dict):
        return sum(map(numbers, answer.values()))
    return sum(map(numbers, answer)) if isinstance(answer, list) else 1


def install(directory: Path) -> str:
    """Make an environment with the peer; returns its python."""
    venv.create(directory, with_pip=True)
    python = str(directory / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
    return python


def compare(python: str, logs: list[dict[str, Any]]) -> bool:
    """Ask both sides about all logs; prints what differs. Returns whether nothing does."""
    began_s = time.perf_counter()
    peer = theirs(python, logs)
    peer_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    mine = [ours(log) for log in logs]
    mine_s = time.perf_counter() - began_s
    differing = 0
    for log, one, other in zip(logs, mine, peer["answers"], strict=True):
        found = list(differences(one, other))
        differing += bool(found)
        for difference in found[:5]:
            print(f"{log['name']}: {difference}")
    print(
        f"{len(logs)} logs, {sum(len(log['calls']) for log in logs)} entries, {sum(map(numbers, mine))} "
        f"numbers, {differing} logs differ from ml-goodput-measurement {peer['version']} "
        f"(it took {peer_s:.1f} s with its start, we {mine_s:.1f} s)"
    )
    return differing == 0


def write(python: str, directory: Path) -> None:
    """Have the peer answer about the fixed logs, and keep that as golden results."""
    logs = fixed_logs()
    peer = theirs(python, logs)
    names = {key: peer[key] for key in ("version", "signatures", "badput_types")}
    (directory / "api.json").write_text(json.dumps(names, indent=1) + "\n")
    for log, answers in zip(logs, peer["answers"], strict=True):
        golden = {"made_by": f"ml-goodput-measurement {peer['version']}", "now_s": NOW_S, **log}
        path = directory / f"log-{log['name']}.json"
        path.write_text(json.dumps({**golden, "answers": answers}, indent=1) + "\n")
        print(path)


def main() -> int:
    """Compare; the exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help=f"install {PEER} from PyPI for this run")
    parser.add_argument("--python", help="a python that has the peer installed")
    parser.add_argument("--logs", type=int, default=300, help="random logs to compare")
    parser.add_argument("--seed", type=int, default=0, help="number of the first random log")
    parser.add_argument("--write", type=Path, metavar="DIRECTORY", help="write golden results instead")
    options = parser.parse_args()
    if not options.python and not options.install:
        print("not compared: give --install to fetch the peer from PyPI, or --python")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        python = options.python or install(Path(directory))
        if options.write:
            write(python, options.write)
            return 0
        seeds = range(options.seed, options.seed + options.logs)
        return 0 if compare(python, fixed_logs() + [random_log(seed) for seed in seeds]) else 1


if __name__ == "__main__":
    sys.exit(main())
