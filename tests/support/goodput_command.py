"""`scrtune goodput` on logs: the logs of the seed, and what the command says in each form."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from scrtune.cli.main import main

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SAMPLE = DATA / "goodput" / "resiliency.jsonl"
PRIMER = DATA / "goodput" / "primer.jsonl"
PRIMER_LAUNCHER = DATA / "goodput" / "primer_resiliency.jsonl"
SCR_LOG = DATA / "scr_log" / "job.log"


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["goodput", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def view(*arguments: str | Path) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def only_job(*arguments: str | Path) -> Any:
    (job,) = view(*arguments)["jobs"]
    return job


def rows(*arguments: str | Path) -> list[dict[str, str]]:
    result = run(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def spent(job: Any) -> dict[str, float]:
    """The buckets that have anything in them."""
    return {name: seconds for name, seconds in job["conserving"]["buckets"].items() if seconds}


def log_of(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path
