"""SCR's own log, `$SCR_PREFIX/.scr/log`, as records: what SCR did, for how long, and with which dataset.

Rank 0 of the application (SCR_LOG_ENABLE=1; src/scr_log.c of SCR 3.1.0) and SCR's scripts append to it. Runs,
and jobs with the same prefix directory, follow each other or mix in one file:

    2026-11-21T08:53:22: host=n1, jobid=t1, event=START, procs=4, nodes=1
    2026-11-21T08:53:25: host=n1, jobid=t1, xfer=ENCODE, from=/tmp, to=/tmp/u, dset=2, secs=0.001, ...

The times are local, in whole seconds: an event's is when it was logged, a transfer's is its start. Names and
notes are quoted and not escaped: anything may be in them.
"""

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

import msgspec

from ..capture.follow import FollowedFile, ForwardCounts

LONGEST_LINE_BYTES = 1023
"""SCR's buffer, less its terminating zero; what does not fit is cut, and ends with a newline all the same."""
_SEARCH_LIMIT_BYTES = 64 * 1024 * 1024
_TAKES_AT_ONCE = 4
_LARGEST = 2.0**53

_HEAD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d): host=.*?, jobid=(?P<jobid>.*?),"
    r" (?P<kind>event|xfer)=(?P<name>[A-Za-z0-9_]+)(?P<rest>(?:, .*)?)",
    re.DOTALL,
)
_DSET = r"(?:, dset=(?P<dataset>-?\d{1,10}))?"
_SECS = r"(?:, secs=(?P<seconds>-?\d{1,15}\.\d{6}))?"
# lazy, so that a text ends where all that follows can be read: it may hold quotes, and even `", secs=`
_EVENT = re.compile(
    r'(?:, procs=(?P<procs>\d{1,9}), nodes=(?P<nodes>\d{1,9}))?(?:, note="(?P<note>.*?)")?'
    rf'{_DSET}(?:, name="(?P<dataset_name>.*?)")?{_SECS}',
    re.DOTALL,
)
_TRANSFER = re.compile(
    rf'(?:, from=.*?)?(?:, to=.*?)?{_DSET}(?:, name="(?P<dataset_name>.*?)")?{_SECS}'
    r"(?:, bytes=(?P<bytes>-?\d{1,16}\.\d{6}))?(?:, files=(?P<files>-?\d{1,10}))?",
    re.DOTALL,
)

