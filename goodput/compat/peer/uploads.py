"""Upload now and then beside an application, and once more at the end."""

import os
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from .store import tell

Work: TypeAlias = Callable[[bool], None]
"""An upload, given whether it is the last one."""

_REST_S = 0.002


class _Uploader(threading.Thread):
    """Does `work` every `interval_s` seconds, and once more at its end, if that is wanted.

    A failure is reported, once while it stays the same, and ends nothing.
    """

    def __init__(self, label: str, work: Work, interval_s: float, turn: threading.Lock) -> None:
        super().__init__(name="goodput monitor", daemon=True)
        self._label, self._work, self._interval_s, self._turn = label, work, interval_s, turn
        self._ended = threading.Event()
        self._once_more = False
        self._told = ""

    def run(self) -> None:
        """Upload until the end."""
        while not self._ended.wait(self._interval_s):
            self._upload(False)
        if self._once_more:
            self._upload(True)

    def end(self, *, once_more: bool, patience_s: float | None) -> bool:
        """Have it end; return whether it has within so many seconds."""
        self._once_more = once_more
        self._ended.set()
        if self is threading.current_thread():  # a finalizer may come at any time
            return True
        self.join(patience_s)
        if self.is_alive():
            tell(f"{self._label}: the last update is not done in time and is given up")
        return not self.is_alive()

    def _upload(self, is_last: bool) -> None:
        try:
            with self._turn:
                self._work(is_last)
        except Exception as error:  # noqa: BLE001  monitoring never ends a job
            if (text := f"{self._label}: {error}") != self._told:
                tell(text)
            self._told = text


class Uploads:
    """The uploads of a monitor, each on a thread of its own that no process waits for, one at a time.

    All stops together wait `patience_s` at most (None: as long as it takes), and anew when something was
    started since. A forked child has none of the threads, and has locks of its own: one may be held.
    """

    def __init__(self, patience_s: float | None) -> None:
        self._patience_s = patience_s
        self._process = 0
        self._begin_in_this_process()

    def _begin_in_this_process(self) -> None:
        if self._process != os.getpid():
            self._process, self._left_s = os.getpid(), self._patience_s
            self._uploaders: dict[str, _Uploader] = {}
            self._turn = threading.Lock()
            self._hurry = threading.Event()

    def rest(self) -> bool:
        """Let the application go on for a moment, unless it waits for a stop; return whether it does."""
        return self._hurry.wait(_REST_S)

    def start(self, name: str, work: Work, interval_s: float) -> bool:
        """Do `work` every `interval_s` seconds; false when `name` is at work already."""
        self._begin_in_this_process()
        if self._is_at_work(name):
            return False
        self._left_s = self._patience_s
        self._hurry.clear()
        self._begin(name, work, interval_s)
        return True

    def stop(self, name: str, work: Work | None = None, *, once_more: bool) -> bool:
        """Stop `name`, after one more time if `once_more`; return whether that is done in time.

        When it is not at work, `work` is done once, if there is one.
        """
        self._begin_in_this_process()
        self._hurry.set()
        if work is not None and once_more and not self._is_at_work(name):
            self._begin(name, work, threading.TIMEOUT_MAX)
        if (uploader := self._uploaders.pop(name, None)) is None:
            return True
        began_s = time.monotonic()
        is_done = uploader.end(once_more=once_more, patience_s=self._left_s)
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - began_s))
        return is_done

    def stop_all(self, *, once_more: bool) -> None:
        """Stop all that nobody has stopped."""
        self._begin_in_this_process()
        for name in list(self._uploaders):
            self.stop(name, once_more=once_more)

    def _is_at_work(self, name: str) -> bool:
        return name in self._uploaders and self._uploaders[name].is_alive()

    def _begin(self, name: str, work: Work, interval_s: float) -> None:
        uploader = _Uploader(name, work, interval_s, self._turn)
        try:
            uploader.start()
        except RuntimeError as error:  # no more threads, or the interpreter ends
            tell(f"{name}: {error}")
        else:
            self._uploaders[name] = uploader
