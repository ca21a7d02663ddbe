"""Runs in the peer's own environment: what a long log costs it, as JSON on stdout.

Its cloud logger is replaced by a list in memory, which is the best case for it.
"""

import contextlib
import datetime as dt
import json
import logging
import resource
import sys
import tempfile
import time
from typing import Any

from long_log import LOGS, long_log
from ml_goodput_measurement import goodput

UTC = dt.timezone.utc
PARTS = ("wait_for_prev", "checkpointer_blocking", "get_old_steps", "checkpoint_manager_blocking")
RESTORED = ("checkpointer", "checkpoint_manager")


class ListLogger:
    """A log in memory, which hands out what is new since the last time without looking at it."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        """Add one."""
        self.entries.append(entry)

    def read_cloud_logging_entries(
        self,
        start_time: Any = None,  # noqa: ARG002 - the peer's own names
        end_time: Any = None,  # noqa: ARG002
        last_entry_info: Any = None,
    ) -> tuple[list[dict[str, Any]], tuple[Any, str]]:
        """All, or those after the last one that was read."""
        first = int(last_entry_info[1]) if last_entry_info else 0
        return self.entries[first:], (dt.datetime.fromtimestamp(0, UTC), str(len(self.entries)))


def record(recorder: Any, logger: ListLogger, told: tuple[Any, ...]) -> None:
    """Tell the peer's recorder."""
    match told:
        case "job_start", start:
            recorder.record_job_start_time(at(start))
        case "job_end", end:
            recorder.record_job_end_time(at(end))
        case "init", start, end:
            recorder.record_tpu_init_start_time(at(start))
            recorder.record_tpu_init_end_time(at(end))
        case "prep", start, end:
            recorder.record_training_preparation_start_time(at(start))
            recorder.record_training_preparation_end_time(at(end))
        case "load", start, end:
            recorder.record_data_loading_start_time(at(start))
            recorder.record_data_loading_end_time(at(end))
        case "step", step, start:
            recorder.record_step_start_time(step, at(start))
        case "custom", start, end:
            recorder.record_custom_badput_event_start_time(at(start), "eval")
            recorder.record_custom_badput_event_end_time(at(end), "eval")
        case ("save" | "restore") as kind, step, start, seconds:
            entry: dict[str, Any] = {"step": step, "event_type": kind, "directory": "gs://bucket/run"}
            for part in PARTS if kind == "save" else RESTORED:
                entry |= {f"{part}_start_time": start, f"{part}_duration_secs": seconds}
            logger.write_cloud_logging_entry(entry)


def at(seconds: float) -> dt.datetime:
    """A time as the recorder wants it."""
    return dt.datetime.fromtimestamp(seconds, UTC)


def main() -> None:
    """Measure."""
    logging.disable()
    steps, log = int(sys.argv[1]), sys.argv[2]
    logger = ListLogger()
    recorder = goodput.GoodputRecorder("job", "log", True, logger)
    last_s = 0.0
    for told in long_log(steps, LOGS[log]):
        record(recorder, logger, told)
        last_s = told[-1]
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        calculator = goodput.GoodputCalculator("job", "log", logger, cache_dir=directory)
        began_s = time.perf_counter()
        calculator.get_job_goodput(include_badput_breakdown=True)
        cold_s = time.perf_counter() - began_s
        recorder.record_step_start_time(steps, at(last_s + 1))
        began_s = time.perf_counter()
        calculator.get_job_goodput(include_badput_breakdown=True)
        more_s = time.perf_counter() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps({"events": len(logger.entries), "cold_s": cold_s, "more_s": more_s, "peak_mib": peak_mib})
    )


if __name__ == "__main__":
    main()
