"""What `scrtune run` adds to a job at its start and its end: `scrtune run -- true` beside `true`.

    python benchmarks/start_cost.py [--rounds 10] [--seconds 1] [--tree NAME=DIR]... [--json]

Each round runs all variants once, forwards and backwards in turn, so that drift cancels:
    plain  `true` alone
    true   `scrtune run -- true`
    job    `scrtune run --` an application of `--seconds`, for what a job feels: the time until its first
           instruction, the CPU that scrtune has used by then (`CPU before`), and the time from its last
           instruction to the end of the command
CPU is that of the command and of all that it started and waited for. Medians; the ratio is to `plain`.
`--tree`, given twice, compares two trees of the package, round by round.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from statistics import median

TARGETS = {
    "cpu_s": 0.5,
    "cpu_until_application_s": 0.5,
    "until_application_s": 0.3,
    "after_application_s": 0.15,
}
APPLICATION = """
read -r ns _ </proc/$PPID/schedstat; stat=($(</proc/$PPID/stat)); waited_for=$((stat[15] + stat[16]))
echo $EPOCHREALTIME $ns $waited_for; read -t "$0" <> <(:); echo $EPOCHREALTIME
"""
"""scrtune's CPU is that of its one thread (ns) and of what it has waited for (ticks): no other runs yet."""


@dataclass(frozen=True)
class Ran:
    """One command: its seconds of CPU and wall time; those before and after its application, 0 if unknown."""

    cpu_s: float
    wall_s: float
    cpu_until_application_s: float = 0.0
    until_application_s: float = 0.0
    after_application_s: float = 0.0


def run(command: list[str], environment: dict[str, str]) -> Ran:
    """Run `command` to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s, clock_s = time.perf_counter(), time.time()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall_s, over_s = time.perf_counter() - began_s, time.time()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if not done.stdout:
        return Ran(cpu_s, wall_s)
    first_s, ns, ticks, last_s = map(float, done.stdout.split())
    before_s = ns / 1e9 + ticks / os.sysconf("SC_CLK_TCK")
    return Ran(cpu_s, wall_s, before_s, first_s - clock_s, over_s - last_s)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="default 10")
    parser.add_argument("--seconds", type=float, default=1.0, help="of the job's application (default 1)")
    parser.add_argument(
        "--tree",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="a directory in which a package scrtune is to be measured; may be given again",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    trees = dict(each.split("=", 1) for each in options.tree) or {"": os.environ.get("PYTHONPATH", "")}
    application = ["bash", "-c", APPLICATION, str(options.seconds)]
    with tempfile.TemporaryDirectory(prefix="start-cost-") as place:
        own = {name: text for name, text in os.environ.items() if not name.startswith(("SCR", "SLURM"))}
        environment = {**own, "SCRTUNE_RUN_DIR": place, "SCRTUNE_DEFAULTS": os.devnull}
        plan: list[tuple[str, list[str], dict[str, str]]] = [("plain", ["true"], environment)]
        for name, path in trees.items():
            there = {**environment, "PYTHONPATH": path}
            scrtune = [sys.executable, "-m", "scrtune", "run", "--"]
            plan += [(f"true {name}".strip(), [*scrtune, "true"], there)]
            plan += [(f"job {name}".strip(), [*scrtune, *application], there)]
        runs: dict[str, list[Ran]] = {name: [] for name, *_ in plan}
        for number in range(options.rounds + 1):
            for name, command, variables in plan if number % 2 else reversed(plan):
                ran = run(command, variables)
                if number:  # the first round fills the caches
                    runs[name].append(ran)
                for each in os.scandir(place):
                    shutil.rmtree(each)
    medians = {
        name: {field: median(getattr(ran, field) for ran in ran_) for field in asdict(ran_[0])}
        for name, ran_ in runs.items()
    }
    if options.json:
        print(json.dumps(medians))
        return
    plain = medians["plain"]
    print(f"{'':14}{'CPU':>10}{'to plain':>10}{'wall':>10}{'to plain':>10}", end="")
    print(f"{'CPU before':>12}{'before':>10}{'after':>10}")
    for name, each in medians.items():
        ratios = (each["cpu_s"] / max(plain["cpu_s"], 1e-6), each["wall_s"] / plain["wall_s"])
        cpu, wall = f"{each['cpu_s']:8.3f} s{ratios[0]:9.0f}x", f"{each['wall_s']:8.3f} s{ratios[1]:9.0f}x"
        print(f"{name:14}{cpu}{wall}", end="")
        print(f"{each['cpu_until_application_s']:10.3f} s", end="")
        print(f"{each['until_application_s']:8.3f} s{each['after_application_s']:8.3f} s")
    print(", ".join(f"{name} <= {limit}" for name, limit in TARGETS.items()), "on a quiet machine")


if __name__ == "__main__":
    main()
