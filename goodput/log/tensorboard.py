"""Scalars for TensorBoard, as an event file.

tensorboardX encodes; the file is written here, since its own ``SummaryWriter`` hands everything to a thread
that ends at the first error, and whoever adds a scalar then waits for it for ever.
"""

import os
import re
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

from .append import AppendedFile
from .store import utc_now

_NOT_IN_A_TAG = re.compile(r"[^-/\w.]")


class TensorBoard:
    """An event file of this process in `directory`, begun with the first scalar that is flushed.

    `add_scalar` and `flush` are those of tensorboardX's ``SummaryWriter``. A flush that fails has written
    nothing, and what it would have written has to be added anew: the next one goes on in the same file. One
    thread at a time may use it. Raises ImportError without tensorboardX.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._events = import_module("tensorboardX.proto.event_pb2")
        self._crc = import_module("tensorboardX.record_writer").masked_crc32c
        self._directory = Path(directory)
        self._file: AppendedFile | None = None
        self._is_begun = False
        self._pending: list[bytes] = []

    def add_scalar(
        self,
        tag: str,
        scalar_value: float,
        global_step: int = 0,
        walltime: float | None = None,
        display_name: str = "",
    ) -> None:
        """Add one number at `global_step`; `walltime` is in epoch seconds, by default it is now.

        `display_name` is what the plot is called where `tag`, which may not have every character, is not.
        """
        time_s = utc_now().timestamp() if walltime is None else walltime
        event = self._events.Event(wall_time=time_s, step=global_step)
        added = event.summary.value.add(tag=_NOT_IN_A_TAG.sub("_", tag), simple_value=scalar_value)
        if display_name:
            added.metadata.display_name = display_name
        self._pending.append(self._record(event))

    def flush(self) -> None:
        """Write down what was added. Raises OSError."""
        records, self._pending = self._pending, []
        if not records:
            return
        if self._file is None:
            self._file = AppendedFile(self._directory / _file_name(utc_now().timestamp()))
        if not self._is_begun:
            began_s = utc_now().timestamp()
            records.insert(
                0, self._record(self._events.Event(wall_time=began_s, file_version="brain.Event:2"))
            )
        self._file.append(b"".join(records))
        self._is_begun = True

    def close(self) -> None:
        """Write the rest down and close the file. Raises OSError."""
        try:
            self.flush()
        finally:
            if self._file is not None:
                self._file.close()

    def _record(self, event: Any) -> bytes:
        """An event in TFRecord's frame: length, its checksum, the bytes, theirs."""
        content: bytes = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        sums = (struct.pack("<I", self._crc(part)) for part in (length, content))
        return length + next(sums) + content + next(sums)


def _file_name(time_s: float) -> str:
    """TensorBoard takes what has ``tfevents`` in its name, in the order of the names."""
    return f"events.out.tfevents.{int(time_s):010d}.{os.uname().nodename}.{os.getpid()}"
