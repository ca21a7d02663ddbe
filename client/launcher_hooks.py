"""Hooks for a launcher and a training loop that log their events as the `resiliency` library does.

    from scrtune.client import launcher_hooks as goodput_event
    from scrtune.client import launcher_hooks as goodput_logging

    goodput_logging.log_event(goodput_event.JOB_STARTED, node_rank=int(os.environ["NODE_RANK"]))
    goodput_logging.log_event(goodput_event.CHECKPOINT_SAVED, step=step)

One JSON line each, as in the "Goodput Measurement" guide of that library: ``timestamp`` (UTC), ``job_name``,
``event_type`` and the fields. A launcher says little, and may be killed right behind: a line is in the file
when the call returns, unless the file system is slow to take it. Lines go to the log only: a daemon is told
of its job by a :class:`.Session` or a :class:`.Recorder`, and a launcher's start with that of its workers
would be two runs.
"""

import atexit
import os
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from ..goodput.log.line_log import LineLog
from ..goodput.readers.formats import launcher_event
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
from .recorder import log_path

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
"""For so long a call waits for its line to be in the file; it is there within a millisecond or two."""
_JOB_VARIABLE = "JOB_IDENTIFIER"

_writers: dict[Path, EventWriter] = {}


def log_event(event_type: str, *, job_name: str = "", **fields: object) -> None:
    """Append an event to :func:`launcher_log`. Never raises.

    Returns when the file has it, or says why not, or hangs for :data:`WRITTEN_WITHIN_S`: then a thread goes
    on, and later calls do not wait until it has come through.
    """
    job_name = str(job_name or launcher_job())
    writer = _writer(launcher_log(job_name))
    try:
        line = event_line(event_type, job_name, **fields)
    except Exception:  # noqa: BLE001  whatever was given: the launcher goes on
        writer.lose()
    else:
        writer.put(line)
        if not writer.hangs:
            writer.flush(WRITTEN_WITHIN_S)


def event_line(event_type: str, job_name: str, **fields: object) -> bytes:
    """One event, now, as a line. Fields that are None are left out; JSON knows no other than plain values.

    Raises ValueError or TypeError for what is no text, or that readers of the log would turn away.
    """
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
    """$JOB_IDENTIFIER, as the guide has it, else the job's id."""
    return os.environ.get(_JOB_VARIABLE) or job_id_from_environment()


def launcher_log(job_name: str) -> Path:
    """``<job name>-goodput.log``, as the guide has it, where a recorder's log would be."""
    return log_path(job_name, ".log")


def _writer(path: Path) -> EventWriter:
    if path not in _writers:
        _writers.setdefault(path, EventWriter(LineLog(path), gather_s=0.0))
    return _writers[path]


@atexit.register
def _close() -> None:
    """Registered before the launcher's own hooks, so that it runs behind them: they may say something."""
    for writer in _writers.values():
        writer.close()


def _plain(value: object) -> object:
    """A number of some array library as the number it is."""
    return value.item() if hasattr(value, "item") else str(value)
