"""Follows DFTracer's files as they grow and pushes their lines to the daemon.

Runs in a process of its own, beside the application's. The files are the queue: what cannot be sent now stays
where it is and is sent later.
"""

import contextlib
import os
import resource
import socket as host_socket
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from ..transport import wire
from ..transport.own_socket import OwnSocket
from .follow import CHUNK_BYTES, FollowedFile, ForwardCounts
from .forward_preload import LibraryForwarder

LAG_LIMIT_BYTES = 256 * 1024 * 1024
DRAIN_LIMIT_S = 2.0
LINGER_S = 0.5

_LINES_AN_ENVELOPE = 256
_ENVELOPES_A_ROUND = 16
_ENVELOPES_QUEUED = 32  # few: what waits in the file survives us, what waits in a socket does not
_LINES_WORTH_WAKING = 128  # a wake-up costs 0.1 to 0.3 ms of a core that the application may want
_SHORTEST_SLEEP_S = 0.002
_LONGEST_SLEEP_S = 0.04
_SCAN_INTERVAL_S = 0.1
_SCAN_SHARE = 0.05  # of a core, at most, for looking at directories with very many files
_HOT_S = 1.0  # a file that was quiet for longer is looked at by scans only
_DELETED_QUIET_S = 1.0  # a deleted file may still have a writer; when it was quiet for longer it is let go


@dataclass
class _Batch:
    """The content of one envelope, and how much of which file it consumes."""

    parts: list[tuple[FollowedFile, bytes]] = field(default_factory=list)
    lines: int = 0
    size_bytes: int = 0

    def add(self, file: FollowedFile, part: bytes) -> None:
        self.parts.append((file, part))
        self.lines += part.count(b"\n") or 1  # a torn last line counts
        self.size_bytes += len(part)

    @property
    def full(self) -> bool:
        return self.lines >= _LINES_AN_ENVELOPE or self.size_bytes >= CHUNK_BYTES


@dataclass(eq=False)
class _Followed:
    """A file, and what the last scan saw of it (times of :func:`time.monotonic`)."""

    file: FollowedFile
    grew_s: float
    size_bytes: int = 0
    deleted: bool = False

    def hot(self, now_s: float) -> bool:
        """Whether it is read between scans too."""
        return now_s - self.grew_s <= _HOT_S or self.size_bytes > self.file.offset


