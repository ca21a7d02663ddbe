"""Read trace files on all cores, each to a :class:`.TraceTable`; a file that was read before is remembered.

Scanning (C) and inflating (isal) leave Python's lock alone. Each thread begins with files of its own; when
they are done it helps with those of the others, block by block, each with a decoder of its own: what it
cannot explain another part explains. That needs lines that mean the same in any order. Where they do not (a
process that says its unit of time, hashes of generation 1, which collide) one thread reads the file alone.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event, Lock, Thread
from typing import NamedTuple, TypeAlias

import msgspec

from ..client.capture.scanner import new_scanner
from ..intents.events import TraceDigest
from ..intents.trace.decoder import TraceDecoder
from ..intents.trace.digest import Places
from ..intents.trace.names import Names
from ..intents.trace.rows import BIN_NS, FileClasses, RowTable
from ..intents.trace.scanner_protocol import Scanner
from .salvage import Damage
from .table import JobThread, Reading, ThreadSpan, TraceTable, add_row, add_tables
from .traces import find_traces, whole_lines

BLOCK_BYTES = 1 << 20
TABLE_VERSION = 1
"""Of what is remembered: a table of another version is made anew."""

PlacesOf: TypeAlias = Callable[[Mapping[str, str]], Places]

_BLOCKS_A_TAKE = 8
_SPANS_A_TAKE = 1000
_TICK_S = 0.1


class _Block(NamedTuple):
    """Whole lines of the trace `source`, and what its lines explain of files."""

    source: str
    files: Names
    lines: bytes


@dataclass
class Progress:
    """How far the reading is: `done_bytes` of `total_bytes` in all files, as they lie on disk.

    `stop` asks the threads to end; what they have read is what there is then.
    """

    files: int = 0
    total_bytes: int = 0
    done_files: int = 0
    done_bytes: int = 0
    lines: int = 0
    remembered: int = 0
    """Files that had not to be read again."""
    stop: bool = False
    on_tick: Callable[[], None] = lambda: None
    """Called by the thread that waits, a few times a second."""

    def expect(self, files: Sequence[Path]) -> None:
        """Add what is to be read."""
        self.files += len(files)
        self.total_bytes += sum(map(file_size, files))


@dataclass(frozen=True)
class TableCache:
    """Tables of files that were read before, in a directory of one's own."""

    directory: Path
    is_read: bool = True
    """Whether tables are taken from it; they are put into it in any case."""
    limit_bytes: int = 512 << 20

    def path_of(self, trace: Path, tiers: Mapping[str, str]) -> Path:
        """Return where the table of `trace` is remembered, as the file is now. Raises OSError."""
        status = trace.stat()
        key = (TABLE_VERSION, str(trace.resolve()), status.st_size, status.st_mtime_ns, sorted(tiers.items()))
        return self.directory / f"{hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()}.table"

    def get(self, trace: Path, tiers: Mapping[str, str]) -> TraceTable | None:
        """Return the table of `trace`, None where there is none that is of any use."""
        if not self.is_read:
            return None
        with suppress(OSError, msgspec.MsgspecError):
            path = self.path_of(trace, tiers)
            table = msgspec.msgpack.decode(path.read_bytes(), type=TraceTable)
            with suppress(OSError):
                os.utime(path)  # those that were not used for longest go first
            return table
        return None

    def put(self, trace: Path, tiers: Mapping[str, str], table: TraceTable) -> None:
        """Remember the table of `trace`; where that fails, it is read again the next time."""
        with suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(msgspec.msgpack.encode(table))
            Path(file.name).replace(self.path_of(trace, tiers))

    def files(self) -> list[tuple[float, int, Path]]:
        """Return when each table was used last (epoch seconds), its bytes and its path."""
        found: list[tuple[float, int, Path]] = []
        for path in self.directory.glob("*"):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found

    def prune(self, limit_bytes: int | None = None) -> None:
        """Remove tables until there are no more than `limit_bytes` (default: its own), oldest use first."""
        found = sorted(self.files())
        excess = sum(size for _, size, _ in found) - (
            self.limit_bytes if limit_bytes is None else limit_bytes
        )
        for _, size, path in found:
            if excess <= 0:
                break
            with suppress(OSError):
                path.unlink()
            excess -= size


