"""How long rank 0 looks at the decision before an output, against a bare stat and a bare read of the file.

    python benchmarks/advice_latency.py [--json] [--looks 5000]

A look at a decision that has not changed is compared with one stat of the file, a look at a new one with
reading the file. They alternate in blocks, in one run. Target: p99 < 0.1 ms for the unchanged one. The load
average is printed with it: on a machine that is busy p99 measures its scheduler.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from scrtune.intents.effects import Advice
from scrtune.scr_config.decision import DecisionFile, decision_text
from scrtune.scr_config.files import write_config

TARGET_P99_MS = 0.1
BLOCKS = 20
SETTINGS = {"SCR_FLUSH": 4, "SCR_FLUSH_ASYNC": 1, "SCR_COPY_TYPE": "XOR", "SCR_FILE_BUF_SIZE": 33554432}


def timed_ms(call: Callable[[], object], times: int) -> list[float]:
    """Return the milliseconds of each of `times` calls."""
    taken = []
    for _ in range(times):
        started_s = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started_s) * 1000)
    return taken


def measure(directory: Path, looks: int) -> dict[str, object]:
    """Return percentiles of the four, in milliseconds, and their ratios."""
    path = directory / "decision"
    write_config(path, decision_text(Advice(generation=3, settings=SETTINGS)))
    file = DecisionFile(path)
    file.look()
    calls: dict[str, Callable[[], object]] = {
        "unchanged": file.look,
        "stat": path.stat,
        "new": lambda: DecisionFile(path).look(),
        "read": path.read_bytes,
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(BLOCKS):
        for name, call in calls.items():
            taken[name] += timed_ms(call, max(1, looks // BLOCKS))
    p50, p99 = ({name: float(np.percentile(each, of)) for name, each in taken.items()} for of in (50, 99))
    return {
        "looks": len(taken["unchanged"]),
        "p50_ms": {name: round(value, 5) for name, value in p50.items()},
        "p99_ms": {name: round(value, 5) for name, value in p99.items()},
        "unchanged_to_stat": round(p50["unchanged"] / p50["stat"], 2),
        "new_to_read": round(p50["new"] / p50["read"], 2),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "target_p99_ms": TARGET_P99_MS,
        "target_met": p99["unchanged"] < TARGET_P99_MS,
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--looks", type=int, default=5000, help="number of looks (default 5000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(Path(directory), options.looks)
    if options.json:
        print(json.dumps(result))
        return
    p50, p99 = result["p50_ms"], result["p99_ms"]
    assert isinstance(p50, dict)
    assert isinstance(p99, dict)
    for name in p50:
        print(f"{name:<10} p50 {p50[name]:.5f} ms   p99 {p99[name]:.5f} ms")
    print(f"ratio      unchanged to stat {result['unchanged_to_stat']}   new to read {result['new_to_read']}")
    print(f"load average {result['load_average_1_min']}")
    print(f"target p99 < {TARGET_P99_MS} ms: {'met' if result['target_met'] else 'MISSED'}")


if __name__ == "__main__":
    main()
