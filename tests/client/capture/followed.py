"""Files that are followed into a sink that keeps their lines."""

from collections.abc import Callable
from pathlib import Path

from scrtune.client.capture.alike import AlikeProcesses
from scrtune.client.capture.forward import Forwarder

MIB = 1024 * 1024


class Kept:
    """A sink that keeps the lines. It may be full, or unable to send."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.learnt = b""
        self.dropped = 0
        self.room = 1_000_000
        self.sends = True
        self.was_final = False
        self.alike = AlikeProcesses()

    @property
    def lines(self) -> bytes:
        return b"".join(self.chunks)

    def learn(self, lines: bytes) -> None:
        self.learnt += lines

    def add(self, lines: bytes) -> int:
        if len(self.chunks) >= self.room:
            return 0
        self.chunks.append(lines)
        return len(lines.splitlines())

    def send(self, dropped: int, *, final: bool = False) -> bool:
        self.dropped = dropped
        self.was_final |= final
        return self.sends

    def close(self) -> None:
        """Nothing is under way."""


Start = Callable[..., Forwarder]


def work(forwarder: Forwarder) -> int:
    """Rounds, each with a look at the files, until one sends nothing. Returns the lines sent."""
    total = 0
    forwarder.scan()
    while sent := forwarder.poll():
        total += sent
        forwarder.scan()
    return total


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % number for number in range(start, stop))
