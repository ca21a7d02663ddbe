"""Compare runs of a job by their traces: what checkpoints took, where, and how runs differ.

    from scrtune.replay.study import Run, study
    from scrtune.replay.reading.scan import read_table

    table = read_table([Path("logs/base")], {"/lustre/me": "prefix", "/ssd/me": "cache"})
    print(study([Run(name="base", table=table), ...]).runs[0].checkpoint_s)

Pure: nothing is read here. The rows are those of :mod:`.study_rows`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, variance
from typing import TypeVar

import msgspec

from ..intents.events import Operation, SpanKind, Tier
from .notes import notes_of
from .spans import Write, by_checkpoint, from_writes, outermost
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
from .table import JobThread, ThreadSpan, TraceTable
from .unseen import unseen_in_table

_NS = 1e9

_Process = tuple[str, int]
_Times = tuple[float, float]
K = TypeVar("K")


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
    base = base or names[0]
    seen = [_RunTrace(run) for run in runs]
    rows = tuple(each.row() for each in seen)
    checkpoints = {each.run.name: each.rows for each in seen}
    differences = tuple(
        difference
        for run in runs
        if (run.base or base) != run.name
        for difference in _differences(run.name, run.base or base, checkpoints)
    )
    groups = {each.run.name: each.groups_in_time() for each in seen}
    return Study(
        base=base,
        runs=rows,
        differences=differences,
        checkpoints=tuple(row for each in seen for row in each.rows),
        file_classes=tuple(row for each in seen for row in _file_classes(each.run.name, each.table)),
        activity=tuple(row for each in seen for row in _activity(each.run.name, each.table)),
        notes=tuple(notes_of(rows, groups, [run.note for run in runs], base, is_compared=bool(differences))),
    )


class _RunTrace:
    """The table of one run, with its checkpoints found."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.table = run.table.resolved()
        spans = outermost(self.table.spans)
        self.saves = [span for span in spans if span.kind == SpanKind.SAVE]
        self.loads = [span for span in spans if span.kind == SpanKind.LOAD]
        self.rows, self.source = self._by_spans() if self.saves else self._by_bursts()

    def _by_spans(self) -> tuple[list[CheckpointRow], str]:
        groups = by_checkpoint(self.saves)
        flushes = self._flushes(groups)
        rows = []
        for number, group in enumerate(groups, start=1):
            flush_s, flush_end_s = flushes.get(number, (None, None))
            rows.append(
                CheckpointRow(
                    run=self.run.name,
                    number=number,
                    start_s=group[0].start_s,
                    seconds=max(_by_thread(group).values()),
                    wall_s=max(span.end_s for span in group) - group[0].start_s,
                    epoch=group[0].epoch,
                    step=group[0].step,
                    flush_s=flush_s,
                    flush_end_s=flush_end_s,
                )
            )
        return rows, "spans of the application"

    def _by_bursts(self) -> tuple[list[CheckpointRow], str]:
        cached = [write for _, write in _writes(self.table, Tier.CACHE)]
        found = from_writes(cached or (write for _, write in _writes(self.table, Tier.PREFIX)))
        rows = []
        for number, each in enumerate(found.saves, start=1):
            took_s = each.end_s - each.start_s
            row = CheckpointRow(
                run=self.run.name, number=number, start_s=each.start_s, seconds=took_s, wall_s=took_s
            )
            rows.append(row)
        return rows, found.source if rows else ""

    def _flushes(self, groups: Sequence[Sequence[ThreadSpan]]) -> dict[int, _Times]:
        """Return, by checkpoint, the makespan of the slowest rank's background writes, and when all ended.

        A write is one for the last checkpoint that its process had ended before the write's own end. Not in
        the background is what a saving thread writes within its own span, and what another thread writes
        within one of its process, unless that is nearer to its background writes before than to the span's
        end: then it goes on with those.
        """
        ended: dict[_Process, list[tuple[float, int]]] = defaultdict(list)
        spans: dict[_Process, list[ThreadSpan]] = defaultdict(list)
        for number, group in enumerate(groups, start=1):
            for span in group:
                ended[span.pid].append((span.end_s, number))
                spans[span.pid].append(span)
        stretches: dict[tuple[_Process, int], _Times] = {}
        background_s: dict[JobThread, float] = {}
        for thread, write in sorted(_writes(self.table, Tier.PREFIX), key=lambda each: each[1].start_s):
            process = thread[:2]
            before = [each for each in ended[process] if each[0] < write.end_s]
            around = [span for span in spans[process] if span.start_s <= write.start_s < span.end_s]
            since_s = write.start_s - background_s.get(thread, float("-inf"))
            is_within = any(since_s > span.end_s - write.end_s >= 0 for span in around)
            if not before or is_within or any(span.thread == thread for span in around):
                continue
            background_s[thread] = write.end_s
            ended_s, number = max(before)
            _widen(stretches, (process, number), max(ended_s, write.start_s), write.end_s)
        found: dict[int, _Times] = {}
        for (_, number), (start_s, end_s) in stretches.items():
            longest_s, last_s = found.get(number, (0.0, 0.0))
            found[number] = max(longest_s, end_s - start_s), max(last_s, end_s)
        return found

    def groups_in_time(self) -> int:
        """Return how many groups of the processes that save follow each other without any overlap."""
        saving = {span.pid for span in self.saves}
        times: dict[_Process, _Times] = {}
        for span in self.table.spans:
            _widen(times, span.pid, span.start_s, span.end_s)
        for key, amount in self.table.accesses.items():
            _widen(times, key.thread[:2], amount.start_ns / _NS, amount.end_ns / _NS)
        groups, until_s = 0, float("-inf")
        for start_s, end_s in sorted(times[process] for process in saving):
            groups += start_s > until_s
            until_s = max(until_s, end_s)
        return groups

    def row(self) -> RunRow:
        """Return what is said of the whole run."""
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
            unseen=unseen_in_table(table),
        )


