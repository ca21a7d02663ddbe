"""Every benchmark, one after the other: each prints its ratios to a baseline of the same run."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run them all; the exit code is the number of those that failed."""
    failed = 0
    for script in sorted(HERE.glob("*.py")):
        if script.name == Path(__file__).name:
            continue
        print(f"\n== {script.name}", flush=True)
        failed += subprocess.run([sys.executable, script], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
