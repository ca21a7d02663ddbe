"""Follows the files of DFTracer, of the preloaded library and of SCR, and pushes what they say to the daemon.

Runs in a process of its own, beside the application's. DFTracer's lines are summed up here, where they are.
The files are the queue: what cannot be sent now stays in them and is sent later.
"""

import gc
import os
import resource
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from ...heap import set_limits
from ...scr_config.files import write_atomic
from ..paths import FIRST_ONLY
from .alike import AlikeProcesses
from .digest_sender import DigestSender
from .follow import FollowedFile, ForwardCounts, Look, file_key
from .library_forwarder import DRAIN_LIMIT_S, RETRY_S, LibraryForwarder
from .watch import Watch

LAG_LIMIT_BYTES = 256 * 1024 * 1024
DELETED_QUIET_S = 1.0
"""A deleted file may still have a writer: it is closed when it was quiet for longer than this."""

# digests become rarer with the forwarder's age, within these bounds: the daemon's journal keeps each of them
_PACE = 0.01
_SEND_S = (0.1, 2.0)
_ROUND_S = 0.05
_PAUSE_S = 0.1  # a round costs 0.1 to 0.3 ms of a core that the application may want
_UNWATCHED_S, _WATCHED_S = 0.2, 2.0  # from one look at what is quiet to the next, unless it changes
_FREED_BYTES = 8 * 1024 * 1024
_SCAN_SHARE = 0.05  # of a core, at most, for looking at directories with very many files
_HOT_S = 1.0  # a file that was quiet for longer is looked at by scans only


class Ended(Protocol):
    """Waits as long as is said at most, or until one of the descriptors is readable."""

    def __call__(self, seconds: float, *fds: int) -> bool:
        """Return whether to end."""


