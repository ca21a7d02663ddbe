"""Run recorded traces through the pipeline of the live daemon, with the same rules."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..client.capture.scanner import new_scanner
from ..goodput.events import JobStarted, OutputCompleted
from ..intents.events import NodeObserved, ProcessUse, SettingsObserved, Span, TraceDigest
from ..intents.pipeline import Pipeline
from ..intents.trace.decoder import TraceDecoder
from ..scr_config.problems import Code, ConfigProblem, Severity
from ..scr_config.resolution import resolve
from .traces import Summary, read_traces

_BATCHES_A_DIGEST = 64


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
    conf: str | None = None
    system_conf: str | None = None


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that has seen the traces, what was read, and when the traces begin and end.

    `problems` are those of the config files in the shape.
    """

    pipeline: Pipeline
    summary: Summary
    start_s: float
    end_s: float
    problems: tuple[ConfigProblem, ...] = ()


def replay_traces(paths: Iterable[Path], shape: JobShape) -> Replayed:
    """Read `paths` into a pipeline. Raises :class:`scrtune.replay.traces.TraceNotFoundError`."""
    summary = Summary()
    digests = read_digests(paths, shape, summary)
    pipeline = Pipeline()
    start_s = min((digest.start_s for digest in digests if digest.end_s > 0), default=0.0)
    end_s = max((digest.end_s for digest in digests), default=0.0)
    processes = tuple(sorted({process for digest in digests for process in digest.processes}))
    ranks, nodes = max(1, len(processes)), shape.nodes or max(1, len({host for host, _ in processes}))
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
        tuning=False,
        processes=processes,
    )
    pipeline.handle(observed, start_s)
    if shape.cores:
        pipeline.handle(_node(shape.cores, processes, nodes), start_s)
    for digest in digests:
        pipeline.handle(digest, digest.end_s)
    for checkpoint in checkpoints(digests, ranks):
        pipeline.handle(checkpoint, checkpoint.end_s)
    problems = tuple(map(_without_environment, resolved.problems))
    return Replayed(pipeline=pipeline, summary=summary, start_s=start_s, end_s=end_s, problems=problems)


def checkpoints(digests: Iterable[TraceDigest], ranks: int) -> list[OutputCompleted]:
    """Return the job's checkpoints by the spans of its checkpoint category: what overlaps is one checkpoint.

    Without SCR a job writes to where its checkpoints stay: all of it is blocking write time. Bytes and files
    are the job's writes outside SCR's own files, divided evenly.
    """
    digests = list(digests)
    spans = sorted((span for digest in digests for span in digest.checkpoints), key=lambda span: span.start_s)
    groups: list[Span] = []
    for span in spans:
        if groups and span.start_s <= groups[-1].end_s:
            groups[-1] = msgspec.structs.replace(groups[-1], end_s=max(groups[-1].end_s, span.end_s))
        else:
            groups.append(span)
    written = sum(
        access.bytes
        for digest in digests
        for access in digest.accesses
        if access.op == "write" and access.tier != "scr"
    )
    return [
        OutputCompleted(
            dataset=number,
            name=f"{group.name}.{number}",
            start_s=group.start_s,
            end_s=group.end_s,
            bytes=written // len(groups),
            files=ranks,
            write_s=group.end_s - group.start_s,
        )
        for number, group in enumerate(groups, start=1)
    ]


def read_digests(paths: Iterable[Path], shape: JobShape, summary: Summary) -> list[TraceDigest]:
    """Read the traces at `paths`; `summary` takes up what they are. Raises TraceNotFoundError."""
    tiers = {shape.cache: "cache", shape.prefix: "prefix"}
    decoder = TraceDecoder({directory: tier for directory, tier in tiers.items() if directory}, new_scanner())
    digests = []
    for number, batch in enumerate(read_traces(paths, summary), start=1):
        decoder.feed(batch.data, batch.source)
        if number % _BATCHES_A_DIGEST == 0 and (digest := decoder.take()) is not None:
            digests.append(digest)
    if (digest := decoder.take(final=True)) is not None:
        digests.append(digest)
    return digests


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
