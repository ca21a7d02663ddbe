"""Signals, children and the parent of a process, as descriptors that wake a poller and interrupt nothing."""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

from typing_extensions import Self

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Have `handler` called for the signals `numbers` while the block runs.

    One that this process was started to ignore (nohup) stays ignored.
    """
    ours = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in ours}
    try:
        yield
    finally:
        for number, restored in before.items():
            signal.signal(number, restored)


class Signals:
    """Ending signals, as a readable file descriptor and a flag."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.ending = False

    @property
    def fd(self) -> int:
        """Return a descriptor that is readable as soon as a signal has arrived."""
        return self._reader.fileno()

    @contextlib.contextmanager
    def watched(self) -> Iterator["Signals"]:
        """Watch the signals while the block runs, and restore the handlers afterwards."""
        with self._reader, self._writer, handled(ENDING_SIGNALS, self._handle):
            wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            try:
                yield self
            finally:
                signal.set_wakeup_fd(wakeup)

    def wait(self, seconds: float, parent: "Parent | None" = None) -> bool:
        """Wait for a signal or the end of the `parent`, `seconds` at most; return whether one has come."""
        fds = [self.fd] if parent is None or parent.fd is None else [self.fd, parent.fd]
        ready = select.select(fds, [], [], 0.0 if self.ending else seconds)[0]
        if parent is not None and parent.fd in ready and parent.lines() is None:
            self.ending = True
        return self.ending

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.ending = True


class Wakeup:
    """Ends a wait when a signal arrives that has a handler, or a child of this process has ended."""

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # also where we were started to ignore it: a child's exit code would be lost
        self._handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        self._fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._fd)
        signal.signal(signal.SIGCHLD, self._handler)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float | None, *fds: int) -> list[int]:
        """Return those of `fds` that are readable, at once if there are any, after `seconds` at most.

        What has arrived since the last call ends this one at once.
        """
        ready = select.select([self._reader.fileno(), *fds], [], [], seconds)[0]
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        return [fd for fd in fds if fd in ready]


class Parent:
    """The process that started this one, at the other end of the file `fd`. None: nobody is there."""

    def __init__(self, fd: int | None) -> None:
        self.fd = fd
        self._text = b""

    def say(self, line: bytes) -> None:
        """Write to it, if it can be written to."""
        if self.fd is not None:
            with contextlib.suppress(OSError):
                os.write(self.fd, line)

    def lines(self) -> list[bytes] | None:
        """Return the lines that have come since the last call, which waits for some; None at the end."""
        part = b""
        if self.fd is not None:
            with contextlib.suppress(OSError):
                part = os.read(self.fd, 4096)
        if not part:
            return None
        *lines, self._text = (self._text + part).split(b"\n")
        return lines
