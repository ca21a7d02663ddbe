"""Run recorded traces through the pipeline of the live daemon, with the same rules."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from ..client.capture.scanner import new_scanner
from ..goodput.events import FlushCompleted, JobStarted, OutputCompleted, RestartCompleted
from ..intents.declared import Declared
from ..intents.events import (
    NodeObserved,
    Operation,
    ProcessUse,
    SettingsObserved,
    Tier,
    TraceDigest,
    Values,
    ValueSource,
)
from ..intents.pipeline import Pipeline
from ..intents.settings import changes_text
from ..intents.trace.decoder import TraceDecoder
from ..scr_config.problems import Code, ConfigProblem, Severity
from ..scr_config.resolution import Resolved, resolve
from .outputs import MOST_LINES, read_outputs, without_writes
from .reading.scan import read_table
from .reading.traces import Summary, cut_at_gaps, find_traces, read_traces, tiers_of
from .seen_settings import certain, seen_settings
from .spans import JobInterval, TraceFindings, from_spans, from_writes, writes
from .study import Run, study
from .unseen import unseen_in_digests

_BATCHES_A_DIGEST = 64
_GAPS = 2000
"""Gaps of this part of a trace's time are seen between writes, and longer ones."""
_DEFAULT = ValueSource.DEFAULT
_BYPASS = "SCR_CACHE_BYPASS"

_Recorded: TypeAlias = OutputCompleted | FlushCompleted | RestartCompleted


