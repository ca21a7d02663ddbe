"""Follows the files of DFTracer, of the preloaded library and of SCR, and pushes what they get to the daemon.

Runs in a process of its own, beside the application's. The files are the queue: lines that cannot be sent now
stay in them and are sent later.
"""

import os
import resource
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from pathlib import Path

from ...intents.events import Event
from ...scr_config.files import write_atomic
from ..scr_log.preload_events import LibraryEvents
from ..transport.sender import EnvelopeSocket, host_name
from .follow import CHUNK_BYTES, FollowedFile, ForwardCounts, Look

LAG_LIMIT_BYTES = 256 * 1024 * 1024
DRAIN_LIMIT_S = 2.0
LINGER_S = 0.5
DELETED_QUIET_S = 1.0
"""A deleted file may still have a writer: it is closed when it was quiet for longer than this."""

_LINES_AN_ENVELOPE = 256
_EVENTS_AN_ENVELOPE = 64
_ENVELOPES_A_ROUND = 16
_ENVELOPES_QUEUED = 32  # few: a line in the file survives this process, an envelope in the socket does not
_LINES_WORTH_WAKING = 128  # a wake-up costs 0.1 to 0.3 ms of a core that the application may want
_SHORTEST_SLEEP_S = 0.002
_LONGEST_SLEEP_S = 0.04
_SCAN_INTERVAL_S = 0.1
_SCAN_SHARE = 0.05  # of a core, at most, for looking at directories with very many files
_HOT_S = 1.0  # a file that was quiet for longer is looked at by scans only


def _socket(endpoint: str, sender: str) -> EnvelopeSocket:
    return EnvelopeSocket(endpoint, sender, queue_limit=_ENVELOPES_QUEUED, linger_s=LINGER_S)


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
    def is_full(self) -> bool:
        return self.lines >= _LINES_AN_ENVELOPE or self.size_bytes >= CHUNK_BYTES


class _TraceFile(FollowedFile):
    """A file, and its state at the last scan (times of :func:`time.monotonic`)."""

    def __init__(self, path: Path, counts: ForwardCounts, now_s: float, *, reclaim: bool) -> None:
        super().__init__(path, counts, reclaim=reclaim)
        self.seen = Look(0, deleted=False)
        self.changed_s = now_s

    def scan(self, now_s: float) -> None:
        """Look at the file, and note whether it changed."""
        before, self.seen = self.seen, self.look()
        if self.seen != before:
            self.changed_s = now_s

    def is_hot(self, now_s: float) -> bool:
        """Return whether to read it between scans too."""
        return now_s - self.changed_s <= _HOT_S or self.seen.size_bytes > self.offset


