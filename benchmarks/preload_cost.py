"""What libscrtune.so adds to SCR_Start_output when nothing changed, against the same application without it.

    python benchmarks/preload_cost.py [--json] [--ranks 2] [--outputs 40] [--blocks 6]

Needs a C compiler and a real SCR ($SCR_ROOT, or where client/libscr/find.py looks). Runs with and without the
library alternate, each of `outputs` checkpoints of small files; the decision file is there, always the same.
The ratio is that of the first deciles on rank 0: the rest is how long SCR's own barriers wait for a core. The
library itself tells as well what it spends (apply_s). Target: less than 0.3 ms.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scrtune.client.libscr.find import LibscrUnavailable, find_libscr
from scrtune.client.libscr.library import WHY_NOT, libscrtune_path
from scrtune.intents.effects import Advice
from scrtune.scr_config.decision import decision_text

TARGET_MS = 0.3
APPLICATION = Path(__file__).parent.parent / "tests" / "apps" / "native_app.c"
PROGRAMS = Path(sys.executable).parent


def build(scr: Path, target: Path) -> Path:
    """The application of the tests on the libscr at `scr`."""
    lib = scr.parent
    options = (f"-I{lib.parent / 'include'}", f"-L{lib}", f"-Wl,-rpath-link,{lib}", "-lscr")
    subprocess.run([PROGRAMS / "mpicc", "-O1", "-o", target, APPLICATION, *options], check=True)
    return target


def environment(scr: Path, base: Path) -> dict[str, str]:
    """Of a job whose directories are below `base`."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("SCR")}
    (base / "prefix").mkdir(parents=True)
    return {
        **own,
        "USER": "benchmark",
        "LD_LIBRARY_PATH": f"{scr.parent}:{own.get('LD_LIBRARY_PATH', '')}",
        "SCR_PREFIX": str(base / "prefix"),
        "SCR_CACHE_BASE": str(base / "cache"),
        "SCR_CNTL_BASE": str(base / "cache"),
        "SCR_CACHE_BYPASS": "0",
        "SCR_FLUSH": "0",
    }


def decision(path: Path) -> Path:
    """A decision at `path` that says what is in force already."""
    path.write_text(decision_text(Advice(generation=1, settings={"SCR_FLUSH": 0})))
    return path


def start_ms(application: Path, ranks: int, outputs: int, variables: dict[str, str]) -> list[float]:
    """Milliseconds of each SCR_Start_output on rank 0, but for the first, which sets up directories."""
    command = [PROGRAMS / "mpiexec", "-n", str(ranks), application, str(outputs), "1", "1000"]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    lines = [line.split() for line in ran.stdout.splitlines() if line.startswith("out ")]
    pairs = [dict(pair.split("=", 1) for pair in line[2:]) for line in lines]
    return [float(pair["start_ms"]) for pair in pairs][1:]


def spent_ms(events: Path) -> Iterator[float]:
    """Milliseconds that the library says it has spent in each SCR_Start_output, but for the first."""
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for line in [line for line in lines if line["type"] == "output"][1:]:
        yield line["apply_s"] * 1000


def measure(scr: Path, library: Path, base: Path, options: argparse.Namespace) -> dict[str, object]:
    """Alternating runs without and with `library`."""
    application = build(scr, base / "application")
    without: list[float] = []
    with_it: list[float] = []
    spent: list[float] = []
    for block in range(options.blocks):
        for is_with in (block % 2 == 0, block % 2 == 1):
            place = base / f"{block}{is_with}"
            variables = environment(scr, place)
            if is_with:
                variables["SCRTUNE_DECISION_FILE"] = str(decision(place / "decision"))
                variables["SCRTUNE_EVENTS_FILE"] = str(place / "events")
                variables["LD_PRELOAD"] = str(library)
            (with_it if is_with else without).extend(
                start_ms(application, options.ranks, options.outputs, variables)
            )
            if is_with:
                spent.extend(spent_ms(place / "events"))
            shutil.rmtree(place)
    bare, tuned = (statistics.quantiles(times, n=10)[0] for times in (without, with_it))
    median_ms = statistics.median(spent)
    return {
        "ranks": options.ranks,
        "outputs": len(with_it),
        "without_ms": round(bare, 3),
        "with_ms": round(tuned, 3),
        "ratio": round(tuned / bare, 3),
        "added_ms": round(tuned - bare, 3),
        "spent_ms": round(median_ms, 4),
        "spent_p99_ms": round(statistics.quantiles(spent, n=100)[98], 4),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "target_ms": TARGET_MS,
        "target_met": median_ms < TARGET_MS,
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--outputs", type=int, default=40, help="checkpoints a run (default 40)")
    parser.add_argument("--blocks", type=int, default=6, help="pairs of runs (default 6)")
    options = parser.parse_args()
    library = libscrtune_path()
    if library is None:
        print(f"not measured: {WHY_NOT}")
        return
    try:
        scr = find_libscr(os.environ)
    except LibscrUnavailable as error:
        print(f"not measured: {error}")
        return
    with tempfile.TemporaryDirectory() as directory:
        result = measure(scr, library, Path(directory), options)
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['outputs']} outputs on {result['ranks']} ranks, with and without in turn")
    print(
        f"SCR_Start_output   without {result['without_ms']} ms   with {result['with_ms']} ms (first deciles)"
    )
    print(f"ratio              {result['ratio']}   ({result['added_ms']} ms more)")
    print(f"spent by itself    p50 {result['spent_ms']} ms   p99 {result['spent_p99_ms']} ms")
    print(f"load average       {result['load_average_1_min']}")
    print(f"target p50 < {TARGET_MS} ms: {'met' if result['target_met'] else 'MISSED'}")


if __name__ == "__main__":
    main()
