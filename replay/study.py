"""Compare runs of a job by their traces: what checkpoints took, where, and how runs differ.

    from scrtune.replay.study import Run, study
    from scrtune.replay.scan import read_table

    table = read_table([Path("logs/base")], {"/lustre/me": "prefix", "/ssd/me": "cache"})
    print(study([Run(name="base", table=table), ...]).runs[0].checkpoint_s)

Pure: nothing is read here. The rows are those of :mod:`.study_rows`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, variance

import msgspec

from ..intents.events import Operation, Span, SpanKind, Tier
from ..units import count_text
from .spans import JobInterval, Write, by_checkpoint, from_writes, outermost
from .study_rows import (
    CONFIDENCE,
    ActivityRow,
    CheckpointRow,
    FileClassRow,
    RunDifference,
    RunRow,
    Study,
    TierTotals,
)
from .table import AccessKey, JobThread, TraceTable

_UNEQUAL = 1.01
"""A sum over threads that is larger than the largest of one by this factor is another number."""
_NS = 1e9


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its name, what its traces hold, and what is said of it.

    `base` is the run that it is compared to; by default that of the study.
    """

    name: str
    table: TraceTable
    settings: Mapping[str, str] = {}
    base: str = ""
    note: str = ""


def study(runs: Sequence[Run], base: str = "") -> Study:
    """Return what `runs` show, each compared to the run `base` (default: the first). Raises ValueError."""
    if not runs:
        raise ValueError("a study needs a run")
    names = [run.name for run in runs]
    if base and base not in names:
        raise ValueError(f"{base!r} is no run of the study; those are {', '.join(names)}")
    seen = [_RunTrace(run) for run in runs]
    rows = [each.row() for each in seen]
    checkpoints = {each.run.name: each.rows for each in seen}
    base = base or names[0]
    differences = tuple(
        difference
        for run in runs
        if (run.base or base) != run.name
        for difference in _differences(run.name, run.base or base, checkpoints)
    )
    return Study(
        base=base,
        runs=tuple(rows),
        differences=differences,
        checkpoints=tuple(row for each in seen for row in each.rows),
        file_classes=tuple(row for each in seen for row in _file_classes(each.run.name, each.table)),
        activity=tuple(row for each in seen for row in _activity(each.run.name, each.table)),
        notes=(
            *_notes(rows),
            *(note for each in seen for note in each.notes()),
            *dict.fromkeys(run.note for run in runs if run.note),
            *_notes_of_differences(differences, base, checkpoints),
        ),
    )


