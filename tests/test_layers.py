"""Import contracts between the rooms, and the purity of the core (contracts in setup.cfg)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_import_contracts_hold() -> None:
    found = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([str(found), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 broken" in ran.stdout


def test_the_core_loads_no_heavy_library() -> None:
    """Every command imports it: a library that takes seconds to load would be felt each time."""
    code = "import sys, scrtune.intents.pipeline; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "scipy", "sklearn"}.isdisjoint(ran.stdout.split())
