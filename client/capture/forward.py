"""Follows the files of DFTracer, of the preloaded library and of SCR, and pushes what they say to the daemon.

Runs in a process of its own, beside the application's. DFTracer's lines are summed up here, where they are.
The files are the queue: what cannot be sent now stays in them and is sent later.
"""

import ctypes
import os
import resource
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from math import inf
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from ...intents.events import Event, TraceDigest
from ...intents.trace.decoder import TraceDecoder
from ...scr_config.files import write_atomic
from ..scr_log.preload_events import LibraryEvents
from ..transport.sender import EnvelopeSocket, host_name
from .follow import FollowedFile, ForwardCounts, Look
from .scanner import new_scanner

LAG_LIMIT_BYTES = 256 * 1024 * 1024
DRAIN_LIMIT_S = 2.0
LINGER_S = 0.5
DELETED_QUIET_S = 1.0
"""A deleted file may still have a writer: it is closed when it was quiet for longer than this."""

_EVENTS_AN_ENVELOPE = 64
_DIGESTS_WAITING = 4
_ENVELOPES_QUEUED = 32  # few: a line in the file survives this process, an envelope in the socket does not
# digests become rarer with the forwarder's age, within these bounds: the daemon's journal keeps each of them
_PACE = 0.01
_SEND_S = (0.1, 2.0)
_ROUND_S = 0.05
_PAUSE_S = 0.1
_IDLE_PAUSE_S = 0.2  # a wake-up costs 0.1 to 0.3 ms of a core that the application may want
_RETRY_S = 0.005
_FREED_BYTES = 8 * 1024 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_SCAN_INTERVAL_S = 0.1
_SCAN_SHARE = 0.05  # of a core, at most, for looking at directories with very many files
_HOT_S = 1.0  # a file that was quiet for longer is looked at by scans only


def _socket(endpoint: str, sender: str) -> EnvelopeSocket:
    return EnvelopeSocket(endpoint, sender, queue_limit=_ENVELOPES_QUEUED, linger_s=LINGER_S)


class LineSink(Protocol):
    """Where the lines of a forwarder go: :class:`Digests`."""

    def learn(self, lines: bytes) -> None:
        """Take in what lines explain that were sent already, by a forwarder before this one."""

    def add(self, lines: bytes) -> int:
        """Take in whole lines, and count them. 0: there is no room, nothing is taken."""

    def send(self, dropped: int, *, final: bool = False) -> bool:
        """Send what was taken in; `dropped` lines were skipped so far. Return whether nothing waits any more.

        `final`: no more comes.
        """

    def close(self, linger_s: float) -> None:
        """Let go, waiting `linger_s` at most for what is under way."""


