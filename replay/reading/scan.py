"""Read trace files on all cores, each to a :class:`.TraceTable`; a file that was read before is remembered.

Scanning (C) and inflating (isal) leave Python's lock alone. Each thread begins with files of its own; when
they are done it helps with those of the others, block by block, each with a decoder of its own: what it
cannot explain another part explains. That needs lines that mean the same in any order. Where they do not (a
process that says its unit of time, hashes of generation 1, which collide) one thread reads the file alone.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple, TypeAlias

import msgspec

from ...client.capture.scanner import new_scanner
from ...heap import set_limits
from ...intents.events import TraceDigest
from ...intents.trace.decoder import TraceDecoder
from ...intents.trace.digest import Places
from ...intents.trace.names import Names
from ...intents.trace.rows import BIN_NS, FileClasses, RowTable
from ...intents.trace.scanner_protocol import Scanner
from ..table import JobThread, Reading, ThreadSpan, TraceTable, add_row, add_tables
from .cache import TableCache
from .salvage import Damage
from .traces import find_traces, whole_lines

BLOCK_BYTES = 256 << 10
"""Inflated and scanned at once: it stays in a core's own cache."""

PlacesOf: TypeAlias = Callable[[Mapping[str, str]], Places]

_BLOCKS_A_TAKE = 32
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
    tables: list[TraceTable] = []
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
            tables.append(known)
    traces.sort(key=lambda trace: -file_size(trace.path))  # large ones are not the last to end
    _run(traces, threads or os.cpu_count() or 1, progress)
    for trace in traces:
        table = trace.table()
        if cache is not None and not table.reading.unread:
            cache.put(trace.path, tiers, table)
        tables.append(table)
    return add_tables(tables)