def _widen(times: dict[K, _Times], key: K, start_s: float, end_s: float) -> None:
    """Let the time of `key` reach from `start_s` to `end_s` at least."""
    since_s, until_s = times.get(key, (start_s, end_s))
    times[key] = min(since_s, start_s), max(until_s, end_s)


def _by_thread(spans: Iterable[ThreadSpan]) -> dict[JobThread, float]:
    sums: dict[JobThread, float] = defaultdict(float)
    for span in spans:
        sums[span.thread] += span.end_s - span.start_s
    return sums


def _writes(table: TraceTable, tier: Tier) -> Iterator[tuple[JobThread, Write]]:
    """Yield the writes in a tier, those of a thread within a bin of time as one."""
    for key, amount in table.activity.items():
        if key.tier == tier and key.operation == Operation.WRITE and amount.bytes:
            start_s, end_s = amount.start_ns / _NS, amount.end_ns / _NS
            yield key.thread, Write(start_s=start_s, end_s=end_s, bytes=amount.bytes)


def _tier_totals(table: TraceTable, tier: str) -> TierTotals:
    durations_ns, moved, calls = Counter[JobThread](), Counter[str](), 0
    for key, amount in table.accesses.items():
        if key.tier == tier:
            durations_ns[key.thread] += amount.duration_ns
            moved[key.operation] += amount.bytes
            calls += amount.calls
    return TierTotals(
        seconds=max(durations_ns.values(), default=0) / _NS,
        sum_s=durations_ns.total() / _NS,
        calls=calls,
        read_bytes=moved[Operation.READ],
        written_bytes=moved[Operation.WRITE],
    )


def _file_classes(name: str, table: TraceTable) -> list[FileClassRow]:
    """Return a row for each class, tier and operation, those with the most bytes first."""
    calls, moved = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    durations_ns: dict[tuple[str, str, str], Counter[JobThread]] = defaultdict(Counter)
    for key, amount in table.accesses.items():
        calls[key[:3]] += amount.calls
        moved[key[:3]] += amount.bytes
        durations_ns[key[:3]][key.thread] += amount.duration_ns
    return [
        FileClassRow(
            run=name,
            tier=group[0],
            file_class=group[1],
            operation=group[2],
            calls=calls[group],
            bytes=total,
            seconds=max(durations_ns[group].values()) / _NS,
            sum_s=durations_ns[group].total() / _NS,
        )
        for group, total in sorted(moved.items(), key=lambda item: (-item[1], item[0]))
    ]


def _activity(name: str, table: TraceTable) -> list[ActivityRow]:
    moved, durations_ns = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    for key, amount in table.activity.items():
        if amount.bytes:
            moved[key.tier, key.operation, key.bin] += amount.bytes
            durations_ns[key.tier, key.operation, key.bin] += amount.duration_ns
    return [
        ActivityRow(
            run=name,
            tier=place[0],
            operation=place[1],
            start_s=float(place[2] * table.bin_s),
            width_s=float(table.bin_s),
            bytes=total,
            seconds=durations_ns[place] / _NS,
        )
        for place, total in sorted(moved.items())
    ]


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


def access_rows(runs: Iterable[Run]) -> Iterator[dict[str, str | int | float]]:
    """Yield all accesses of `runs` as rows for a table of one's own: the finest that a study has."""
    for run in runs:
        for (tier, file_class, operation, thread, size), amount in run.table.resolved().accesses.items():
            yield {
                "run": run.name,
                "tier": tier,
                "file_class": file_class,
                "operation": operation,
                **thread._asdict(),
                "size_below": 1 << size if size >= 0 else -1,
                "calls": amount.calls,
                "bytes": amount.bytes,
                "seconds": amount.duration_ns / _NS,
                "start_s": amount.start_ns / _NS,
                "end_s": amount.end_ns / _NS,
            }
