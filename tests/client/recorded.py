"""When a job may have been, and what was logged of it."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

from scrtune.goodput.readers.jsonl import Log

# a noon at which there may have been a job: what a recorder is told of is not years ago
NOON = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0, microsecond=250_000) - timedelta(
    days=1
)


NOON_S = NOON.timestamp()


def read(path: Path) -> Log:
    """The log, in which every line is sound."""
    log = Log()
    log.lines(path.read_bytes())
    assert log.problems == []
    return log