class Forwarder:
    """Pushes every line of ``<log_prefix>-*.pfw`` to `endpoint`.

    Envelopes hold 256 lines and 128 KiB at most (or one line of up to 1 MiB). Files of all processes are
    followed, also those that appear later. One that is deleted is read to its end first, one that is renamed
    or replaced is followed on, one that is truncated is read from its start again. When the daemon is away
    or slow the lines wait in the files; only when a file lags by more than `lag_limit_bytes` is its older
    part skipped, down to half of that, and counted. With `reclaim` what was sent is punched out of the
    files. A forwarder that is started anew begins at the files' start. For use by one thread.
    """

    def __init__(
        self,
        log_prefix: Path,
        endpoint: str,
        *,
        sender: str | None = None,
        lag_limit_bytes: int = LAG_LIMIT_BYTES,
        reclaim: bool = False,
    ) -> None:
        self._directory = log_prefix.absolute().parent
        self._name_start = f"{log_prefix.name}-"
        self._lag_limit_bytes = lag_limit_bytes
        self._reclaim = reclaim
        self.sender = sender or f"forward:{host_socket.gethostname().split('.')[0]}"
        self.counts = ForwardCounts()
        self._own = OwnSocket(zmq.PUSH, endpoint, queue_limit=_ENVELOPES_QUEUED, linger_s=LINGER_S)
        self._sequence = 0
        self._blocked = False
        self._followed: dict[tuple[int, int], _Followed] = {}
        self._hot: deque[_Followed] = deque()
        self._compressed: set[str] = set()
        self._next_scan_s = 0.0

    def run(self, stop: Callable[[], bool], beside: Callable[[], object] = lambda: None) -> None:
        """Forward until `stop()` is true (asked every 40 ms or sooner), then drain; call `beside` each round.

        Sleeps 2 ms between rounds when many lines flow, up to 40 ms when few do.
        """
        _allow_many_files()
        sleep_s = _SHORTEST_SLEEP_S
        while not stop():
            sleep_s *= 0.5 if self.poll() >= _LINES_WORTH_WAKING else 1.5
            sleep_s = min(max(sleep_s, _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S)
            beside()
            time.sleep(sleep_s)
        self.drain()

    def poll(self) -> int:
        """One round: look for files when it is time, send what is new. Returns the number of lines sent."""
        if time.monotonic() >= self._next_scan_s:
            self.scan()
        self._blocked = False
        sent = 0
        for _ in range(_ENVELOPES_A_ROUND):
            batch = self._gather()
            if not batch.parts or not self._send(batch):
                break
            sent += batch.lines
            if not batch.full:
                break
        return sent

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Send all there is, last lines without a newline included, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        self.scan()
        while self.poll() or self._blocked:
            if time.monotonic() >= deadline_s:
                return
            if self._blocked:
                time.sleep(_SHORTEST_SLEEP_S)
        for followed in self._followed.values():
            self._send_rest(followed.file)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Let go of files and socket, waiting `linger_s` at most for envelopes under way."""
        for followed in self._followed.values():
            followed.file.close()
        self._followed.clear()
        self._hot.clear()
        self._own.close(linger_s)

    def lag_bytes(self) -> int:
        """What is in the files and not sent."""
        files = [each.file for each in self._followed.values()]
        return sum(file.look().size_bytes - file.offset for file in files)

    def scan(self) -> None:
        """Look for files that are new, deleted, truncated, grown or too far behind."""
        started_s = time.monotonic()
        for path, key in self._listed():
            if key not in self._followed:
                self._follow(path, started_s)
        for followed in list(self._followed.values()):
            try:
                self._look_at(followed, started_s)
            except OSError:
                self._give_up(followed)
        self._hot = deque(each for each in self._followed.values() if each.hot(started_s))
        took_s = time.monotonic() - started_s
        self._next_scan_s = started_s + max(_SCAN_INTERVAL_S, took_s / _SCAN_SHARE)

    def _listed(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        """The regular files that match, with device and inode. A directory may appear later."""
        with contextlib.suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.name.startswith(self._name_start):
                    continue
                if entry.name.endswith(".pfw.gz"):
                    self._compressed.add(entry.name)
                    self.counts.compressed_files = len(self._compressed)
                elif entry.name.endswith(".pfw"):
                    with contextlib.suppress(OSError):  # gone between the two calls
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            yield Path(entry.path), (status.st_dev, status.st_ino)

    def _follow(self, path: Path, now_s: float) -> None:
        try:
            file = FollowedFile(path, self.counts, reclaim=self._reclaim)
        except FileNotFoundError:
            return
        except OSError:
            self.counts.unreadable += 1
            return
        if file.key in self._followed:  # renamed between the two calls
            file.close()
            return
        self._followed[file.key] = _Followed(file, grew_s=now_s)

    def _look_at(self, followed: _Followed, now_s: float) -> None:
        file = followed.file
        size, deleted = file.look()
        if size != followed.size_bytes or (deleted and not followed.deleted):
            followed.grew_s = now_s
        followed.size_bytes, followed.deleted = size, deleted
        if size - file.offset > self._lag_limit_bytes:
            file.skip_to(size - self._lag_limit_bytes // 2)
        quiet = now_s - followed.grew_s > _DELETED_QUIET_S
        if deleted and quiet and not file.lines(1) and self._send_rest(file):
            self._let_go(followed)

    def _let_go(self, followed: _Followed) -> None:
        del self._followed[followed.file.key]
        with contextlib.suppress(ValueError):
            self._hot.remove(followed)
        followed.file.close()

    def _give_up(self, followed: _Followed) -> None:
        """One file that fails (a stale NFS handle, a bad disk) must not cost the others. Scans try again."""
        self.counts.unreadable += 1
        self._let_go(followed)

    def _gather(self) -> _Batch:
        """What fits one envelope. The file that fills it is the last to be asked next time."""
        batch = _Batch()
        asked = 0
        for followed in tuple(self._hot):
            asked += 1
            try:
                part = followed.file.lines(_LINES_AN_ENVELOPE - batch.lines)
            except OSError:
                self._give_up(followed)
                continue
            if part:
                batch.add(followed.file, part)
            if batch.full:
                break
        self._hot.rotate(-asked)
        return batch

    def _send(self, batch: _Batch) -> bool:
        """Send one envelope. Only then are the files' offsets advanced."""
        message = wire.encode(
            sender=self.sender,
            sequence=self._sequence,
            dropped=self.counts.dropped,
            lines=b"".join(part for _, part in batch.parts),
        )
        try:
            self._own.socket.send(message, zmq.NOBLOCK)
        except zmq.Again:
            self._blocked = True
            return False
        self._sequence += 1
        self.counts.lines += batch.lines
        for file, part in batch.parts:
            file.advance(len(part))
        return True

    def _send_rest(self, file: FollowedFile) -> bool:
        """Send a last line that will get no newline any more; whether there is nothing left of it."""
        batch = _Batch()
        if rest := file.rest():
            batch.add(file, rest)
        return not rest or self._send(batch)


def forward(
    log_prefix: Path,
    endpoint: str,
    stop: Callable[[], bool],
    *,
    reclaim: bool = False,
    events_file: Path | None = None,
) -> ForwardCounts:
    """Forward ``<log_prefix>-*.pfw`` to `endpoint` until `stop()` is true, drain, and say what was done.

    With an `events_file`, what the preloaded library writes there and SCR's own log are forwarded, too.
    """
    with contextlib.ExitStack() as stack:
        forwarder = Forwarder(log_prefix, endpoint, reclaim=reclaim)
        stack.callback(forwarder.close)
        if events_file is None:
            forwarder.run(stop)
            return forwarder.counts
        library = LibraryForwarder(events_file, endpoint, forwarder.counts)
        stack.callback(library.close)
        forwarder.run(stop, library.look)
        library.drain(DRAIN_LIMIT_S)
        return forwarder.counts


def _allow_many_files() -> None:
    """Every traced process has a file: take as many descriptors as the system allows this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