_TEXTS = frozenset({"note", "dataset_name"})
_COUNTS = frozenset({"dataset", "procs", "nodes", "files"})


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line; what it does not have is None or empty. Of a `truncated` one only its head is read."""

    name: str
    is_transfer: bool = False
    time_s: float
    """Epoch seconds."""
    jobid: str = ""
    note: str = ""
    dataset: int | None = None
    dataset_name: str = ""
    seconds: float | None = None
    bytes: int | None = None
    files: int | None = None
    procs: int | None = None
    nodes: int | None = None
    truncated: bool = False


def parse_line(line: bytes, near_s: float | None = None) -> LogRecord | None:
    """Return the record in `line`, or None when it is no line of SCR's. Never raises.

    A time in the hour that clocks are set back by is the one nearer to `near_s` (default: now).
    """
    line = line.rstrip(b"\n")
    if len(line) >= LONGEST_LINE_BYTES:
        return None
    head = _HEAD.fullmatch(line.decode("utf-8", "replace"))
    if head is None:
        return None
    time_s = _epoch_s(head["time"], time.time() if near_s is None else near_s)
    if time_s is None:
        return None
    is_transfer = head["kind"] == "xfer"
    record = LogRecord(name=head["name"], is_transfer=is_transfer, time_s=time_s, jobid=head["jobid"])
    match = (_TRANSFER if record.is_transfer else _EVENT).fullmatch(head["rest"])
    if match is None:
        is_cut = len(line) == LONGEST_LINE_BYTES - 1
        return msgspec.structs.replace(record, truncated=True) if is_cut else None
    return msgspec.structs.replace(record, **dict(_fields(match)))


def _fields(match: re.Match[str]) -> Iterator[tuple[str, object]]:
    """Yield what the line says beside its head, as fields of a record."""
    for name, text in match.groupdict().items():
        if text is None:
            continue
        if name in _TEXTS:
            yield name, text
        elif name in _COUNTS:
            yield name, int(text)
        elif abs(number := float(text)) <= _LARGEST:
            yield name, number if name == "seconds" else int(number)


def _epoch_s(text: str, near_s: float) -> float | None:
    """Return a local time as epoch seconds; None for what no calendar has."""
    try:
        local = datetime.fromisoformat(text)
        twice = {local.replace(fold=fold).timestamp() for fold in (0, 1)}
    except (ValueError, OverflowError, OSError):
        return None
    return min(twice, key=lambda each: (abs(each - near_s), each))


class Tail:
    """What is appended to a file, in whole lines. Never raises; the file may appear later, or anew.

    `begin` returns where to begin in a file of so many bytes that is there at the first look.
    """

    def __init__(self, path: Path, begin: Callable[[int], int] = lambda _size_bytes: 0) -> None:
        self.path = path
        self._begin: Callable[[int], int] | None = begin
        self._file: FollowedFile | None = None

    def take(self) -> bytes:
        """Return the next lines, 256 KiB at most; empty when there is none."""
        try:
            file = self._open()
            deleted = file.look().deleted
            part = file.lines()
            file.advance(len(part))
        except OSError:
            return b""
        if deleted and not part:
            self.close()
        return part

    def close(self) -> None:
        """Let go of the file; a later :meth:`take` looks for it again, from its beginning."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> FollowedFile:
        if self._file is None:
            begin, self._begin = self._begin, None
            self._file = FollowedFile(self.path, ForwardCounts())
            if begin is not None:
                self._file.advance(begin(self._file.look().size_bytes))
        return self._file


class ScrLog(Tail):
    """What is appended to SCR's log, from the START of this run on.

    In a log that is there at the first look, that is the last START not later than `since_s` (epoch
    seconds; None: any). A later or truncated log is read from its beginning. Lines of other jobs than that
    START's are left out. Nothing here raises; the memory and the work of one take are bounded.
    """

    def __init__(self, path: Path, since_s: float | None = None, search_block_bytes: int = 1 << 20) -> None:
        super().__init__(path, self._start_of_run)
        self._since_s = since_s
        self._search_block_bytes = search_block_bytes
        self._jobid: str | None = None

    def records(self) -> list[LogRecord]:
        """Return the records since the last call, oldest first. What is beyond 1 MiB waits for the next."""
        taken: list[LogRecord] = []
        for part in islice(iter(self.take, b""), _TAKES_AT_ONCE):
            for record in filter(None, map(parse_line, part.split(b"\n"))):
                if self._jobid is None and record.name == "START":
                    self._jobid = record.jobid
                if self._jobid in (None, record.jobid):
                    taken.append(record)
        return taken

    def _start_of_run(self, size_bytes: int) -> int:
        """Return where this run's START lies; the end of what is there, when it is not among it."""
        with self.path.open("rb") as file:
            tail = b""
            step = -self._search_block_bytes
            for end in range(size_bytes, max(0, size_bytes - _SEARCH_LIMIT_BYTES), step):
                start = max(0, end + step)
                file.seek(start)
                block = file.read(end - start) + tail
                for place, line in _starts(block, is_whole=start == 0):
                    record = parse_line(line)
                    if record and (self._since_s is None or record.time_s <= self._since_s):
                        self._jobid = record.jobid
                        return start + place
                tail = block[:LONGEST_LINE_BYTES]
        return size_bytes


def _starts(block: bytes, *, is_whole: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the START lines of `block`, the last one first, with places. `is_whole`: at the beginning."""
    end = len(block)
    while (found := block.rfind(b", event=START, procs=", 0, end)) >= 0:
        place = block.rfind(b"\n", 0, found) + 1
        if place > 0 or is_whole:
            yield place, block[place : place + LONGEST_LINE_BYTES].partition(b"\n")[0]
        end = place
