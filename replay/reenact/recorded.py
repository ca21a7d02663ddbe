"""The plan of a recorded run: its checkpoints, the files of each process in them, and what it did between.

Pure: made of a table by files, which :func:`scrtune.replay.reading.scan.read_table` reads.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice, pairwise
from pathlib import PurePosixPath

import msgspec

from ...intents.events import Operation, SpanKind, Tier
from ...intents.trace.digest import Tiers
from ..spans import by_checkpoint, outermost
from ..study import Run, study
from ..table import TraceTable
from .plan import Plan, PlannedCheckpoint, PlannedFile, ReenactError

_NS = 1e9

Process = tuple[str, int]
"""Host and pid."""

_Times = tuple[float, float]
_OWN_CALLS = (Operation.WRITE, Operation.SYNC)


class PlanScope(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a run is written again. `scale` multiplies bytes and pauses; `ranks` is the most."""

    ranks: int
    checkpoints: int = 6
    scale: float = 1.0


class FilePaths:
    """The place of a path: its tier, and within a tier the path itself (SCR's own files apart)."""

    def __init__(self, tiers: Mapping[str, str]) -> None:
        self._tiers = Tiers(tiers)

    def of(self, path: str) -> str:
        """Return the place of `path`."""
        tier, is_scr = self._tiers.find(path)
        return f"{tier}/" if tier == Tier.OTHER or is_scr else f"{tier}/{path}"


class _RecordedCheckpoint(msgspec.Struct):
    """When a checkpoint was written: by all, and by each process that says so with spans."""

    start_s: float
    end_s: float
    spans: dict[Process, list[_Times]] = {}

    def of(self, process: Process) -> list[_Times]:
        """Return when `process` was at it."""
        return self.spans.get(process, [(self.start_s, self.end_s)])


class _RecordedFile(msgspec.Struct):
    """The calls of one process on a file: when, for how long, and of which sizes its writes were."""

    process: Process
    tier: str
    path: str
    start_s: float = float("inf")
    end_s: float = 0.0
    busy_s: float = 0.0
    is_synced: bool = False
    writes: list[tuple[float, int, int]] = []
    """When they began, their bytes and their number."""
    shares: int = 1
    """The checkpoints that it was written in: each has its share."""


_Files = dict[Process, list[_RecordedFile]]