def user_cache() -> TableCache:
    """Return the cache below the user's directory for such."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return TableCache(Path(base).expanduser() / "scrtune" / "tables")


def read_table(  # noqa: PLR0913 - what is read, and how
    paths: Sequence[Path],
    tiers: Mapping[str, str],
    *,
    cache: TableCache | None = None,
    progress: Progress | None = None,
    threads: int = 0,
    places: PlacesOf = FileClasses,
) -> TraceTable:
    """Return the table of all traces in `paths`; `tiers` maps directories to ``cache`` or ``prefix``.

    Reads on `threads` (0: as many as there are cores). `places` makes of the tiers what is summed up
    together, by default classes of files; a cache is for these alone. Raises :class:`.TraceNotFoundError`.
    """
    files = find_traces(paths)
    state = progress or Progress()
    state.expect(files)
    table = read_files(files, tiers, cache=cache, progress=state, threads=threads, places=places)
    if cache is not None and state.remembered < state.files:
        cache.prune()
    return table


def read_files(  # noqa: PLR0913 - as read_table
    files: Sequence[Path],
    tiers: Mapping[str, str],
    *,
    cache: TableCache | None,
    progress: Progress,
    threads: int,
    places: PlacesOf = FileClasses,
) -> TraceTable:
    """Return the table of `files`, as :func:`read_table` does of what it has found."""
    done: list[TraceTable] = []
    traces: list[_Trace] = []
    for file in files:
        known = cache.get(file, tiers) if cache is not None else None
        if known is None:
            traces.append(_Trace(file, partial(places, tiers), progress))
        else:
            progress.done_files += 1
            progress.remembered += 1
            progress.done_bytes += file_size(file)
            progress.lines += known.reading.lines
            done.append(known)
    traces.sort(key=lambda trace: -file_size(trace.path))  # large ones are not the last to end
    _run(traces, threads or os.cpu_count() or 1, progress)
    for trace in traces:
        table = trace.table()
        if cache is not None and not table.reading.unread:
            cache.put(trace.path, tiers, table)
        done.append(table)
    return add_tables(done)


def file_size(path: Path) -> int:
    """Return the size of a file, 0 of one that cannot be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _run(traces: "Sequence[_Trace]", count: int, state: Progress) -> None:
    """Read `traces` on `count` threads. An interrupt ends all of them early."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            scanner = new_scanner(BIN_NS)  # one of 14 MB for all that the thread reads
            for trace in (*traces[number::count], *traces):
                if not state.stop:
                    trace.read(scanner)
        except BaseException as error:  # noqa: BLE001 - goes on in the thread that waits
            failures.append(error)
            state.stop = True

    workers = [Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        while worker.is_alive():
            try:
                worker.join(_TICK_S)
                state.on_tick()
            except KeyboardInterrupt:
                state.stop = True
    if failures:
        raise failures[0]


@dataclass
class _Trace:
    """One file, or an archive of several, read by one thread or by several."""

    path: Path
    new_places: Callable[[], Places]
    progress: Progress
    lock: Lock = field(default_factory=Lock)
    parts: list[TraceTable] = field(default_factory=list)
    sources: set[str] = field(default_factory=set)
    """Of an archive, its traces."""
    damage: list[Damage] = field(default_factory=list)
    readers: int = 0
    is_claimed: bool = False
    is_shared: bool = False
    is_ordered: bool = False
    """Its lines have a meaning by their order."""
    is_read: bool = False
    is_again: bool = False
    has_begun: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.blocks = self._blocks()

    def read(self, scanner: Scanner | None) -> None:
        """Read the file, or what others have left of it."""
        with self.lock:
            is_first, self.is_claimed = not self.is_claimed, True
        try:
            if not is_first:
                self.has_begun.wait()
            if not self.is_read and (is_first or self.is_shared):
                self._read_part(scanner)
        finally:
            self.has_begun.set()

    def _read_part(self, scanner: Scanner | None) -> None:
        with self.lock:
            self.readers += 1
        self.parts += self._tables(iter(self._next, None), scanner)

    def _tables(self, blocks: Iterable[_Block], scanner: Scanner | None) -> Iterator[TraceTable]:
        """Yield the tables of `blocks`: one, but of an archive one for each of its traces."""
        for (source, files), of_source in groupby(blocks, key=lambda block: (block.source, block.files)):
            part = _Part(source, self.new_places(), files, scanner)
            for block in of_source:
                count = part.feed(block.lines)
                self.progress.lines += 0 if self.is_again else count
                if not self.has_begun.is_set():
                    self.is_shared = not part.is_ordered
                    self.has_begun.set()
            self.sources.add(source)
            self.is_ordered |= part.is_ordered
            yield part.table()

    def _blocks(self) -> Iterator[_Block]:
        for source, found in groupby(whole_lines(self.path, self.damage, self._advance), key=itemgetter(0)):
            files, pieces, size = Names(), list[bytes](), 0
            for _, lines in found:
                pieces.append(lines)
                size += len(lines)
                if size >= BLOCK_BYTES:
                    yield _Block(source, files, b"".join(pieces))
                    pieces, size = [], 0
            if pieces:
                yield _Block(source, files, b"".join(pieces))

    def _advance(self, read_bytes: int) -> None:
        self.progress.done_bytes += 0 if self.is_again else read_bytes

    def _next(self) -> _Block | None:
        if self.progress.stop:
            return None
        with self.lock:
            block = None if self.is_read else next(self.blocks, None)
            if block is None and not self.is_read:
                self.is_read = True
                self.progress.done_files += 1
            return block

    def table(self) -> TraceTable:
        """Return the table of the whole file."""
        is_mixed = self.is_ordered and self.readers > 1
        if is_mixed and not self.progress.stop:
            is_mixed, self.is_again = False, True
            self.damage.clear()
            self.parts = list(self._tables(self._blocks(), new_scanner(BIN_NS)))
        whole = add_tables(self.parts)
        damage = tuple(f"{each.source}, byte {each.offset}: {each.reason}" for each in self.damage)
        reading = msgspec.structs.replace(
            whole.reading,
            files=max(1, len(self.sources)),
            damage=damage,
            unread=0 if self.is_read and not is_mixed else 1,
        )
        return msgspec.structs.replace(whole, reading=reading)


class _Part:
    """What one thread has read of a file."""

    def __init__(self, source: str, places: Places, files: Names, scanner: Scanner | None) -> None:
        self._source = source
        self._rows = RowTable()
        self._scanner = scanner
        self._decoder = TraceDecoder(places, self._scanner, self._rows, files)
        self._digests: list[TraceDigest] = []
        self._blocks = self._bytes = 0
        self._lines = 0

    def feed(self, block: bytes) -> int:
        """Take in whole lines; count them."""
        lines = self._decoder.feed(block, self._source)
        self._blocks += 1
        self._bytes += len(block)
        self._lines += lines
        if self._blocks % _BLOCKS_A_TAKE == 0 or self._decoder.spans >= _SPANS_A_TAKE:
            self._take()
        return lines

    @property
    def is_ordered(self) -> bool:
        """Whether a line may mean something else in another order."""
        return self._decoder.is_ordered

    def _take(self, *, final: bool = False) -> None:
        digest = self._decoder.take(final)
        if digest is not None:
            self._digests.append(digest)
        while self._rows.coarsen():
            if self._scanner is not None:
                self._scanner.bin_ns = self._rows.bin_ns
                self._decoder.restart_scanner()

    def table(self) -> TraceTable:
        """Return the table of all that was fed. The scanner is free for another part."""
        self._take(final=True)
        if self._scanner is not None:
            self._scanner.clear()
            self._scanner.bin_ns = BIN_NS
        places, hosts = self._decoder.explained()
        bin_s = self._rows.bin_ns // BIN_NS
        table = TraceTable(bin_s=bin_s)
        for row, amount, is_known in self._rows.take_rows():
            thread = JobThread(hosts.get(row.pid, ""), row.pid, row.tid)
            if is_known:
                add_row(table.accesses, table.activity, row, thread, amount, bin_s)
            else:
                table.unexplained[row, thread.host] = amount
        digests = [digest for digest in self._digests if digest.end_s > 0]
        return msgspec.structs.replace(
            table,
            spans=tuple(sorted(_spans(self._digests, hosts))),
            places=places,
            hosts=self._decoder.host_names(),
            processes=tuple(sorted((hosts.get(pid, ""), pid) for pid in self._pids())),
            start_s=min((digest.start_s for digest in digests), default=0.0),
            end_s=max((digest.end_s for digest in digests), default=0.0),
            reading=self._reading(),
        )

    def _pids(self) -> set[int]:
        return {pid for digest in self._digests for _, pid in digest.processes}

    def _reading(self) -> Reading:
        dropped, generations = Counter[str](), Counter[int]()
        for digest in self._digests:
            dropped.update(digest.dropped)
            generations.update(digest.generations)
        return Reading(
            lines=self._lines,
            bytes=self._bytes,
            blank=self._decoder.blank,
            events=sum(digest.events for digest in self._digests),
            metadata=sum(digest.metadata for digest in self._digests),
            dropped=dict(dropped),
            generations=dict(generations),
        )


def _spans(digests: Sequence[TraceDigest], hosts: Mapping[int, str]) -> Iterator[ThreadSpan]:
    for digest in digests:
        for span in digest.checkpoints:
            yield ThreadSpan(
                thread=JobThread(hosts.get(span.pid, ""), span.pid, span.tid),
                start_s=span.start_s,
                end_s=span.end_s,
                kind=span.kind,
                name=span.name,
                epoch=span.epoch,
                step=span.step,
            )
