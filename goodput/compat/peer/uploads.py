"""Run periodic uploads on one thread beside an application, and once more at the end."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from .store import tell

_READ_S = 1.0
_PIECE_S = 0.001
_SHARE = 0.1

Work: TypeAlias = Callable[[bool], Iterator[None]]
"""Uploads, given whether it is the last time, and yields between small pieces of that."""


@dataclass
class _Upload:
    work: Work
    interval_s: float
    due_s: float
    is_last: bool = False
    once_more: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class Uploads:
    """Does works in turn, and `read` before them, every second too, until they are stopped.

    Between pieces the thread rests, so that it takes a tenth of the time at most; not while somebody waits
    for a stop: then only what is to be stopped is done to its end. All stops together wait `patience_s` at
    most (None: as long as it takes), and anew when something was started since. A failure is reported, once
    while it stays the same, and ends nothing. The thread is a daemon, and ends with the last work; a forked
    child has none of the works.
    """

    def __init__(self, read: Callable[[], Iterator[None]], patience_s: float | None) -> None:
        self._read = read
        self._patience_s = patience_s
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._uploads: dict[str, _Upload] = {}
        self._thread: threading.Thread | None = None
        self._left_s = self._patience_s
        self._told: dict[str, str] = {}
        self._rested_s = 0.0  # by the clock of the thread's own work, which begins anew with each thread

    def start(self, name: str, work: Work, interval_s: float) -> bool:
        """Do `work` every `interval_s` seconds; false when `name` is at work already."""
        with self._in_this_process():
            if name in self._uploads:
                return False
            self._left_s = self._patience_s
            self._add(name, work, interval_s)
        return True

    def stop(self, name: str, work: Work | None, *, once_more: bool) -> bool:
        """Stop `name`, after one more time if `once_more`; return whether that is done in time.

        When it is not at work, `work` is done once, if there is one.
        """
        with self._in_this_process():
            if name not in self._uploads and work is not None and once_more:
                self._add(name, work, 0.0)
            stopped = self._hurry_up({name} & self._uploads.keys(), once_more=once_more)
        return self._wait(stopped)

    def stop_all(self, *, once_more: bool) -> bool:
        """Stop all that nobody has stopped; return whether that is done in time."""
        with self._in_this_process():
            names = [name for name, upload in self._uploads.items() if not upload.is_last]
            stopped = self._hurry_up(names, once_more=once_more)
        return self._wait(stopped)

    def _in_this_process(self) -> threading.Condition:
        if self._process != os.getpid():  # whoever had the lock when it forked is not here to give it back
            self._begin()
        return self._changed

    def _add(self, name: str, work: Work, interval_s: float) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="goodput monitor", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter ends
                self._thread = None
                tell(f"{name}: {error}")
                return
        self._uploads[name] = _Upload(work, interval_s, time.monotonic() + interval_s)
        self._changed.notify()

    def _hurry_up(self, names: Collection[str], *, once_more: bool) -> dict[str, _Upload]:
        """Somebody waits for these; to be called before the thread can see one that was added just now."""
        stopped = {name: self._uploads[name] for name in names}
        for upload in stopped.values():
            upload.is_last, upload.once_more = True, once_more
            self._hurry.set()
        self._changed.notify()
        return stopped

    def _wait(self, stopped: dict[str, _Upload]) -> bool:
        for name, upload in stopped.items():
            began_s = time.monotonic()
            if not upload.done.wait(self._left_s):
                tell(f"{name}: the last update is not done in time and is given up")
            if self._left_s is not None:
                self._left_s = max(0.0, self._left_s - (time.monotonic() - began_s))
        return all(upload.done.is_set() for upload in stopped.values())

    def _run(self) -> None:
        self._rested_s = time.thread_time()
        while self._thread is not None:
            self._try("reading the log", self._read, to_its_end=True)
            for name, upload in self._due():
                is_last = upload.is_last
                if not is_last or upload.once_more:
                    self._try(name, partial(upload.work, is_last), to_its_end=is_last)
                upload.due_s = time.monotonic() + upload.interval_s
                if is_last:
                    with self._changed:
                        del self._uploads[name]
                    self._told.pop(name, None)
                    upload.done.set()
            self._wait_or_end()

    def _due(self) -> list[tuple[str, _Upload]]:
        """Return what is to be done now; only what somebody waits for, if there is such."""
        with self._changed:
            uploads = list(self._uploads.items())
        last = [(name, upload) for name, upload in uploads if upload.is_last]
        return last or [(name, upload) for name, upload in uploads if upload.due_s <= time.monotonic()]

    def _wait_or_end(self) -> None:
        with self._changed:
            if not any(upload.is_last for upload in self._uploads.values()):
                self._hurry.clear()
            if not self._uploads:
                self._thread = None
            elif not self._hurry.is_set():
                due_s = min(upload.due_s for upload in self._uploads.values()) - time.monotonic()
                self._changed.wait(max(0.0, min(due_s, _READ_S)))

    def _try(self, name: str, work: Callable[[], Iterator[None]], *, to_its_end: bool) -> None:
        try:
            for _ in work():
                self._rest()
                if self._hurry.is_set() and not to_its_end:
                    break
        except Exception as error:  # noqa: BLE001  monitoring never ends a job
            text = f"{name}: {error}"
            if text != self._told.get(name):
                tell(text)
            self._told[name] = text

    def _rest(self) -> None:
        spent_s = time.thread_time() - self._rested_s
        if spent_s >= _PIECE_S:
            self._hurry.wait(spent_s * (1 / _SHARE - 1))
            self._rested_s = time.thread_time()
