"""Bytes of DFTracer in, digests out: joins lines, names, calls and digest. Pure, and it never raises.

`docs/traces.md` describes the generations of the format, what is dropped and what is counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from ...goodput.validation import LARGEST_INTEGER
from ..events import Operation, Span, SpanKind, TraceDigest
from .calls import IO_CATEGORIES, OPERATION_OF, size_of, span_kind, summed
from .digest import MAX_PENDING, MOVES_DATA, AccessSum, AccessTable, FileKey, Places, Tiers, seconds
from .lines import (
    AGGREGATED,
    COMPLETE,
    COUNTER,
    KINDS,
    MAX_COUNT,
    MAX_NAME,
    MAX_PATH,
    METADATA,
    NEWEST,
    NO_TIME,
    TOO_MANY_PROCESSES,
    TOO_MANY_SPANS,
    UNKNOWN_PHASE,
    Arguments,
    TraceRecord,
    decode,
    generation_of,
    integer,
)
from .names import UNIT_NS, Names, Process, Processes
from .scanner_protocol import Scanner

MAX_SPANS = 10_000
"""Checkpoint spans in one digest."""

_CHUNK_BYTES = 1 << 20
_SETTLE_LINES = 2048  # more at once would hold up a question to the daemon for milliseconds


class TraceDecoder:
    """Sums up DFTracer lines of any generation, from any number of processes of one job.

    `tiers` maps absolute directories to the tier below them, ``cache`` or ``prefix``; the longest wins. A
    ``.scr`` directory below one is tier ``scr``, everything else is ``other``.

    For other sums than by tier, it may be given :class:`.Places` instead, and a `table` of its own. Decoders
    that read parts of one trace may share what its lines explain of `files`.

    A `scanner` of its own sums up plain lines many times as fast, to the same digests. Only beyond the limits
    of digest.py the sizes and threads that are counted may be others.
    """

    def __init__(
        self,
        tiers: Mapping[str, str] | Places = MappingProxyType({}),
        scanner: Scanner | None = None,
        table: AccessTable | None = None,
        files: Names | None = None,
    ) -> None:
        self.blank = 0
        """Lines so far that were empty or a bracket. They count nowhere else."""
        self._files = Names() if files is None else files
        self._processes = Processes(on_full=self.restart_scanner)
        self._scanner = scanner
        self._table = AccessTable() if table is None else table
        self._unsettled = 0
        self.set_tiers(tiers)
        self._restart()

    def _restart(self) -> None:
        self._lines = self._events = self._metadata = 0
        self._dropped: Counter[str] = Counter()
        self._generations: Counter[int] = Counter()
        self._spans: list[Span] = []
        self._start_ns: int | None = None
        self._end_ns = 0

    def set_tiers(self, tiers: Mapping[str, str] | Places) -> None:
        """Change the tiers, also of the files whose hashes were explained already."""
        self._places: Places = Tiers(tiers) if isinstance(tiers, Mapping) else tiers
        self._place_of_file: dict[FileKey, str] = {}
        if self._scanner is not None:
            self._scanner.forget_places()

    def feed(self, data: bytes, source: str = "") -> int:
        """Take in whole lines (the last may lack its newline) of `source`, a sender or a file; count them."""
        lines = 0
        for start, end in _chunks(data):
            if self._scanner is None:
                lines += self._decode(data[start:end], source)
            else:
                lines += self._scan(self._scanner, data, start, end, source)
            if self._unsettled >= _SETTLE_LINES:
                self._settle()
                if self._table.pending > MAX_PENDING:
                    self._settle(give_up=True)
        return lines

    def take(self, final: bool = False) -> TraceDigest | None:
        """Return the digest since the last take, or None when it is empty.

        Accesses whose file hash is not explained yet wait; `final` gives them up as tier ``other``.
        """
        self._settle(give_up=final)
        self._collect()
        accesses, unresolved = self._table.take()
        processes = self._processes.take_seen(final=final)
        if not (self._lines or accesses or processes):
            return None
        starts = [access.start_s for access in accesses]
        if self._start_ns is not None:
            starts.append(seconds(self._start_ns))
        digest = TraceDigest(
            lines=self._lines,
            events=self._events,
            metadata=self._metadata,
            dropped=dict(self._dropped),
            unresolved=unresolved,
            start_s=min(starts, default=0.0),
            end_s=max([seconds(self._end_ns), *(access.end_s for access in accesses)]),
            accesses=accesses,
            checkpoints=tuple(self._spans),
            processes=processes,
            generations=dict(self._generations),
        )
        self._restart()
        return digest

    @property
    def spans(self) -> int:
        """Number of checkpoint spans since the last take."""
        return len(self._spans)

    def explained(self) -> tuple[dict[str, str], dict[int, str]]:
        """Return the places behind hashes of files, and the host of each pid: its name, else its hash."""
        places = {key: place for key in self._files.hashes() if (place := self._place(key)) is not None}
        return places, self._processes.hosts()

    def host_names(self) -> dict[str, str]:
        """Return the names of hosts behind their hashes."""
        names = self._processes.host_names
        return {key: names[key] for key in names.hashes()}

    @property
    def is_ordered(self) -> bool:
        """Whether lines may mean something else in another order: units of time, hashes that collide."""
        return self._processes.are_ordered

    def _decode(self, lines: bytes, source: str) -> int:
        decoded = decode(lines)
        count = len(decoded.records)
        self._unsettled += count
        if decoded.dropped:
            self._dropped.update(decoded.dropped)
            count += sum(decoded.dropped.values())
        self._lines += count
        self.blank += decoded.blank
        self._take_in(decoded.records, source)
        return count + decoded.blank

    def _scan(self, scanner: Scanner, data: bytes, start: int, end: int, source: str) -> int:
        """Take in lines, the plain ones by `scanner`, all in their order; count them."""
        lines = 0
        while start < end:
            stop = scanner.scan(data, start, end, source, self._files.room)
            lines += stop.lines
            self._unsettled += stop.lines
            for key, path in stop.paths:
                if self._files.setdefault(key, path) != path:
                    self._explain_file(key, path)
            if stop.odd < stop.end:
                lines += self._decode(data[stop.odd : stop.end], source)
            if stop.is_full:
                self.restart_scanner()
            process = None if stop.pid is None else self._processes.get(source, stop.pid)
            if process is not None and not scanner.introduce(process):
                self.restart_scanner()
            start = stop.end
        return lines

    def _collect(self) -> None:
        """Add up what the scanner has counted and settled."""
        if self._scanner is None:
            return
        found = self._scanner.take()
        self._lines += found.lines
        self._events += found.events
        self._metadata += found.metadata
        self._generations.update(found.generations)
        for place, access in found.settled:
            self._table.settled(place, access.op).add(access)
        for process, span in found.processes:
            process.seen = True
            if span is not None:
                self._cover(*span)

    def restart_scanner(self) -> None:
        """Take everything out of the scanner: it begins anew, with what the next lines say."""
        if self._scanner is None:
            return
        self._scanner.forget_places()
        self._wait(lambda _: None)
        self._collect()
        self._scanner.clear()

    def _wait(self, place_of: Callable[[str], str | None]) -> None:
        """Let the scanner settle, and take from it the accesses whose place is not known."""
        if self._scanner is not None:
            for key, access in self._scanner.settle(place_of):
                self._table.group(key, access.op).add(access)

    def _take_in(self, records: Iterable[TraceRecord], source: str) -> None:
        newest = 0
        for record in records:
            kind = KINDS.get(record.ph)
            if kind is None:
                self._dropped[UNKNOWN_PHASE] += 1
                continue
            process = self._processes.of(record, source)
            if process is None:
                self._dropped[TOO_MANY_PROCESSES] += 1
                continue
            if kind == METADATA:
                self._on_metadata(record, process)
            elif not self._on_event(record, kind, process):
                continue
            if record.ph.__class__ is int:
                newest += 1
            elif (generation := generation_of(record, kind, process.generation)) is not None:
                if generation != process.generation:
                    self._change(process)
                    process.generation = generation
                self._generations[generation] += 1
        if newest:
            self._generations[NEWEST] += newest

    def _on_metadata(self, record: TraceRecord, process: Process) -> None:
        self._metadata += 1
        process.seen = True
        args = record.args
        if args is None or not isinstance(args.name, str):
            return
        if record.name == "CM" and args.name == "time_metric":
            unit_ns = UNIT_NS.get(str(args.value).upper(), process.unit_ns)
            if unit_ns != process.unit_ns:
                self._change(process)
                process.unit_ns = unit_ns
        elif record.name in {"FH", "HH"} and isinstance(args.value, int | str):
            key = process.key_of(args.value)
            if record.name == "FH":
                self._explain_file_anew(key, args.name)
            else:
                self._processes.host_names.put(key, args.name[:MAX_NAME])

    def _on_event(self, record: TraceRecord, kind: int, process: Process) -> bool:
        """Take in an event; returns False when it had to be dropped."""
        if record.ts is None:
            self._dropped[NO_TIME] += 1
            return False
        unit_ns = process.unit_ns
        start_ns = record.ts * unit_ns
        duration_ns = record.dur * unit_ns
        end_ns = start_ns + duration_ns
        args = record.args
        if kind == COUNTER and args is not None and args.dft_cnt is not None:
            kind = AGGREGATED
        if kind != COUNTER:
            process.seen = True
            if record.cat in IO_CATEGORIES:
                self._add_access(record, kind, start_ns, duration_ns, process)
            elif (
                kind == COMPLETE
                and (span := span_kind(record.cat, record.name)) is not None
                and not self._add_span(record, span, start_ns, end_ns)
            ):
                return False
        self._events += 1
        self._cover(start_ns, end_ns)
        return True

    def _cover(self, start_ns: int, end_ns: int) -> None:
        if self._start_ns is None or start_ns < self._start_ns:
            self._start_ns = start_ns
        if end_ns > self._end_ns:  # noqa: PLR1730 - max() would cost this busy line twice as much
            self._end_ns = end_ns

    def _change(self, process: Process) -> None:
        """Prepare a change to `process` that the scanner does not know of."""
        if self._scanner is not None:
            self._scanner.forget_process(process)

    def _add_access(
        self, record: TraceRecord, kind: int, start_ns: int, duration_ns: int, process: Process
    ) -> None:
        call, args = record.name, record.args
        op = OPERATION_OF.get(call, Operation.METADATA)
        if op is None:
            return
        key = "" if args is None else self._file_key(args, process)
        calls, size, total = 1, None, 0
        if args is not None and kind == AGGREGATED:
            duration_ns, size, calls, total = summed(call, op, args, process.unit_ns)
        elif args is not None and op in MOVES_DATA:
            size = size_of(call, args)
            total = size or 0
        thread = (record.pid, record.tid)
        found = AccessSum(op, thread, size, calls, total, duration_ns, start_ns, start_ns + duration_ns)
        self._table.group(key, op).add(found)

    def _add_span(self, record: TraceRecord, kind: SpanKind, start_ns: int, end_ns: int) -> bool:
        if len(self._spans) >= MAX_SPANS:
            self._dropped[TOO_MANY_SPANS] += 1
            return False
        args = record.args or Arguments()
        self._spans.append(
            Span(
                name=record.name,
                start_s=seconds(start_ns),
                end_s=seconds(end_ns),
                pid=_number(record.pid),
                tid=_number(record.tid),
                kind=kind,
                epoch=integer(args.epoch, 0, MAX_COUNT),
                step=integer(args.step, 0, MAX_COUNT),
            )
        )
        return True

    def _file_key(self, args: Arguments, process: Process) -> FileKey:
        fhash = args.fhash
        if fhash and fhash.__class__ is str:
            return fhash
        if fhash != "":
            return process.key_of(fhash)
        if args.fname:
            self._explain_file_anew(args.fname, args.fname)
        return args.fname

    def _explain_file_anew(self, key: FileKey, path: str) -> None:
        """Remember that hash `key` is `path`, from a line that the scanner left."""
        known = self._files.get(key)
        is_other = known is not None and known != path[:MAX_PATH] and isinstance(key, str)
        if is_other or self._files.room <= 0:  # what the scanner knows of files holds no longer
            self.restart_scanner()
        self._explain_file(key, path)

    def _explain_file(self, key: FileKey, path: str) -> None:
        """Remember that hash `key` is `path` from here on."""
        path = path[:MAX_PATH]
        known = self._files.get(key)
        if known == path:
            return
        if known is not None:  # generation 1's hashes collide: what was summed up was about the other file
            self._table.settle_file(key, self._place(key) or self._places.of(""))
            del self._place_of_file[key]
        elif self._files.room <= 0:
            self._settle()
            self._place_of_file.clear()
        self._files.put(key, path)

    def _place(self, file: FileKey) -> str | None:
        if file == "":
            return self._places.of("")
        place = self._place_of_file.get(file)
        if place is None and (path := self._files.get(file)) is not None:
            place = self._place_of_file[file] = self._places.of(path)
        return place

    def _settle(self, *, give_up: bool = False) -> None:
        self._wait(self._place)
        self._table.settle(self._place, give_up=give_up)
        self._unsettled = 0


def _number(value: int | None) -> int:
    """Return a number that an event may hold."""
    return max(-LARGEST_INTEGER, min(value or 0, LARGEST_INTEGER))


def _chunks(data: bytes) -> Iterator[tuple[int, int]]:
    """Return where pieces of whole lines begin and end: not too many objects at once."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _CHUNK_BYTES) + 1 or len(data)
        yield start, end
        start = end
