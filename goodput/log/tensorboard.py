"""Scalars for TensorBoard, as an event file: tensorboardX encodes, the file is written here.

Its ``SummaryWriter`` waits for ever behind an error, its ``EventsWriter`` leaves half a record on a full
disk.
"""

import os
import re
import struct
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

from .line_log import append_whole

_NOT_IN_A_TAG = re.compile(r"[^-/\w.]")


class TensorBoard:
    """An event file of this process in `directory`, with the methods of tensorboardX's ``SummaryWriter``.

    A flush that fails has written nothing: add it anew. One thread at a time. Raises ImportError without
    tensorboardX.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._event = import_module("tensorboardX.proto.event_pb2").Event
        self._crc = import_module("tensorboardX.record_writer").masked_crc32c
        self._directory = Path(directory)
        self._path: Path | None = None
        self._pending: list[bytes] = []

    def add_scalar(
        self,
        tag: str,
        scalar_value: float,
        global_step: int = 0,
        walltime: float | None = None,
        display_name: str = "",
    ) -> None:
        """Add one number, by default of now; `display_name` may have every character, `tag` not."""
        event = self._event(wall_time=_now_s() if walltime is None else walltime, step=global_step)
        added = event.summary.value.add(tag=_NOT_IN_A_TAG.sub("_", tag), simple_value=scalar_value)
        if display_name:
            added.metadata.display_name = display_name
        self._pending.append(self._record(event))

    def flush(self) -> None:
        """Write what was added. Raises OSError."""
        records, self._pending = self._pending, []
        if not records:
            return
        path, now_s = self._path, _now_s()
        if path is None:  # TensorBoard takes what has tfevents in its name, in the order of the names
            name = f"events.out.tfevents.{int(now_s):010d}.{os.uname().nodename}.{os.getpid()}"
            path = self._directory / name
            records.insert(0, self._record(self._event(wall_time=now_s, file_version="brain.Event:2")))
        append_whole(path, b"".join(records))
        self._path = path

    def _record(self, event: Any) -> bytes:
        """Return an event in TFRecord's frame: length, its checksum, the bytes, theirs."""
        content: bytes = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        sums = (struct.pack("<I", self._crc(part)) for part in (length, content))
        return length + next(sums) + content + next(sums)


def _now_s() -> float:
    return datetime.now(timezone.utc).timestamp()
