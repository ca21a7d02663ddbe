"""Hooks for a launcher and a training loop that log their events as the `resiliency` library does.

Each event is one JSON line, as in the "Goodput Measurement" guide of that library: ``timestamp`` (UTC),
``job_name``, ``event_type`` and the fields. A launcher may be killed right after one: the line is in the file
when the call returns, unless the file system is slow. They go to the log only: a :class:`.Session` or
:class:`.Recorder` reports the job to the daemon, which would count a launcher's start as a second run.
"""

import atexit
import os
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from ..goodput.log.line_log import log_path
from ..goodput.readers.jsonl import launcher_event
from ..goodput.readers.resiliency import (
    CHECKPOINT_LOADED,
    CHECKPOINT_SAVED,
    JOB_STARTED,
    JOB_TERMINATED,
    KINDS,
    USER_SCHEDULED,
    USER_TERMINATED,
)
from .event_writer import EventWriter
from .paths import job_id_from_environment

__all__ = [
    "CHECKPOINT_LOADED",
    "CHECKPOINT_SAVED",
    "JOB_STARTED",
    "JOB_TERMINATED",
    "USER_SCHEDULED",
    "USER_TERMINATED",
    "event_line",
    "launcher_job",
    "launcher_log",
    "log_event",
]

WRITTEN_WITHIN_S = 0.5
"""Seconds that a call waits for its line to be in the file; it is there within a millisecond or two."""

_writers: dict[Path, EventWriter] = {}


def log_event(event_type: str, *, job_name: str = "", **fields: object) -> None:
    """Append an event to :func:`launcher_log`. Never raises.

    Returns when the file has it or cannot take it, within :data:`WRITTEN_WITHIN_S`. While a file system
    hangs, later calls do not wait.
    """
    job_name = str(job_name or launcher_job())
    writer = writer_of(launcher_log(job_name))
    try:
        line = event_line(event_type, job_name, **fields)
    except Exception:  # noqa: BLE001  whatever was given: the launcher goes on
        writer.lose()
    else:
        writer.put(line)
        writer.flush(WRITTEN_WITHIN_S)


def event_line(event_type: str, job_name: str, **fields: object) -> bytes:
    """Return one event, now, as a line. Raises ValueError or TypeError for what readers would refuse."""
    entry = {
        "timestamp": datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds"),
        "job_name": job_name,
        "event_type": event_type,
        **{name: value for name, value in fields.items() if value is not None},
    }
    line = msgspec.json.encode(entry, enc_hook=_plain)
    if event_type in KINDS:
        launcher_event(msgspec.json.decode(line))
    return line + b"\n"


def launcher_job() -> str:
    """Return $JOB_IDENTIFIER, as in the guide, else the job's id."""
    return os.environ.get("JOB_IDENTIFIER") or job_id_from_environment()


def launcher_log(job_name: str) -> Path:
    """Return the path of ``<job name>-goodput.log``, as in the guide, beside a recorder's log."""
    return log_path(f"{job_name}-goodput", ".log")


def writer_of(path: Path) -> EventWriter:
    """Return this process's one writer of the log at `path`."""
    if path not in _writers:
        _writers.setdefault(path, EventWriter(path, gather_s=0.0))
    return _writers[path]


@atexit.register
def _close() -> None:
    """Registered at the import, before the launcher's own exit handlers: these run first and may log."""
    for writer in _writers.values():
        writer.close()


def _plain(value: object) -> object:
    """Return a number of an array library as Python's own, and anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)
