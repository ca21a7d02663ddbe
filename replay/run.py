"""Run recorded traces through the pipeline of the live daemon, with the same rules."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec

from ..client.capture.scanner import new_scanner
from ..goodput.events import JobStarted, OutputCompleted, RestartCompleted
from ..intents.declared import Declared
from ..intents.events import NodeObserved, Operation, ProcessUse, SettingsObserved, Tier, TraceDigest
from ..intents.pipeline import Pipeline
from ..intents.trace.decoder import TraceDecoder
from ..scr_config.problems import Code, ConfigProblem, Severity
from ..scr_config.resolution import resolve
from .outputs import MOST_LINES, read_outputs, without_writes
from .reading.traces import Summary, cut_at_gaps, find_traces, read_traces
from .spans import TraceFindings, from_spans, from_writes, writes
from .unseen import unseen_in_digests

_BATCHES_A_DIGEST = 64
_GAPS = 2000
"""Gaps of this part of a trace's time are seen between writes, and longer ones."""


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


class MergedTraces(msgspec.Struct, frozen=True, kw_only=True):
    """The traces of one path among several that are read as one job: files, and when their events were."""

    path: str
    files: int
    start_s: float = 0.0
    end_s: float = 0.0


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that has seen the traces, what was read, and when the traces begin and end.

    `checkpoints_from` says how the checkpoints are known, `unseen` that the traces lack writes. `problems`
    are those of the config files in the shape.
    """

    pipeline: Pipeline
    summary: Summary
    start_s: float
    end_s: float
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
    observed = SettingsObserved(
        settings=resolved.settings,
        sources=resolved.sources,
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
    for event in _in_order(paths, shape, digests, found, ranks, summary.lines):
        pipeline.handle(event, event.end_s)
    problems = tuple(map(_without_environment, resolved.problems))
    return Replayed(
        pipeline=pipeline,
        summary=summary,
        start_s=start_s,
        end_s=end_s,
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


def _in_order(  # noqa: PLR0913, PLR0917 - what one reading of the traces has found
    paths: Sequence[Path],
    shape: JobShape,
    digests: Sequence[TraceDigest],
    found: TraceFindings,
    ranks: int,
    lines: int,
) -> Iterator[TraceDigest | OutputCompleted | RestartCompleted]:
    """Yield the digests, then outputs and restarts; of a short trace each output with what it wrote."""
    events = found.events(digests, ranks)
    if not found.saves or lines > MOST_LINES:
        yield from digests
        yield from events
        return
    outputs, rest = read_outputs(paths, _tiers(shape), found.saves)
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
    decoder = TraceDecoder(_tiers(shape), new_scanner())
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
    decoder = TraceDecoder(_tiers(shape), new_scanner())
    for batch in read_traces(paths, Summary()):
        for lines in cut_at_gaps(batch.data, gap_s):
            decoder.feed(lines, batch.source)
            if (digest := decoder.take()) is not None:
                kept = tuple(access for access in digest.accesses if access.tier == tier)
                yield msgspec.structs.replace(digest, accesses=kept)


def _tiers(shape: JobShape) -> dict[str, str]:
    return {
        directory: tier for directory, tier in ((shape.cache, "cache"), (shape.prefix, "prefix")) if directory
    }


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