class Digests:
    """Sums lines up and pushes the sums, as :class:`.TraceDigest` events, to `endpoint`.

    `tiers` are those of :class:`.TraceDecoder`. While the daemon is away or slow a few sums wait here, and
    then the lines wait in their files.
    """

    def __init__(self, endpoint: str, tiers: Mapping[str, str]) -> None:
        self._source = f"forward:{host_name()}"
        self._socket = _socket(endpoint, self._source)
        self._decoder = TraceDecoder(tiers, new_scanner())
        self._waiting: deque[TraceDigest] = deque()
        self._dropped = 0

    def learn(self, lines: bytes) -> None:
        """Take in the names and processes in lines that were sent already, and count nothing."""
        self._sum_up()
        self._decoder.feed(lines, self._source)
        self._decoder.take(final=True)

    def add(self, lines: bytes) -> int:
        """Sum whole lines up, as :meth:`LineSink.add` says."""
        return self._decoder.feed(lines, self._source) if len(self._waiting) < _DIGESTS_WAITING else 0

    def send(self, dropped: int, *, final: bool = False) -> bool:
        """Send what was summed up since the last call, as :meth:`LineSink.send` says."""
        self._sum_up(final=final)
        while self._waiting and self._push(dropped, self._waiting[0]):
            self._waiting.popleft()
        return not self._waiting and (dropped == self._dropped or self._push(dropped))

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close the socket, as :meth:`LineSink.close` says."""
        self._socket.close(linger_s)

    def _sum_up(self, *, final: bool = False) -> None:
        if (digest := self._decoder.take(final=final)) is not None:
            self._waiting.append(digest)

    def _push(self, dropped: int, *events: Event) -> bool:
        if not self._socket.push(events=events, dropped=dropped):
            return False
        self._dropped = dropped
        return True


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
    """Reads every line of ``<log_prefix>-*.pfw`` as the files grow, into `sink`.

    Files of all processes are followed, also those that appear later. One that is deleted is read to its end
    first, one that is renamed or replaced is followed on, one that is truncated is read from its start again.
    When the sink has no room the lines wait in the files; only when a file lags by more than
    `lag_limit_bytes` is its older part skipped, down to half of that, and counted. With `reclaim` the part
    that was sent is punched out of the files, but for their beginning. A forwarder that is started anew goes
    on where the one before it had sent all, which is kept in ``<log_prefix>.sent``. For use by one thread.
    """

    def __init__(
        self,
        log_prefix: Path,
        sink: LineSink,
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
        self._sink = sink
        self._is_blocked = self._is_behind = self._is_unsent = False
        self._mark = log_prefix.absolute().with_name(f"{log_prefix.name}.sent")
        self._sent_before = _marked_offsets(self._mark)
        self._followed: dict[tuple[int, int], _TraceFile] = {}
        self._hot: deque[_TraceFile] = deque()
        self._compressed: set[str] = set()
        self._started_s = time.monotonic()
        self._next_scan_s = self._next_send_s = 0.0

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are followed, by the names that they had when they were found."""
        return tuple(file.path for file in self._followed.values())

    def run(self, ended: Callable[[float], bool], beside: Callable[[], object] = lambda: None) -> None:
        """Forward until `ended(pause_s)`, which waits that long at most, is true; then drain.

        Calls `beside` each round.
        """
        _allow_many_files()
        _keep_freed_memory()
        pause_s = 0.0
        while not ended(pause_s):
            is_idle = not self.poll() and not self._is_unsent
            pause_s = 0.0 if self._is_behind else _IDLE_PAUSE_S if is_idle else _PAUSE_S
            beside()
        self.drain()

    def poll(self) -> int:
        """Do one round: scan for files when it is time, take in new lines. Return their number."""
        now_s = time.monotonic()
        if now_s >= self._next_scan_s:
            self.scan()
        self._is_blocked = self._is_behind = False
        taken = 0
        while lines := self._take_chunk_of_each():
            taken += lines
            if time.monotonic() >= now_s + _ROUND_S:
                self._is_behind = True
                break
        if (self._is_unsent or self._is_blocked) and now_s >= self._next_send_s:
            self._next_send_s = now_s + sorted((*_SEND_S, _PACE * (now_s - self._started_s)))[1]
            self._is_blocked |= not self._send()
        return taken

    def _send(self, *, final: bool = False) -> bool:
        """Send what was taken in. What was sent is marked, and then given back to the file system."""
        if not self._sink.send(self.counts.dropped, final=final):
            return False
        self._is_unsent = False
        offsets = {_mark_key(file.key): file.offset for file in self._followed.values()}
        with suppress(OSError):  # without the mark a later forwarder repeats them
            write_atomic(self._mark, msgspec.json.encode(offsets), durable=False)
        for file in self._followed.values():
            file.reclaim()
        return True

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Send all there is, last lines without a newline included, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        self.scan()
        while self.poll() or self._is_blocked:
            if time.monotonic() >= deadline_s:
                return
            if self._is_blocked:
                time.sleep(_RETRY_S)
        for file in self._followed.values():
            self._take_rest(file)
        while not self._send(final=True) and time.monotonic() < deadline_s:
            time.sleep(_RETRY_S)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close files and sink, waiting `linger_s` at most for what is under way."""
        for file in list(self._followed.values()):
            self._let_go(file)
        self._sink.close(linger_s)

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
            return
        self._followed[file.key] = file
        try:
            for lines in file.go_on_at(self._sent_before.pop(_mark_key(file.key), 0)):
                self._sink.learn(lines)
        except OSError:
            self._give_up(file)

    def _look_at(self, file: _TraceFile, now_s: float) -> None:
        file.scan(now_s)
        size_bytes, is_deleted = file.seen
        if size_bytes - file.offset > self._lag_limit_bytes:
            file.skip_to(size_bytes - self._lag_limit_bytes // 2)
            file.reclaim()
        is_quiet = now_s - file.changed_s > self._deleted_quiet_s
        if is_deleted and is_quiet and not file.lines() and self._take_rest(file):
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

    def _take_chunk_of_each(self) -> int:
        """Take in a chunk of each file that has one; return the number of lines."""
        taken = 0
        for file in tuple(self._hot):
            try:
                chunk = file.lines()
            except OSError:
                self._give_up(file)
                continue
            taken += self._take(file, chunk) if chunk else 0
        return taken

    def _take(self, file: FollowedFile, lines: bytes) -> int:
        """Take lines in, and count them. Only then is the file's offset advanced."""
        taken = self._sink.add(lines)
        if not taken:
            self._is_blocked = True
            return 0
        self.counts.lines += taken
        self._is_unsent = True
        file.advance(len(lines))
        return taken

    def _take_rest(self, file: FollowedFile) -> bool:
        """Take in a last line that gets no newline any more; return whether there is nothing left of it."""
        rest = file.rest()
        return not rest or self._take(file, rest) > 0


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
                time.sleep(_RETRY_S)

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


def _mark_key(key: tuple[int, int]) -> str:
    return ":".join(map(str, key))


def _marked_offsets(mark: Path) -> dict[str, int]:
    """Return the offsets kept in `mark`, of files by device and inode; none when there are none."""
    try:
        return msgspec.json.decode(mark.read_bytes(), type=dict[str, Annotated[int, msgspec.Meta(ge=0)]])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


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
    ended: Callable[[float], bool],
    *,
    tiers: Mapping[str, str] = {},
    events_file: Path | None = None,
) -> ForwardCounts:
    """Forward ``<log_prefix>-*.pfw`` to `endpoint` until `ended` (of seconds to wait), and return the counts.

    What was sent is punched out of the files. `tiers` are those of :class:`.TraceDecoder`. With an
    `events_file`, the events of the preloaded library and of SCR's own log are forwarded, too.
    """
    with ExitStack() as stack:
        forwarder = Forwarder(log_prefix, Digests(endpoint, tiers), reclaim=True)
        stack.callback(forwarder.close)
        if events_file is None:
            forwarder.run(ended)
            return forwarder.counts
        library = LibraryForwarder(events_file, endpoint, forwarder.counts)
        stack.callback(library.close)
        forwarder.run(ended, library.look)
        library.drain()
        return forwarder.counts


def _keep_freed_memory() -> None:
    """Have malloc keep what chunks were read into: new pages for each cost as much as to scan them."""
    with suppress(AttributeError, OSError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            mallopt(parameter, _FREED_BYTES)


def _allow_many_files() -> None:
    """Take as many descriptors as the system allows this process: every traced process has a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
