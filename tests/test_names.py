"""A class name is used once in the project (CONTRIBUTING.md)."""

import ast
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_class_name_is_used_once() -> None:
    files: dict[str, set[str]] = defaultdict(set)
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if (ROOT / name).is_file() and name.partition("/")[0] not in {"benchmarks", "examples", "tests"}:
            for node in ast.walk(ast.parse((ROOT / name).read_bytes())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].add(name)
    again = {name: sorted(found) for name, found in files.items() if len(found) > 1}
    assert again == {}
