"""Runs in the peer's own environment: its answer about a log in a file of JSON lines, all buckets.

Its cloud logger is replaced by one that reads the file, which is the best case for it.
"""

import contextlib
import datetime as dt
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from ml_goodput_measurement import goodput


class FileLogger:
    """A log in a file, which hands all of it out once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_cloud_logging_entries(
        self,
        start_time: Any = None,  # noqa: ARG002 - the peer's own names
        end_time: Any = None,  # noqa: ARG002
        last_entry_info: Any = None,
    ) -> tuple[list[dict[str, Any]], Any]:
        """All, or nothing after that."""
        if last_entry_info:
            return [], last_entry_info
        with self.path.open() as lines:
            entries = [json.loads(line) for line in lines]
        return entries, (dt.datetime.fromtimestamp(0, dt.timezone.utc), str(len(entries)))


def main() -> None:
    """Print it."""
    logging.disable()
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        calculator = goodput.GoodputCalculator(
            "job", "log", FileLogger(Path(sys.argv[1])), cache_dir=directory
        )
        answer = calculator.get_job_goodput(include_badput_breakdown=True)
    print(answer)


if __name__ == "__main__":
    main()
