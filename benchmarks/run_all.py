"""Every benchmark, one after the other: each prints its ratios to a baseline of the same run."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("*.py", "daemon/*.py", "goodput/*.py")
PACKAGES = ("cluster", "tuner")
SHORT = {"observer_cost.py": ("--rounds", "2", "--checkpoints", "10", "--compute-ms", "300")}
"""Of a benchmark that takes half an hour as it is: what shows it in a few minutes."""


def main() -> int:
    """Run them all; the exit code is the number of those that failed."""
    scripts = sorted(found for pattern in SCRIPTS for found in HERE.glob(pattern) if found != Path(__file__))
    commands = [(str(each.relative_to(HERE)), (each, *SHORT.get(each.name, ()))) for each in scripts]
    commands += [(each, ("-m", f"benchmarks.{each}")) for each in PACKAGES]
    failed = 0
    for name, arguments in commands:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, *arguments], cwd=HERE.parent, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
