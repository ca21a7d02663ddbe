"""Every benchmark, one after the other: each prints its ratios to a baseline of the same run."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SHORT = {"observer_cost.py": ("--rounds", "2", "--checkpoints", "10", "--compute-ms", "300")}
"""Of a benchmark that takes half an hour as it is: what shows it in a few minutes."""


def main() -> int:
    """Run them all; the exit code is the number of those that failed."""
    failed = 0
    for script in sorted((*HERE.glob("*.py"), *HERE.glob("goodput/*.py"))):
        if script.name == Path(__file__).name:
            continue
        print(f"\n== {script.relative_to(HERE)}", flush=True)
        failed += (
            subprocess.run([sys.executable, script, *SHORT.get(script.name, ())], check=False).returncode != 0
        )
    print("\n== tuner", flush=True)
    return (
        failed
        + subprocess.run([sys.executable, "-m", "benchmarks.tuner"], cwd=HERE.parent, check=False).returncode
    )


if __name__ == "__main__":
    sys.exit(main())