class _TraceFile(FollowedFile):
    """A file, and its state at the last scan (times of :func:`time.monotonic`)."""

    def __init__(self, path: Path, counts: ForwardCounts, now_s: float) -> None:
        super().__init__(path, counts, reclaim=True)
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
    `lag_limit_bytes` is its older part skipped, down to half of that, and counted. What was sent is punched
    out of the files, but for their beginning. A forwarder that is started anew goes on where the one before
    it had sent all, which is kept in ``<log_prefix>.sent``. For use by one thread.
    """

    def __init__(
        self,
        log_prefix: Path,
        sink: DigestSender,
        *,
        lag_limit_bytes: int = LAG_LIMIT_BYTES,
        deleted_quiet_s: float = DELETED_QUIET_S,
    ) -> None:
        self.prefix = log_prefix.absolute()
        self._directory = self.prefix.parent
        self._name_start = f"{log_prefix.name}-"
        self._lag_limit_bytes = lag_limit_bytes
        self._deleted_quiet_s = deleted_quiet_s
        self.counts = ForwardCounts()
        self._sink = sink
        self._is_blocked = self._is_behind = self._is_unsent = self._is_unscanned = False
        self._first_only = self.prefix.with_name(FIRST_ONLY)
        sink.alike = AlikeProcesses(_number_in(self._first_only))
        self._is_to_compare = False
        self._mark = self.prefix.with_name(f"{log_prefix.name}.sent")
        self._sent_before = _marked_offsets(self._mark)
        self._followed: dict[str, _TraceFile] = {}
        self._hot: deque[_TraceFile] = deque()
        self._compressed: set[str] = set()
        self._started_s = time.monotonic()
        self._next_scan_s = self._next_send_s = 0.0

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are followed, by the names that they had when they were found."""
        return tuple(file.path for file in self._followed.values())

    def run(self, ended: Ended, library: LibraryForwarder | None = None) -> None:
        """Forward, and have the `library` forward, until it has `ended`; then drain."""
        _allow_many_files()
        # new pages for what each chunk is read into cost as much as to scan it
        set_limits(own_pages_bytes=_FREED_BYTES, kept_bytes=_FREED_BYTES)
        gc.freeze()  # what is here now stays, and need not be looked at again
        pause_s, is_idle = 0.0, False
        with closing(Watch()) as watch:
            while not ended(pause_s) and not (is_idle and self._sleep(watch, library, ended)):
                is_idle = not self._round(library)
                pause_s = 0.0 if self._is_behind else _PAUSE_S
        self.drain()

    def _round(self, library: LibraryForwarder | None) -> bool:
        """Do a round of both; return whether there is more to do, or may be."""
        taken = self.poll()
        has_events = library is not None and library.poll()
        is_under_way = self._is_unsent or self._is_blocked or self._is_to_compare or self._is_unscanned
        return bool(taken or has_events or is_under_way)

    def _sleep(self, watch: Watch, library: LibraryForwarder | None, ended: Ended) -> bool:
        """Wait until something changes, or it is time to look all the same; return whether it has `ended`."""
        watched = [watch.add(self._directory, self._is_trace), library is None or watch.add(library.path)]
        until_s = time.monotonic() + (_WATCHED_S if all(watched) else _UNWATCHED_S)
        while not watch.changed():
            left_s = until_s - time.monotonic()
            if left_s <= 0 or ended(left_s, *watch.fds):
                return left_s > 0
        self._is_unscanned = True
        if library is not None and not library.has_begun:
            return ended(0.0)  # what the daemon loads when a run begins is no matter of its first checkpoint
        return ended(_PAUSE_S)  # what one output writes in a row is one round's

    def _is_trace(self, name: str) -> bool:
        return name.startswith(self._name_start) and name.endswith((".pfw", ".pfw.gz"))

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
        elif self._is_to_compare and not taken:
            self._compare()
        return taken

    def _send(self, *, final: bool = False) -> bool:
        """Send what was taken in. What was sent is marked, and then given back to the file system."""
        if not self._sink.send(self.counts.dropped, final=final):
            return False
        self._is_unsent = False
        self._is_to_compare = True
        offsets = {file.key: file.offset for file in self._followed.values()}
        with suppress(OSError):  # without the mark a later forwarder repeats them
            write_atomic(self._mark, msgspec.json.encode(offsets), durable=False)
        for file in self._followed.values():
            file.reclaim()
        return True

    def _compare(self) -> None:
        """Let only the node's first rank be traced where all do the same, until the daemon wants all.

        In a round without new lines: all ranks end an output together, and have written theirs.
        """
        self._is_to_compare = False
        alike = self._sink.alike
        if alike.standing_for > 1:
            if alike.has_another:
                self._first_only.unlink(missing_ok=True)
            if not self._first_only.exists():
                self._sink.alike = AlikeProcesses()
        elif (count := alike.count()) > 1:
            with suppress(OSError):
                self._first_only.write_text(f"{count}\n", encoding="ascii")
                alike.standing_for = count

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Send all there is, last lines without a newline included, or as much as `limit_s` allows."""
        deadline_s = time.monotonic() + limit_s
        self.scan()
        while self.poll() or self._is_blocked:
            if time.monotonic() >= deadline_s:
                return
            if self._is_blocked:
                time.sleep(RETRY_S)
        for file in self._followed.values():
            self._take_rest(file)
        while not self._send(final=True) and time.monotonic() < deadline_s:
            time.sleep(RETRY_S)

    def close(self) -> None:
        """Close files and sink."""
        for file in list(self._followed.values()):
            self._let_go(file)
        self._sink.close()

    def scan(self) -> None:
        """Look for files that are new, deleted, truncated, grown or too far behind."""
        started_s = time.monotonic()
        self._is_unscanned = False
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
        self._next_scan_s = started_s + max(_PAUSE_S, took_s / _SCAN_SHARE)

    def _listed(self) -> Iterator[tuple[Path, str]]:
        """Yield the regular files that match, with their keys. The directory may appear later."""
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if not self._is_trace(entry.name):
                    continue
                if entry.name.endswith(".gz"):
                    self._compressed.add(entry.name)
                    self.counts.compressed_files = len(self._compressed)
                else:
                    with suppress(OSError):  # gone between the two calls
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            yield Path(entry.path), file_key(status)

    def _follow(self, path: Path, now_s: float) -> None:
        try:
            file = _TraceFile(path, self.counts, now_s)
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
            for lines in file.go_on_at(self._sent_before.pop(file.key, 0)):
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


def _number_in(path: Path) -> int:
    """Return the number in a file; 1 where there is none."""
    try:
        return max(1, int(path.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 1


def _marked_offsets(mark: Path) -> dict[str, int]:
    """Return the offsets kept in `mark`, of files by their keys; none when there are none."""
    try:
        return msgspec.json.decode(mark.read_bytes(), type=dict[str, Annotated[int, msgspec.Meta(ge=0)]])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def forward(
    log_prefix: Path,
    endpoint: str,
    ended: Ended,
    *,
    tiers: Mapping[str, str] = {},
    events_file: Path | None = None,
) -> ForwardCounts:
    """Forward ``<log_prefix>-*.pfw`` to `endpoint` until it has `ended`, and return the counts.

    What was sent is punched out of the files. `tiers` are those of :class:`.TraceDecoder`. With an
    `events_file`, the events of the preloaded library and of SCR's own log are forwarded, too.
    """
    with closing(Forwarder(log_prefix, DigestSender(endpoint, tiers))) as forwarder:
        if events_file is None:
            forwarder.run(ended)
        else:
            with closing(LibraryForwarder(events_file, endpoint, forwarder.counts)) as library:
                forwarder.run(ended, library)
                library.drain()
        return forwarder.counts


def _allow_many_files() -> None:
    """Take as many descriptors as the system allows this process: every traced process has a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
