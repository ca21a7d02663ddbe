"""Runs in the peer's own environment: logs as JSON on stdin, its answers as JSON on stdout.

Its cloud logger is replaced by a list, through the parameter its own tests use, and its clock by a fixed
time: of a job that has not ended, "until now" must be the same for both sides.
"""

import contextlib
import datetime as dt
import json
import logging
import sys
import tempfile
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import ask
from ml_goodput_measurement import goodput, goodput_elastic, goodput_utils, monitoring, monitoring_elastic
from ml_goodput_measurement.src import goodput_exclusion


class ListLogger:
    """A log that is a list; entries are found by their own times, as in the peer's tests."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        """Add one."""
        self.entries.append(entry)

    def read_cloud_logging_entries(
        self, start_time: Any = None, end_time: Any = None, last_entry_info: Any = None
    ) -> tuple[list[dict[str, Any]], tuple[Any, str]]:
        """Those of a window, or those after the last one that was read."""
        first = int(last_entry_info[1]) if last_entry_info else 0
        found = []
        for entry in self.entries[first:]:
            time = goodput_utils.get_timestamp_from_log_entry(entry)
            is_late = start_time is not None and not last_entry_info and time <= start_time
            if not is_late and (end_time is None or time <= end_time):
                found.append(entry)
        last = goodput_utils.get_timestamp_from_log_entry(self.entries[-1]) if self.entries else None
        return found, (last, str(len(self.entries)))


def main() -> None:
    """Answer."""
    logging.disable()
    given = json.load(sys.stdin)
    now = dt.datetime.fromtimestamp(given["now_s"], ask.UTC)

    class FixedTime(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> dt.datetime:  # noqa: ARG003
            return now

    for module in (goodput, goodput_exclusion):
        module.datetime = SimpleNamespace(datetime=FixedTime, timezone=dt.timezone, timedelta=dt.timedelta)
    answers = []
    with contextlib.redirect_stdout(sys.stderr):
        for log in given["logs"]:
            logger = ListLogger()
            module = goodput_elastic if log["elastic"] else goodput
            prefix = "Elastic" if log["elastic"] else ""
            recorder = getattr(module, f"{prefix}GoodputRecorder")("job", "log", True, logger)
            calculators = getattr(module, f"{prefix}GoodputCalculator")
            with tempfile.TemporaryDirectory() as directory:
                made = 0

                def new_calculator() -> Any:
                    nonlocal made
                    made += 1
                    cache = f"{directory}/{made}"
                    return calculators("job", "log", logger, cache_dir=cache)  # noqa: B023

                answers.append(ask.ask(log, recorder, logger.write_cloud_logging_entry, new_calculator))
    classes = [
        goodput.GoodputRecorder,
        goodput.GoodputCalculator,
        monitoring.GoodputMonitor,
        goodput_elastic.ElasticGoodputRecorder,
        goodput_elastic.ElasticGoodputCalculator,
        monitoring_elastic.ElasticGoodputMonitor,
    ]
    answer = {
        "version": version("ml-goodput-measurement"),
        "signatures": ask.signatures(classes),
        "badput_types": {badput.name: badput.value for badput in goodput_utils.BadputType},
        "answers": answers,
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