class _RunTrace:
    """The table of one run, with its checkpoints found."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.table = run.table.resolved()
        threads = sorted({span.thread for span in self.table.spans})
        self.numbers = {
            process: number for number, process in enumerate(sorted({each[:2] for each in threads}))
        }
        spans = outermost(self._numbered())
        self.saves = [span for span in spans if span.kind == SpanKind.SAVE]
        self.loads = [span for span in spans if span.kind == SpanKind.LOAD]
        self.source = "spans of the application" if self.saves else ""
        inferred: tuple[JobInterval, ...] = ()
        if not self.saves:
            found = from_writes(write for _, write in _writes_by_thread(self.table))
            inferred, self.source = found.saves, found.source if found.saves else ""
        self.rows = tuple(self._from_spans()) if self.saves else tuple(self._from_bursts(inferred))

    def _numbered(self) -> Iterator[Span]:
        """Return the spans with numbers of processes: a pid may be on several hosts."""
        for each in self.table.spans:
            yield Span(
                name=each.name,
                start_s=each.start_s,
                end_s=each.end_s,
                pid=self.numbers[each.thread[:2]],
                tid=each.thread.tid,
                kind=each.kind,
                epoch=each.epoch,
                step=each.step,
            )

    def _from_spans(self) -> Iterator[CheckpointRow]:
        groups = by_checkpoint(self.saves)
        flushes = self._flushes(groups)
        for number, group in enumerate(groups, start=1):
            start_s, end_s = group[0].start_s, max(span.end_s for span in group)
            flush_s, flush_end_s = flushes.get(number, (None, None))
            yield CheckpointRow(
                run=self.run.name,
                number=number,
                start_s=start_s,
                seconds=max(_by_thread(group).values()),
                wall_s=end_s - start_s,
                epoch=group[0].epoch,
                step=group[0].step,
                flush_s=flush_s,
                flush_end_s=flush_end_s,
            )

    def _from_bursts(self, found: Sequence[JobInterval]) -> Iterator[CheckpointRow]:
        for number, each in enumerate(found, start=1):
            wall_s = each.end_s - each.start_s
            yield CheckpointRow(
                run=self.run.name, number=number, start_s=each.start_s, seconds=wall_s, wall_s=wall_s
            )

    def _flushes(self, groups: Sequence[Sequence[Span]]) -> dict[int, tuple[float, float]]:
        """Return, by checkpoint, the makespan of the slowest rank's background writes, and when all ended.

        A write is one for the last checkpoint that its process had ended before the write's own end; those
        that a saving thread makes within its own span are not in the background.
        """
        ended: dict[int, list[tuple[float, int]]] = defaultdict(list)  # by process
        busy: dict[tuple[int, int], list[Span]] = defaultdict(list)
        for number, group in enumerate(groups, start=1):
            for span in group:
                ended[span.pid].append((span.end_s, number))
                busy[span.pid, span.tid].append(span)
        stretches: dict[tuple[int, int], tuple[float, float]] = {}
        for thread, write in _writes_by_thread(self.table):
            process = self.numbers.get(thread[:2])
            before = [] if process is None else [each for each in ended[process] if each[0] < write.end_s]
            if process is None or not before or _is_within(write, busy[process, thread.tid]):
                continue
            ended_s, number = max(before)
            start_s = max(ended_s, write.start_s)
            since_s, until_s = stretches.get((process, number), (start_s, write.end_s))
            stretches[process, number] = min(since_s, start_s), max(until_s, write.end_s)
        found: dict[int, tuple[float, float]] = {}
        for (_, number), (start_s, end_s) in stretches.items():
            longest_s, last_s = found.get(number, (0.0, 0.0))
            found[number] = max(longest_s, end_s - start_s), max(last_s, end_s)
        return found

    def notes(self) -> Iterator[str]:
        """Say where what saves does not overlap in time."""
        saving = {span.pid for span in self.saves}
        times: dict[int, tuple[float, float]] = {}
        for thread, start_s, end_s in _thread_times(self.table):
            process = self.numbers.get(thread[:2])
            if process in saving:
                since_s, until_s = times.get(process, (start_s, end_s))
                times[process] = min(since_s, start_s), max(until_s, end_s)
        groups, until_s = 0, float("-inf")
        for start_s, end_s in sorted(times.values()):
            groups += start_s > until_s
            until_s = max(until_s, end_s)
        if groups > 1:
            yield (
                f"{self.run.name}: what saves is {groups} groups of processes, one after the other: a job"
                " that was restarted, or several jobs, which are several runs with a NAME each"
            )

    def row(self) -> RunRow:
        table = self.table
        saving, loading = _by_thread(self.saves), _by_thread(self.loads)
        checkpoint_s = max(saving.values(), default=sum(row.seconds for row in self.rows))
        cache, prefix = (_tier_totals(table, tier) for tier in (Tier.CACHE, Tier.PREFIX))
        written = max(cache.written_bytes, prefix.written_bytes)
        flushes = [row.flush_s for row in self.rows if row.flush_s is not None]
        return RunRow(
            name=self.run.name,
            settings=self.run.settings,
            reading=table.reading,
            start_s=table.start_s,
            span_s=table.end_s - table.start_s,
            hosts=len({host for host, _ in table.processes}),
            processes=len(table.processes),
            saving_threads=len(saving),
            checkpoints=len(self.rows),
            checkpoints_from=self.source,
            checkpoint_s=checkpoint_s,
            checkpoint_sum_s=sum(saving.values()) or checkpoint_s,
            loads=len(by_checkpoint(self.loads)),
            load_s=max(loading.values(), default=0.0),
            cache=cache,
            prefix=prefix,
            bytes_per_s=written / checkpoint_s if written and checkpoint_s > 0 else None,
            flush_s=fmean(flushes) if flushes else None,
            flushes=len(flushes),
        )


def _thread_times(table: TraceTable) -> Iterator[tuple[JobThread, float, float]]:
    """Yield from when to when threads were seen, each several times."""
    for span in table.spans:
        yield span.thread, span.start_s, span.end_s
    for key, amount in table.accesses.items():
        yield key.thread, amount.start_ns / _NS, amount.end_ns / _NS


def _by_thread(spans: Iterable[Span]) -> dict[tuple[int, int], float]:
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for span in spans:
        sums[span.pid, span.tid] += span.end_s - span.start_s
    return sums


def _is_within(write: Write, spans: Iterable[Span]) -> bool:
    return any(span.start_s <= write.start_s < span.end_s for span in spans)


def _writes_by_thread(table: TraceTable) -> Iterator[tuple[JobThread, Write]]:
    """Yield the writes below the prefix directory, those of a thread within a bin of time as one."""
    for key, amount in table.activity.items():
        if key.tier == Tier.PREFIX and key.operation == Operation.WRITE and amount.bytes:
            start_s, end_s = amount.start_ns / _NS, amount.end_ns / _NS
            yield key.thread, Write(start_s=start_s, end_s=end_s, bytes=amount.bytes)


def _tier_totals(table: TraceTable, tier: str) -> TierTotals:
    sums_ns: dict[JobThread, int] = defaultdict(int)
    moved = {Operation.READ: 0, Operation.WRITE: 0}
    calls = 0
    for key, amount in table.accesses.items():
        if key.tier != tier:
            continue
        sums_ns[key.thread] += amount.duration_ns
        calls += amount.calls
        if (operation := Operation(key.operation)) in moved:
            moved[operation] += amount.bytes
    return TierTotals(
        seconds=max(sums_ns.values(), default=0) / _NS,
        sum_s=sum(sums_ns.values()) / _NS,
        calls=calls,
        read_bytes=moved[Operation.READ],
        written_bytes=moved[Operation.WRITE],
    )


def _file_classes(name: str, table: TraceTable) -> Iterator[FileClassRow]:
    """Yield a row for each class, tier and operation, those with the most bytes first."""
    totals: dict[tuple[str, str, str], tuple[int, int]] = {}
    sums_ns: dict[tuple[str, str, str], dict[JobThread, int]] = defaultdict(lambda: defaultdict(int))
    for key, amount in table.accesses.items():
        group = key.tier, key.file_class, key.operation
        calls, total = totals.get(group, (0, 0))
        totals[group] = calls + amount.calls, total + amount.bytes
        sums_ns[group][key.thread] += amount.duration_ns
    for group, (calls, total) in sorted(totals.items(), key=lambda item: (-item[1][1], item[0])):
        tier, file_class, operation = group
        yield FileClassRow(
            run=name,
            tier=tier,
            file_class=file_class,
            operation=operation,
            calls=calls,
            bytes=total,
            seconds=max(sums_ns[group].values()) / _NS,
            sum_s=sum(sums_ns[group].values()) / _NS,
        )


def _activity(name: str, table: TraceTable) -> Iterator[ActivityRow]:
    bins: dict[tuple[str, str, int], tuple[int, int]] = {}
    for key, amount in table.activity.items():
        if amount.bytes:
            place = key.tier, key.operation, key.bin
            total, duration_ns = bins.get(place, (0, 0))
            bins[place] = total + amount.bytes, duration_ns + amount.duration_ns
    for (tier, operation, number), (total, duration_ns) in sorted(bins.items()):
        yield ActivityRow(
            run=name,
            tier=tier,
            operation=operation,
            start_s=float(number * table.bin_s),
            width_s=float(table.bin_s),
            bytes=total,
            seconds=duration_ns / _NS,
        )


_MEASURES: Mapping[str, Callable[[CheckpointRow], float | None]] = {
    "checkpoint": lambda row: row.seconds,
    "flush": lambda row: row.flush_s,
}


def _differences(
    name: str, base: str, checkpoints: Mapping[str, Sequence[CheckpointRow]]
) -> Iterator[RunDifference]:
    for measure, value in _MEASURES.items():
        own, others = (
            [found for row in checkpoints[each] if (found := value(row)) is not None] for each in (name, base)
        )
        if not own or not others:
            continue
        low_s, high_s = _interval(own, others)
        yield RunDifference(
            run=name,
            base=base,
            measure=measure,
            base_mean_s=fmean(others),
            mean_s=fmean(own),
            difference_s=fmean(own) - fmean(others),
            low_s=low_s,
            high_s=high_s,
            base_checkpoints=len(others),
            checkpoints=len(own),
        )


def _interval(own: Sequence[float], others: Sequence[float]) -> tuple[float | None, float | None]:
    """Return Welch's interval of the difference of means; without any spread both ends are alike."""
    if min(len(own), len(others)) < 2:  # noqa: PLR2004 - of one value nobody knows how it varies
        return None, None
    errors = [variance(found) / len(found) for found in (own, others)]
    difference, error = fmean(own) - fmean(others), sum(errors)
    if error <= 0:
        return difference, difference
    from scipy.special import stdtrit  # type: ignore[import-untyped] # noqa: PLC0415 - slow to load

    parts = zip(errors, (own, others), strict=True)
    freedom = error**2 / sum(part**2 / (len(found) - 1) for part, found in parts)
    half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error**0.5
    return difference - half, difference + half


