"""Signals, children and the parent of a process, as descriptors that wake a poller and interrupt nothing."""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FOR_THE_APPLICATION = (signal.SIGUSR1, signal.SIGUSR2)
"""What `sbatch --signal=USR1@300` sends to all steps of a job, and those beside the application ignore."""


@contextlib.contextmanager
def handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    """Have `handler` called for the signals `numbers` while the block runs.

    One that this process was started to ignore (nohup) stays ignored; not SIGCHLD: a child's exit code would
    be lost.
    """
    ours = [each for each in numbers if each == signal.SIGCHLD or signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in ours}
    try:
        yield
    finally:
        for number, restored in before.items():
            signal.signal(number, restored)


class Signals:
    """The signals `numbers`, as a readable descriptor that ends a wait; and whether an ending one has come.

    By default they are the ending ones. SIGCHLD is the end of a child of this process.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = numbers or ENDING_SIGNALS
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.ending = False

    @property
    def fd(self) -> int:
        """Return a descriptor that is readable as soon as a signal has arrived."""
        return self._reader.fileno()

    @contextlib.contextmanager
    def watched(self) -> Iterator["Signals"]:
        """Watch the signals while the block runs, and restore the handlers afterwards."""
        with self._reader, self._writer, handled(self._numbers, self._handle):
            wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            try:
                yield self
            finally:
                signal.set_wakeup_fd(wakeup)

    def wait(self, seconds: float | None, *fds: int) -> list[int]:
        """Return those of `fds` that are readable, at once if there are any, after `seconds` at most.

        A signal, watched or with a handler elsewhere, that has arrived since the last call ends this one.
        """
        ready = select.select([self.fd, *fds], [], [], seconds)[0]
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        return [fd for fd in fds if fd in ready]

    def ended(self, seconds: float, parent: "Parent", *fds: int) -> bool:
        """Return whether a signal or the end of the `parent` has come.

        Waits for these, or until one of `fds` is readable, `seconds` at most.
        """
        watched = [*fds] if parent.fd is None else [parent.fd, *fds]
        ready = self.wait(0.0 if self.ending else seconds, *watched)
        if parent.fd in ready and parent.lines() is None:
            self.ending = True
        return self.ending

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.ending |= number in ENDING_SIGNALS


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