class Forwarder:
    """Pushes every line of ``<log_prefix>-*.pfw`` to `endpoint`.

    Envelopes hold 256 lines and 128 KiB at most (or one line of up to 1 MiB). Files of all processes are
    followed, also those that appear later. One that is deleted is read to its end first, one that is renamed
    or replaced is followed on, one that is truncated is read from its start again. When the daemon is away
    or slow the lines wait in the files; only when a file lags by more than `lag_limit_bytes` is its older
    part skipped, down to half of that, and counted. With `reclaim` the part that was sent is punched out of
    the files. A forwarder that is started anew begins at the files' start. For use by one thread.
    """

    def __init__(
        self,
        log_prefix: Path,
        endpoint: str,
        *,
        lag_limit_bytes: int = LAG_LIMIT_BYTES,
        deleted_quiet_s: float = DELETED_QUIET_S,
        reclaim: bool = False,
    ) -> None:
        self._directory = log_prefix.absolute().parent
        self._name_start = f"{log_prefix.name}-"
        self._lag_limit_bytes = lag_limit_bytes
        self._deleted_quiet_s = deleted_quiet_s
        self._reclaim = reclaim
        self.counts = ForwardCounts()
        self._socket = _socket(endpoint, f"forward:{host_name()}")
        self._is_blocked = False
        self._followed: dict[tuple[int, int], _TraceFile] = {}
        self._hot: deque[_TraceFile] = deque()
        self._compressed: set[str] = set()
        self._next_scan_s = 0.0

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are followed, by the names that they had when they were found."""
        return tuple(file.path for file in self._followed.values())

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
        """Do one round: scan for files when it is time, send new lines. Return the number of lines sent."""
        if time.monotonic() >= self._next_scan_s:
            self.scan()
        self._is_blocked = False
        sent = 0
        for _ in range(_ENVELOPES_A_ROUND):
            batch = self._gather()
            if not batch.parts or not self._send(batch):
                break
            sent += batch.lines
            if not batch.is_full:
                break
        return sent

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Send all there is, last lines without a newline included, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        self.scan()
        while self.poll() or self._is_blocked:
            if time.monotonic() >= deadline_s:
                return
            if self._is_blocked:
                time.sleep(_SHORTEST_SLEEP_S)
        for file in self._followed.values():
            self._send_rest(file)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close files and socket, waiting `linger_s` at most for envelopes under way."""
        for file in list(self._followed.values()):
            self._let_go(file)
        self._socket.close(linger_s)

    def lag_bytes(self) -> int:
        """Return the bytes that are in the files and not sent."""
        return sum(file.look().size_bytes - file.offset for file in self._followed.values())

    def scan(self) -> None:
        """Look for files that are new, deleted, truncated, grown or too far behind."""
        started_s = time.monotonic()
        for path, key in self._listed():
            if key not in self._followed:
                self._follow(path, started_s)
        for file in list(self._followed.values()):
            try:
                self._look_at(file, started_s)
            except OSError:
                self._give_up(file)
        self._hot = deque(file for file in self._followed.values() if file.is_hot(started_s))
        took_s = time.monotonic() - started_s
        self._next_scan_s = started_s + max(_SCAN_INTERVAL_S, took_s / _SCAN_SHARE)

    def _listed(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        """Yield the regular files that match, with device and inode. The directory may appear later."""
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.name.startswith(self._name_start):
                    continue
                if entry.name.endswith(".pfw.gz"):
                    self._compressed.add(entry.name)
                    self.counts.compressed_files = len(self._compressed)
                elif entry.name.endswith(".pfw"):
                    with suppress(OSError):  # gone between the two calls
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            yield Path(entry.path), (status.st_dev, status.st_ino)

    def _follow(self, path: Path, now_s: float) -> None:
        try:
            file = _TraceFile(path, self.counts, now_s, reclaim=self._reclaim)
        except FileNotFoundError:
            return
        except OSError:
            self.counts.unreadable += 1
            return
        if file.key in self._followed:  # renamed between the two calls
            file.close()
        else:
            self._followed[file.key] = file

    def _look_at(self, file: _TraceFile, now_s: float) -> None:
        file.scan(now_s)
        size_bytes, is_deleted = file.seen
        if size_bytes - file.offset > self._lag_limit_bytes:
            file.skip_to(size_bytes - self._lag_limit_bytes // 2)
        is_quiet = now_s - file.changed_s > self._deleted_quiet_s
        if is_deleted and is_quiet and not file.lines(1) and self._send_rest(file):
            self._let_go(file)

    def _let_go(self, file: _TraceFile) -> None:
        del self._followed[file.key]
        with suppress(ValueError):
            self._hot.remove(file)
        file.close()

    def _give_up(self, file: _TraceFile) -> None:
        """Close a file that fails (a stale NFS handle, a bad disk): scans try again, the others go on."""
        self.counts.unreadable += 1
        self._let_go(file)

    def _gather(self) -> _Batch:
        """Read what fits one envelope. The file that fills it is the last to be asked next time."""
        batch = _Batch()
        asked = 0
        for file in tuple(self._hot):
            asked += 1
            try:
                part = file.lines(_LINES_AN_ENVELOPE - batch.lines)
            except OSError:
                self._give_up(file)
                continue
            if part:
                batch.add(file, part)
            if batch.is_full:
                break
        self._hot.rotate(-asked)
        return batch

    def _send(self, batch: _Batch) -> bool:
        """Send one envelope. Only then are the files' offsets advanced."""
        lines = b"".join(part for _, part in batch.parts)
        if not self._socket.push(lines=lines, dropped=self.counts.dropped):
            self._is_blocked = True
            return False
        self.counts.lines += batch.lines
        for file, part in batch.parts:
            file.advance(len(part))
        return True

    def _send_rest(self, file: FollowedFile) -> bool:
        """Send a last line that will get no newline any more; return whether there is nothing left of it."""
        batch = _Batch()
        if rest := file.rest():
            batch.add(file, rest)
        return not rest or self._send(batch)


class LibraryForwarder:
    """Pushes what the preloaded library wrote to `events_file`, and SCR to its log, as events.

    The file may appear later. While the daemon is away or slow the rest waits in it. A forwarder that is
    started anew reads it from its start, since an event may rest on lines long before it; the time of the
    last event that was sent, kept in ``<events_file>.sent``, tells which are new. For use by one thread.
    """

    def __init__(self, events_file: Path, endpoint: str, counts: ForwardCounts) -> None:
        self.counts = counts
        self._library = LibraryEvents(events_file)
        self._mark = events_file.with_name(f"{events_file.name}.sent")
        self._sent_until_s = self._last_s = _marked_s(self._mark)
        self._is_new = self._sent_until_s == -inf
        self._socket = _socket(endpoint, f"library:{host_name()}")
        self._next_look_s = 0.0
        self._waiting: deque[Event] = deque()

    def look(self) -> None:
        """Do a round when it is time for one: outputs are far rarer than the lines of a trace."""
        if time.monotonic() >= self._next_look_s:
            self._next_look_s = time.monotonic() + _SCAN_INTERVAL_S
            self.poll()

    def poll(self) -> bool:
        """Do one round: read new events and send them. Return whether some wait, or more may come."""
        before = self.counts.events
        if not self._waiting:
            self._waiting.extend(self._new_events())
        if self._waiting and self._send():
            with suppress(OSError):  # without the mark a later forwarder repeats them
                write_atomic(self._mark, f"{self._last_s!r}\n".encode(), durable=False)
        self.counts.events_garbage = self._library.counts.garbage
        return bool(self._waiting) or self.counts.events > before

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Send all there is, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        while self.poll() and time.monotonic() < deadline_s:
            if self._waiting:
                time.sleep(_SHORTEST_SLEEP_S)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close files and socket, waiting `linger_s` at most for envelopes under way."""
        self._library.close()
        self._socket.close(linger_s)

    def _new_events(self) -> Iterator[Event]:
        """Yield the events since the last call, without those that an earlier forwarder has sent.

        An event without a time (the settings of a run) is new when the one before it is.
        """
        for event in self._library.take():
            time_s = _time_of(event)
            if time_s is not None:
                self._is_new = time_s > self._sent_until_s
                self._last_s = max(self._last_s, time_s)
            if self._is_new:
                yield event
            else:
                self.counts.events_repeated += 1

    def _send(self) -> bool:
        """Send all that waits, as far as there is room; return whether it was all."""
        while events := tuple(islice(self._waiting, _EVENTS_AN_ENVELOPE)):
            if not self._socket.push(events=events):
                return False
            self.counts.events += len(events)
            for _ in events:
                self._waiting.popleft()
        return True


def _time_of(event: Event) -> float | None:
    """Return when it happened: the end of an interval. None for an event that does not say."""
    for name in ("end_s", "time_s"):
        if isinstance(time_s := getattr(event, name, None), float | int):
            return float(time_s)
    return None


def _marked_s(mark: Path) -> float:
    """Return the time kept in `mark`; before all times when there is none, or none that can be."""
    try:
        time_s = float(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -inf
    return time_s if time_s <= time.time() else -inf


def forward(
    log_prefix: Path,
    endpoint: str,
    stop: Callable[[], bool],
    *,
    reclaim: bool = False,
    events_file: Path | None = None,
) -> ForwardCounts:
    """Forward ``<log_prefix>-*.pfw`` to `endpoint` until `stop()` is true, drain, and return the counts.

    With an `events_file`, the events of the preloaded library and of SCR's own log are forwarded, too.
    """
    with ExitStack() as stack:
        forwarder = Forwarder(log_prefix, endpoint, reclaim=reclaim)
        stack.callback(forwarder.close)
        if events_file is None:
            forwarder.run(stop)
            return forwarder.counts
        library = LibraryForwarder(events_file, endpoint, forwarder.counts)
        stack.callback(library.close)
        forwarder.run(stop, library.look)
        library.drain()
        return forwarder.counts


def _allow_many_files() -> None:
    """Take as many descriptors as the system allows this process: every traced process has a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
