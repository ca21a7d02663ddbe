"""What the compat API needs of the machine: a log in a file, the clock, a thread, a line of text.

`goodput` is pure but for this, :mod:`.append` and :mod:`.tensorboard` (the import contract in `setup.cfg`
names them). What needs a log takes a :class:`LogStore`; :class:`LocalLog` is one in a file, for code that was
written for a log in a cloud.
"""

import datetime as dt
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from .append import open_lines

DIRECTORY_VARIABLE = "SCRTUNE_GOODPUT_DIR"
_CHUNK_BYTES = 4 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_log = logging.getLogger("scrtune.goodput")


def utc_now() -> dt.datetime:
    """The time, with its zone."""
    return dt.datetime.now(dt.timezone.utc)


def tell(text: str) -> None:
    """Say something to who runs the job."""
    _log.warning("%s", text)


def new_lock() -> AbstractContextManager[bool]:
    """What only one thread at a time is within."""
    return threading.Lock()


class LogStore(Protocol):
    """Where a recorder's entries go and a calculator's come from."""

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry at the end. Never raises: the application goes on without its log."""

    def read(self, position: int) -> tuple[list[dict[str, Any]], int]:
        """Some entries from `position` (0: the first) on, and where to read on: `position` at the end."""

    def flush(self) -> None:
        """Return when what was appended is safe."""


def log_path(logger_name: str, directory: str | os.PathLike[str] | None = None) -> Path:
    """The file of a log: in `directory`, else ``$SCRTUNE_GOODPUT_DIR``, else the user's state directory."""
    base = directory or os.environ.get(DIRECTORY_VARIABLE) or _state_directory() / "scrtune" / "goodput"
    return Path(base) / f"{_UNSAFE.sub('_', logger_name)}.jsonl"


def _state_directory() -> Path:
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:  # a user without a home, as in some containers
        return Path.cwd()


class LocalLog:
    """An append-only file of JSON lines, one write for each: who reads never sees half of one.

    The file is opened at the first entry. Any thread may append, and writes by itself: no entry waits, as
    lines do in the client's ``LineLog``, which one thread serves. When the file cannot be written, entries
    are counted in `lost`, and that is told once. A line that is no JSON object is counted in `unread`.
    """

    def __init__(self, logger_name: str, directory: str | os.PathLike[str] | None = None) -> None:
        self._descriptor: int | None = None
        self._opening = threading.Lock()
        self.path = log_path(logger_name, directory)
        self.lost = 0
        self.unread = 0
        self._torn = False

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry."""
        line = msgspec.json.encode(entry) + b"\n"
        try:
            descriptor = self._descriptor if self._descriptor is not None else self._open()
            # after a write that was cut short, a line of its own
            line = b"\n" + line if self._torn else line
            self._torn = os.write(descriptor, line) < len(line)
        except OSError as error:
            self._lose(f"{error.strerror}; set {DIRECTORY_VARIABLE} to a directory that can be written")
        else:
            if self._torn:
                self._lose("the file system takes no more bytes")

    def read(self, position: int) -> tuple[list[dict[str, Any]], int]:
        """Entries from byte `position` on, about 4 MiB of them; nothing while there is no file."""
        try:
            with self.path.open("rb") as file:
                file.seek(position)
                # a line that has no end yet is not read
                text = file.read(_CHUNK_BYTES)
                while b"\n" not in text and (more := file.read(_CHUNK_BYTES)):
                    text += more
        except FileNotFoundError:
            return [], position
        whole = text[: text.rfind(b"\n") + 1]
        return [entry for line in whole.split(b"\n") if (entry := self._entry(line))], position + len(whole)

    def flush(self) -> None:
        """Have the file system write it all down."""
        if self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                tell(f"{self.path} is not synced: {error.strerror}")

    def close(self) -> None:
        """Close the file; the next entry opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()

    def _open(self) -> int:
        with self._opening:  # threads of the application may record at the same time
            if self._descriptor is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                descriptor, self._torn = open_lines(self.path)
                self._descriptor = descriptor  # last: from now on threads write without the lock
            return self._descriptor

    def _lose(self, why: str) -> None:
        if not self.lost:
            tell(f"goodput is not recorded: {self.path}: {why}")
        self.lost += 1

    def _entry(self, line: bytes) -> dict[str, Any] | None:
        if not line.strip():
            return None
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.unread += 1
            return None


class Periodic:
    """Does `work` every `interval_s` seconds on a thread of its own, until it is stopped.

    A failure is told, once while it stays the same, and ends nothing. The thread is a daemon: the process
    never waits for it.
    """

    def __init__(self, work: Callable[[], None], interval_s: float, name: str) -> None:
        self._work = work
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._once_more = False
        self._told = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask_to_stop(self, *, once_more: bool) -> None:
        """End it after what it is at, and after one more `work` if `once_more`."""
        self._once_more = once_more
        self._stopped.set()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for its end, `timeout_s` at most (None: as long as it takes); whether it has ended."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            tell(f"{self._thread.name}: the last update is not done in time and is given up")
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._try()
        if self._once_more:
            self._try()

    def _try(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  monitoring never ends a job
            text = f"{self._thread.name}: {error}"
            if text != self._told:
                tell(text)
            self._told = text


def stop_all(periodics: Iterable[Periodic], *, once_more: bool, timeout_s: float | None) -> bool:
    """Stop them together, within `timeout_s` for all of them; whether all have ended."""
    asked = list(periodics)
    for periodic in asked:
        periodic.ask_to_stop(once_more=once_more)
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    have_ended = True
    for periodic in asked:
        left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        have_ended &= periodic.join(left_s)
    return have_ended