class JobShape(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a job that its trace lacks; what is missing is taken from the trace or not known.

    `cores` are a node's cores. `conf` and `system_conf` are the texts of the user's and the system's SCR
    config file that the job ran with: the machine that replays is not the one that ran.
    """

    prefix: str = ""
    cache: str = ""
    cores: int = 0
    nodes: int = 0
    floor: str = ""
    declared: Declared = Declared()
    conf: str | None = None
    system_conf: str | None = None

    @property
    def tiers(self) -> dict[str, str]:
        """The tiers of the directories that are known."""
        return tiers_of(self.prefix, self.cache)


class MergedTraces(msgspec.Struct, frozen=True, kw_only=True):
    """The traces of one path among several that are read as one job: files, and when their events were."""

    path: str
    files: int
    start_s: float = 0.0
    end_s: float = 0.0


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that has seen the traces, what was read, and when the traces begin and end.

    `settings_from` says how SCR's settings are known, `checkpoints_from` how the checkpoints are, `unseen`
    that the traces lack writes. `problems` are those of the config files in the shape.
    """

    pipeline: Pipeline
    summary: Summary
    start_s: float
    end_s: float
    settings_from: str = ""
    checkpoints_from: str = ""
    unseen: str = ""
    problems: tuple[ConfigProblem, ...] = ()
    merged: tuple[MergedTraces, ...] = ()


def replay_traces(paths: Sequence[Path], shape: JobShape) -> Replayed:
    """Read `paths` into a pipeline. Raises :class:`scrtune.replay.reading.traces.TraceNotFoundError`."""
    summary = Summary()
    digests = read_digests(paths, shape, summary)
    pipeline = Pipeline()
    start_s = min((digest.start_s for digest in digests if digest.end_s > 0), default=0.0)
    end_s = max((digest.end_s for digest in digests), default=0.0)
    processes = tuple(sorted({process for digest in digests for process in digest.processes}))
    ranks = max(1, at_once(len(processes), summary.spans.values()))
    nodes = shape.nodes or max(1, len({host for host, _ in processes}))
    pipeline.handle(JobStarted(time_s=start_s, ranks=ranks, nodes=nodes), start_s)
    resolved = resolve({}, shape.conf, None, shape.system_conf)
    seen = _see_scr(paths, shape, digests)
    unsaid = {name: value for name, value in seen.settings.items() if resolved.sources[name] == _DEFAULT}
    observed = SettingsObserved(
        settings=resolved.settings | unsaid,
        sources=resolved.sources | dict.fromkeys(unsaid, ValueSource.TRACE.value),
        engine="recorded trace",
        ranks=ranks,
        nodes=nodes,
        prefix=shape.prefix,
        cache=shape.cache,
        floor=shape.floor,
        declared=shape.declared,
        tuning=False,
        processes=processes,
    )
    pipeline.handle(observed, start_s)
    if shape.cores:
        pipeline.handle(_node(shape.cores, processes[:ranks], nodes), start_s)
    found = find_checkpoints(paths, shape, digests)
    events = seen.events(found.events(digests, ranks))
    for event in _in_order(paths, shape, digests, found.saves, events, summary.lines):
        pipeline.handle(event, event.end_s)
    problems = tuple(map(_without_environment, resolved.problems))
    return Replayed(
        pipeline=pipeline,
        summary=summary,
        start_s=start_s,
        end_s=end_s,
        settings_from=_settings_from(shape, resolved, seen.settings),
        checkpoints_from=found.source if found.saves else "",
        unseen=unseen_in_digests(digests),
        problems=problems,
        merged=tuple(
            sorted((_merged(path, summary) for path in paths), key=lambda each: (each.start_s, each.path))
        ),
    )


def at_once(processes: int, spans: Collection[tuple[float, float]]) -> int:
    """Return how many of the `processes` ran at a time, where each has left a file with the times of `spans`.

    A workflow has many short ones in its allocation; else it is all of them.
    """
    if len(spans) != processes:
        return processes
    starts, ends = ((start_s, -1) for start_s, _ in spans), ((end_s, 1) for _, end_s in spans)
    # minus, so that of two at one time the one that begins comes before the one that ends
    return -min(accumulate(change for _, change in sorted([*starts, *ends])), default=0)


class _SeenOfScr(NamedTuple):
    """What traces show of SCR: its settings, as far as they are certain, and flushes in the background."""

    settings: Values
    flushes: tuple[FlushCompleted, ...]

    def events(self, found: Iterable[_Recorded]) -> list[_Recorded]:
        """Return the flushes among the events that were `found`, in order of time."""
        flushed = {flush.dataset for flush in self.flushes}
        due = (
            msgspec.structs.replace(event, flush_due=True)
            if isinstance(event, OutputCompleted) and event.dataset in flushed
            else event
            for event in found
        )
        return sorted([*due, *self.flushes], key=lambda event: event.end_s)


def _see_scr(paths: Sequence[Path], shape: JobShape, digests: Sequence[TraceDigest]) -> _SeenOfScr:
    """Return what traces of a job that wrote to its cache show; for that they are read once more."""
    if _written_tier(shape, digests) != Tier.CACHE:
        return _SeenOfScr({}, ())
    table = read_table(paths, shape.tiers).resolved()
    found = study([Run(name="recorded", table=table)])
    row = found.runs[0]
    flushes = (
        FlushCompleted(
            dataset=each.number,
            start_s=each.flush_end_s - each.flush_s,
            end_s=each.flush_end_s,
            asynchronous=True,
            bytes=row.prefix.written_bytes // row.flushes,
        )
        for each in found.checkpoints
        if each.flush_s is not None and each.flush_end_s is not None
    )
    return _SeenOfScr(certain(seen_settings(table, row)), tuple(flushes))


def _settings_from(shape: JobShape, resolved: Resolved, seen: Values) -> str:
    """Return how the settings are known, and what says more of them."""
    source = resolved.sources[_BYPASS]
    if _BYPASS in seen and source != _DEFAULT and resolved.settings[_BYPASS] != seen[_BYPASS]:
        return f"{_BYPASS}={resolved.settings[_BYPASS]} ({source}), but the job wrote to its cache"
    unsaid = {name: value for name, value in seen.items() if resolved.sources[name] == _DEFAULT}
    shown = f"{changes_text(unsaid)} (the trace shows it), else " if unsaid else ""
    if shape.conf is not None or shape.system_conf is not None:
        return f"{shown}those of the config file, else SCR's defaults"
    cache = "" if shape.cache else ", --cache DIR where its cache was"
    past = "" if unsaid else ", which write past the cache"
    return f"{shown}SCR's defaults{past}: --conf FILE says what the job ran with{cache}"


def _in_order(  # noqa: PLR0913, PLR0917 - what one reading of the traces has found
    paths: Sequence[Path],
    shape: JobShape,
    digests: Sequence[TraceDigest],
    saves: Sequence[JobInterval],
    events: Sequence[_Recorded],
    lines: int,
) -> Iterator[TraceDigest | _Recorded]:
    """Yield the digests, then `events`; of a short trace each output with what it wrote."""
    if not saves or lines > MOST_LINES:
        yield from digests
        yield from events
        return
    outputs, rest = read_outputs(paths, shape.tiers, saves)
    yield from map(without_writes, digests)
    yield rest
    for event in events:
        if isinstance(event, OutputCompleted):
            output = outputs[event.dataset - 1]
            yield output.told(event)
            yield output.digest
        else:
            yield event


def are_apart(merged: Sequence[MergedTraces]) -> bool:
    """Return whether traces follow each other without any overlap in time, as those of several runs do."""
    spans = sorted((each.start_s, each.end_s) for each in merged if each.end_s > 0)
    return any(end_s < start_s for (_, end_s), (start_s, _) in pairwise(spans))


def _merged(path: Path, summary: Summary) -> MergedTraces:
    files = {str(file) for file in find_traces([path])}
    spans = [span for (file, _), span in summary.spans.items() if file in files]
    return MergedTraces(
        path=str(path),
        files=len(files),
        start_s=min((start_s for start_s, _ in spans), default=0.0),
        end_s=max((end_s for _, end_s in spans), default=0.0),
    )


def read_digests(paths: Iterable[Path], shape: JobShape, summary: Summary) -> list[TraceDigest]:
    """Read the traces at `paths`; `summary` takes up what they are. Raises TraceNotFoundError.

    The digests are in order of time. None spans the way back from an archive's trace to its next.
    """
    decoder = TraceDecoder(shape.tiers, new_scanner())
    digests: list[TraceDigest | None] = []
    end_s = 0.0
    for number, batch in enumerate(read_traces(paths, summary)):
        is_back, end_s = (batch.end_s or end_s) < end_s, batch.end_s or end_s
        if is_back or number % _BATCHES_A_DIGEST == 0:
            digests.append(decoder.take())
        decoder.feed(batch.data, batch.source)
    digests.append(decoder.take(final=True))
    return sorted(filter(None, digests), key=lambda digest: digest.end_s)


def find_checkpoints(paths: Sequence[Path], shape: JobShape, digests: Sequence[TraceDigest]) -> TraceFindings:
    """Return the checkpoints and restarts in traces that were read as `digests`.

    Where the application traced none, they are read again for bursts of its writes: those into the cache if
    there are any, else those below the prefix directory (all writes, where `shape` names neither).
    """
    found = from_spans(digests)
    if found.saves or found.loads or not any(writes(digests)):
        return found
    times = [time_s for digest in digests if digest.end_s > 0 for time_s in (digest.start_s, digest.end_s)]
    tier, gap_s = _written_tier(shape, digests), (max(times) - min(times)) / _GAPS
    return from_writes(writes(_slices(paths, shape, tier, gap_s)))


def _written_tier(shape: JobShape, digests: Sequence[TraceDigest]) -> Tier:
    accesses = (access for digest in digests for access in digest.accesses)
    if any(access.tier == Tier.CACHE and access.op == Operation.WRITE for access in accesses):
        return Tier.CACHE
    return Tier.PREFIX if shape.prefix else Tier.OTHER


def _slices(paths: Iterable[Path], shape: JobShape, tier: Tier, gap_s: float) -> Iterator[TraceDigest]:
    """Return the writes into `tier`, cut where nothing was traced for longer than `gap_s`."""
    decoder = TraceDecoder(shape.tiers, new_scanner())
    for batch in read_traces(paths, Summary()):
        for lines in cut_at_gaps(batch.data, gap_s):
            decoder.feed(lines, batch.source)
            if (digest := decoder.take()) is not None:
                kept = tuple(access for access in digest.accesses if access.tier == tier)
                yield msgspec.structs.replace(digest, accesses=kept)


def _without_environment(problem: ConfigProblem) -> ConfigProblem:
    """Return `problem` as a warning when only the job's environment is missing here."""
    if problem.code is not Code.UNSET_VARIABLE:
        return problem
    return msgspec.structs.replace(
        problem,
        severity=Severity.WARNING,
        what="the job's environment is not known here: this value is left out",
        remedy="write the value itself into a copy of the file if it matters",
    )


def _node(cores: int, processes: tuple[tuple[str, int], ...], nodes: int) -> NodeObserved:
    """Return a node of which only the cores are known: each of its processes counts as using one."""
    cpus = tuple(range(cores))
    here = [pid for _, pid in processes][: -(-len(processes) // nodes)]
    return NodeObserved(
        host="recorded",
        source="given with --cores, use not known",
        cpus=cpus,
        processes=tuple(ProcessUse(pid=pid, cpus=cpus, cores_used=1.0) for pid in here),
    )