def file_size(path: Path) -> int:
    """Return the size of a file, 0 of one that cannot be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _run(traces: "Sequence[_Trace]", count: int, state: Progress) -> None:
    """Read `traces` on `count` threads. An interrupt ends all of them early."""
    # to get new pages for each block costs a tenth of the whole time
    set_limits(own_pages_bytes=32 << 20, kept_bytes=256 << 20)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            scanner = new_scanner(BIN_NS)  # one of 14 MB for all that the thread reads
            for trace in (*traces[number::count], *traces):
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


class _Trace:
    """One file, or an archive of several, read by one thread or by several."""

    def __init__(self, path: Path, new_places: Callable[[], Places], progress: Progress) -> None:
        self.path = path
        self._new_places = new_places
        self._progress = progress
        self._lock = Lock()
        self._damage: list[Damage] = []
        self._blocks = self._found_blocks()
        self._parts: list[TraceTable] = []
        self._sources: set[str] = set()  # of an archive its traces
        self._readers = 0
        self._is_ordered = False  # its lines have a meaning by their order
        self._is_read = False

    def read(self, scanner: Scanner | None) -> None:
        """Read the file, or what others have left of it."""
        with self._lock:
            if self._progress.stop or self._is_read or (self._is_ordered and self._readers):
                return
            self._readers += 1
        for (source, files), blocks in groupby(iter(self._next, None), attrgetter("source", "files")):
            part = _Part(source, self._new_places(), files, scanner)
            for block in blocks:
                self._progress.lines += part.feed(block.lines)
                self._is_ordered |= part.decoder.is_ordered
            self._sources.add(source)
            self._parts.append(part.table())

    def _found_blocks(self) -> Iterator[_Block]:
        lines_by_source = whole_lines(self.path, self._damage, self._advance, BLOCK_BYTES)
        for source, found in groupby(lines_by_source, itemgetter(0)):
            files, pieces, size = Names(), list[bytes](), 0
            for _, lines in found:
                pieces.append(lines)
                size += len(lines)
                if size >= BLOCK_BYTES // 2:
                    yield _Block(source, files, b"".join(pieces))
                    pieces, size = [], 0
            if pieces:
                yield _Block(source, files, b"".join(pieces))

    def _advance(self, read_bytes: int) -> None:
        self._progress.done_bytes += read_bytes

    def _next(self) -> _Block | None:
        """Return a block that nobody has read, None where the file is read or has to be read in order."""
        with self._lock:
            if self._progress.stop or self._is_read or (self._is_ordered and self._readers > 1):
                return None
            block = next(self._blocks, None)
            if block is None:
                self._is_read = True
                self._progress.done_files += 1
            return block

    def table(self) -> TraceTable:
        """Return the table of the whole file."""
        if self._is_ordered and self._readers > 1 and not self._progress.stop:
            alone = _Trace(self.path, self._new_places, Progress())
            alone.read(new_scanner(BIN_NS))
            return alone.table()
        whole = add_tables(self._parts)
        damage = tuple(f"{each.source}, byte {each.offset}: {each.reason}" for each in self._damage)
        is_whole = self._is_read and not (self._is_ordered and self._readers > 1)
        reading = msgspec.structs.replace(
            whole.reading, files=max(1, len(self._sources)), damage=damage, unread=int(not is_whole)
        )
        return msgspec.structs.replace(whole, reading=reading)


class _Part:
    """What one thread has read of a trace."""

    def __init__(self, source: str, places: Places, files: Names, scanner: Scanner | None) -> None:
        self._source = source
        self._rows = RowTable()
        self._scanner = scanner
        self.decoder = TraceDecoder(places, scanner, self._rows, files)
        self._digests: list[TraceDigest] = []
        self._blocks = self._bytes = self._lines = 0

    def feed(self, block: bytes) -> int:
        """Take in whole lines; count them."""
        lines = self.decoder.feed(block, self._source)
        self._blocks += 1
        self._bytes += len(block)
        self._lines += lines
        if self._blocks % _BLOCKS_A_TAKE == 0 or self.decoder.spans >= _SPANS_A_TAKE:
            self._take()
        return lines

    def _take(self, *, final: bool = False) -> None:
        digest = self.decoder.take(final)
        if digest is not None:
            self._digests.append(digest)
        while self._rows.coarsen():
            if self._scanner is not None:
                self._scanner.bin_ns = self._rows.bin_ns
                self.decoder.restart_scanner()

    def table(self) -> TraceTable:
        """Return the table of all that was fed. The scanner is free for another part."""
        self._take(final=True)
        if self._scanner is not None:
            self._scanner.clear()
            self._scanner.bin_ns = BIN_NS
        places, hosts = self.decoder.explained()
        reading = Reading(lines=self._lines, bytes=self._bytes, blank=self.decoder.blank)
        bin_s = self._rows.bin_ns // BIN_NS
        table = TraceTable(bin_s=bin_s, places=places, hosts=self.decoder.host_names(), reading=reading)
        for row, amount, is_known in self._rows.take_rows():
            thread = JobThread(hosts.get(row.pid, ""), row.pid, row.tid)
            if is_known:
                add_row(table.accesses, table.activity, row, thread, amount, bin_s)
            else:
                table.unexplained[row, thread.host] = amount
        return add_tables([table, *(_of_digest(digest, hosts) for digest in self._digests)])


def _of_digest(digest: TraceDigest, hosts: Mapping[int, str]) -> TraceTable:
    """Return what a table has of a digest beside accesses."""
    spans = (
        ThreadSpan(
            thread=JobThread(hosts.get(span.pid, ""), span.pid, span.tid),
            start_s=span.start_s,
            end_s=span.end_s,
            kind=span.kind,
            name=span.name,
            epoch=span.epoch,
            step=span.step,
        )
        for span in digest.checkpoints
    )
    return TraceTable(
        spans=tuple(spans),
        processes=tuple((hosts.get(pid, ""), pid) for _, pid in digest.processes),
        start_s=digest.start_s,
        end_s=digest.end_s,
        reading=Reading(
            events=digest.events,
            metadata=digest.metadata,
            dropped=dict(digest.dropped),
            generations=dict(digest.generations),
        ),
    )