def _notes_of_differences(
    differences: Sequence[RunDifference], base: str, checkpoints: Mapping[str, Sequence[CheckpointRow]]
) -> Iterator[str]:
    if differences:
        yield "Intervals are over the checkpoints of one run each: how runs vary is not in them"
    elif not checkpoints[base] and any(checkpoints.values()):
        yield f"Nothing is compared: {base}, the base, has no checkpoints; --base names another run"


def _notes(rows: Sequence[RunRow]) -> Iterator[str]:
    for row in rows:
        yield from _notes_of_run(row)
    calls = sum(row.cache.calls + row.prefix.calls for row in rows)
    if not calls and any(row.reading.events for row in rows):
        yield "No run has a file below a cache or prefix directory: all accesses count for the tier other"
    sources = {row.checkpoints_from for row in rows if row.checkpoints}
    if len(sources) > 1:
        yield "Checkpoints of some runs are spans, of others inferred: their seconds are not alike"
    mixed = [text for row in rows for text in _sums(row)]
    if mixed:
        yield (
            "Sums over all threads are other numbers than the largest of one; compare like with like: "
            + "; ".join(mixed)
        )
    threads = {row.name: row.saving_threads for row in rows if row.saving_threads}
    if len(set(threads.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in threads.items())
        yield f"Runs have different numbers of threads that save: {counts}"


def _notes_of_run(row: RunRow) -> Iterator[str]:
    if row.reading.unread:
        unread = count_text(row.reading.unread, "file")
        yield f"{row.name}: interrupted: {unread} of {row.reading.files} not read to the end"
    if not row.reading.events:
        yield f"{row.name}: its traces have no event"
    elif not row.checkpoints:
        yield f"{row.name}: no checkpoints: none by spans, nor by bursts of writes below the prefix directory"
    elif not row.saving_threads:
        yield (
            f"{row.name}: its checkpoints are {row.checkpoints_from}; their seconds are from the first"
            " write of a burst to its last, not those of a thread"
        )


def _sums(row: RunRow) -> Iterator[str]:
    for tier, total in (("cache", row.cache), ("prefix", row.prefix)):
        if total.sum_s > _UNEQUAL * total.seconds:
            yield f"{row.name} {tier} {total.seconds:,.2f} s, summed {total.sum_s:,.2f} s"


def access_rows(runs: Iterable[Run]) -> Iterator[dict[str, str | int | float]]:
    """Yield all accesses of `runs` as rows for a table of one's own: the finest that a study has."""
    for run in runs:
        for key, amount in run.table.resolved().accesses.items():
            yield {"run": run.name, **_access(key), "calls": amount.calls, "bytes": amount.bytes} | {
                "seconds": amount.duration_ns / _NS,
                "start_s": amount.start_ns / _NS,
                "end_s": amount.end_ns / _NS,
            }


def _access(key: AccessKey) -> dict[str, str | int | float]:
    tier, file_class, operation, thread, size = key
    return {
        "tier": tier,
        "file_class": file_class,
        "operation": operation,
        **thread._asdict(),
        "size_below": 1 << size if size >= 0 else -1,
    }