def make_plan(table: TraceTable, scope: PlanScope) -> Plan:
    """Return the plan of a resolved table. Raises ReenactError."""
    checkpoints = _checkpoints(table)
    found = _in_checkpoints(_recorded(table), checkpoints)
    written = [(each, files) for each, files in zip(checkpoints, found, strict=True) if files]
    if not written:
        raise ReenactError(
            "its traces show no checkpoint with files in a tier: name their directory as prefix or cache"
        )
    processes = sorted({process for _, files in written for process in files})
    ranks = max(1, min(scope.ranks, len(processes)))
    chosen = [processes[rank * len(processes) // ranks] for rank in range(ranks)]
    thinks_s = [max(0.0, after.start_s - each.end_s) for (each, _), (after, _) in pairwise(written)]
    planned = [
        PlannedCheckpoint(
            think_s=think_s * scope.scale,
            ranks=tuple(
                tuple(_planned(files.get(process, ()), each.of(process), scope.scale)) for process in chosen
            ),
        )
        # the first comes as late as the second: it may follow the last
        for (each, files), think_s in zip(written, [*thinks_s[:1], *thinks_s] or [0.0], strict=True)
    ]
    return Plan(
        checkpoints=tuple(islice(cycle(planned), scope.checkpoints)),
        ranks=ranks,
        recorded_ranks=len(processes),
        nodes=len({host for host, _ in chosen}),
        scale=scope.scale,
    )


def _checkpoints(table: TraceTable) -> list[_RecordedCheckpoint]:
    """Return the checkpoints that a study finds in `table`."""
    rows = study([Run(name="recorded", table=table)]).checkpoints
    found = [_RecordedCheckpoint(row.start_s, row.start_s + row.wall_s) for row in rows]
    saves = [span for span in outermost(table.spans) if span.kind == SpanKind.SAVE]
    for checkpoint, group in zip(found, by_checkpoint(saves), strict=False):  # bursts have no spans
        for span in group:
            spans = checkpoint.spans.setdefault(span.pid, [])
            since_s = max(span.start_s, spans[-1][1] if spans else 0.0)  # threads may save side by side
            if span.end_s > since_s or not spans:
                spans.append((since_s, span.end_s))
    return found


def _in_checkpoints(
    files: Iterable[_RecordedFile], checkpoints: Sequence[_RecordedCheckpoint]
) -> list[_Files]:
    """Return the files of each checkpoint by process.

    Where some are in the cache those are the application's: what is below the prefix directory are copies.
    """
    found: list[_Files] = [{} for _ in checkpoints]
    times: dict[Process, tuple[list[float], list[float]]] = {}
    for file in files:
        if file.process not in times:
            spans = [each.of(file.process) for each in checkpoints]
            times[file.process] = [each[0][0] for each in spans], [each[-1][1] for each in spans]
        starts_s, ends_s = times[file.process]
        inside = range(bisect_left(ends_s, file.start_s), bisect_right(starts_s, file.end_s))
        file.shares = len(inside)
        for number in inside:
            found[number].setdefault(file.process, []).append(file)
    return [_of_the_application(each) for each in found]


def _of_the_application(files: _Files) -> _Files:
    if not any(file.tier == Tier.CACHE for each in files.values() for file in each):
        return files
    cached = {process: [file for file in each if file.tier == Tier.CACHE] for process, each in files.items()}
    return {process: each for process, each in cached.items() if each}


def _recorded(table: TraceTable) -> list[_RecordedFile]:
    """Return the files that a process wrote to; a file that several wrote is one of each."""
    files: dict[tuple[Process, str], _RecordedFile] = {}
    for key, amount in table.accesses.items():
        if not key.file_class or key.tier == Tier.OTHER:
            continue
        if key.tier == Tier.CACHE and key.operation not in _OWN_CALLS:
            continue  # SCR encodes, copies and deletes what lies there
        process = key.thread.host, key.thread.pid
        file = files.setdefault((process, key.file_class), _RecordedFile(process, key.tier, key.file_class))
        file.busy_s += amount.duration_ns / _NS
        file.start_s = min(file.start_s, amount.start_ns / _NS)
        file.end_s = max(file.end_s, amount.end_ns / _NS)
        file.is_synced |= key.operation == Operation.SYNC
        if key.operation == Operation.WRITE and amount.bytes:
            file.writes.append((amount.start_ns / _NS, amount.bytes, amount.calls))
    return [file for file in files.values() if file.writes]


def _planned(files: Sequence[_RecordedFile], spans: Sequence[_Times], scale: float) -> Iterator[PlannedFile]:
    """Yield the files of a rank in the order of their first calls, written within `spans`."""
    in_order = sorted(files, key=lambda file: file.start_s)
    pauses_s = _pauses_s(in_order, spans)
    for number, (file, (pause_s, idle_s)) in enumerate(zip(in_order, pauses_s, strict=True)):
        part = scale / file.shares
        yield PlannedFile(
            name=f"{number}-{PurePosixPath(file.path).name}",
            pause_s=pause_s * scale,
            writes=tuple(
                write
                for _, total, calls in sorted(file.writes)
                for write in _divided(round(total * part), round(calls * part))
            ),
            is_synced=file.is_synced,
            idle_s=idle_s * scale,
        )


def _pauses_s(files: Sequence[_RecordedFile], spans: Sequence[_Times]) -> list[_Times]:
    """Return how long something else was done in `spans` before each of `files`, and between its calls.

    Files that are written by turns, or at the same time, count what is done with the others as well: all
    together are not more than the time that is left. Before the first file in the cache SCR makes room there.
    """
    pauses_s: list[_Times] = []
    first_s = files[0].start_s if files and files[0].tier == Tier.CACHE else spans[0][0]
    at_s = first_s
    for file in files:
        pause_s = idle_s = 0.0
        if file.shares == 1:
            pause_s = _within(spans, at_s, file.start_s)
            idle_s = max(0.0, _within(spans, file.start_s, file.end_s) - file.busy_s)
            at_s = max(at_s, file.end_s)
        pauses_s.append((pause_s, idle_s))
    busy_s = sum(min(file.busy_s / file.shares, _within(spans, file.start_s, file.end_s)) for file in files)
    left_s = max(0.0, _within(spans, first_s, at_s) - busy_s)
    all_s = sum(map(sum, pauses_s))
    part = min(1.0, left_s / all_s) if all_s else 0.0
    return [(pause_s * part, idle_s * part) for pause_s, idle_s in pauses_s]


def _within(spans: Iterable[_Times], since_s: float, until_s: float) -> float:
    """Return the seconds of `spans` between two times."""
    return sum(max(0.0, min(end_s, until_s) - max(start_s, since_s)) for start_s, end_s in spans)


def _divided(total: int, calls: int) -> Iterator[tuple[int, int]]:
    """Yield (bytes, calls) of `calls` writes of `total` bytes, the last of which has the rest."""
    calls = max(1, calls)
    size, rest = divmod(max(1, total), calls)
    if size and calls > 1:
        yield size, calls - 1
    yield size + rest, 1
