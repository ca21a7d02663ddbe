"""The checkpoints and restarts that recorded traces show.

Where the application (or DLIO, or pydftracer) traced its calls, the outermost spans that save are checkpoints
and those that load are restarts. Spans of several ranks are one checkpoint when they name the same epoch and
step; where they name no step, when they overlap. A code without such spans, in C or Fortran, is seen to take
a checkpoint where its writes come in bursts: that is inferred, and said to be.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from statistics import fmean, median, pstdev
from typing import Any, TypeVar

import msgspec

from ..goodput.events import OutputCompleted, RestartCompleted
from ..intents.events import Operation, Span, SpanKind, Tier, TraceDigest
from ..intents.intent import Confidence
from ..intents.trace.calls import CHECKPOINT_CALLS
from .table import ThreadSpan

_BREAK = 3.0
"""Gaps between bursts are longer than those within one by this factor at least."""
_LEAST_BREAK_S = 1e-3
_ALIKE = 0.25
_SEVERAL = 3


class JobInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint, or a restart, of the whole job."""

    name: str
    start_s: float
    end_s: float


class TraceFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints and restarts of a job, and how they are known; inferred ones have a `confidence`."""

    saves: tuple[JobInterval, ...] = ()
    loads: tuple[JobInterval, ...] = ()
    confidence: Confidence = Confidence.DECLARED

    @property
    def source(self) -> str:
        """Return where they are known from, for people."""
        if self.confidence is Confidence.DECLARED:
            return "spans of the application"
        return f"inferred from bursts of writes, {self.confidence} confidence"

    def events(self, digests: Sequence[TraceDigest], ranks: int) -> list[OutputCompleted | RestartCompleted]:
        """Return them as events, in order of time.

        Without SCR a job writes to where its checkpoints stay: all of it is blocking write time. Bytes and
        files are the job's writes outside SCR's own files, divided evenly.
        """
        bytes_each = sum(write.bytes for write in writes(digests)) // max(1, len(self.saves))
        saves = [
            OutputCompleted(
                dataset=number,
                name=f"{save.name}.{number}",
                start_s=save.start_s,
                end_s=save.end_s,
                bytes=bytes_each,
                files=ranks,
                write_s=save.end_s - save.start_s,
            )
            for number, save in enumerate(self.saves, start=1)
        ]
        loads = [
            RestartCompleted(
                dataset=sum(save.end_s <= load.start_s for save in self.saves),
                name=load.name,
                start_s=load.start_s,
                end_s=load.end_s,
                source="prefix",
            )
            for load in self.loads
        ]
        return sorted([*saves, *loads], key=lambda event: event.end_s)


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Writes of the application between two times."""

    start_s: float
    end_s: float
    bytes: int


S = TypeVar("S", bound=Span | ThreadSpan)


def from_spans(digests: Iterable[TraceDigest]) -> TraceFindings:
    """Return what the spans say."""
    spans = outermost(span for digest in digests for span in digest.checkpoints)
    saves, loads = (
        tuple(
            JobInterval(name=group[0].name, start_s=group[0].start_s, end_s=max(span.end_s for span in group))
            for group in by_checkpoint([span for span in spans if span.kind == kind])
        )
        for kind in (SpanKind.SAVE, SpanKind.LOAD)
    )
    return TraceFindings(saves=saves, loads=loads)


def outermost(spans: Iterable[S]) -> list[S]:
    """Return the spans that lie in no other of their thread, in order of time.

    One that names neither epoch nor step has those of a span in it, as with pydftracer's decorators.
    """
    kept: list[S] = []
    in_order = sorted(spans, key=lambda span: (span.pid, span.tid, span.start_s, -span.end_s))
    for _, of_thread in groupby(in_order, key=lambda span: (span.pid, span.tid)):
        until_s = -1.0
        for span in of_thread:
            if span.end_s > until_s:
                kept.append(span)
                until_s = span.end_s
            elif (kept[-1].epoch, kept[-1].step) == (None, None) and span.step is not None:
                kept[-1] = msgspec.structs.replace(kept[-1], epoch=span.epoch, step=span.step)
    return sorted(kept, key=lambda span: span.start_s)


def by_checkpoint(spans: Iterable[S]) -> list[list[S]]:
    """Return the spans of each checkpoint of the job; `spans` are outermost ones in order of time."""
    keyed: dict[tuple[int | None, int | None, int], list[S]] = {}
    rounds = Counter[tuple[Any, tuple[int | None, int | None]]]()
    last: dict[Any, tuple[int | None, int | None]] = {}
    overlapping: list[list[S]] = []
    until_s = -1.0
    for span in spans:
        key = (span.epoch, span.step)
        if key == (None, None) or (span.step is None and _is_whole(span)):
            if span.start_s > until_s or not overlapping:
                overlapping.append([])
            overlapping[-1].append(span)
            until_s = max(until_s, span.end_s)
            continue
        if last.get(span.pid) != key:  # it came back to a step: that is another checkpoint
            rounds[span.pid, key] += 1
            last[span.pid] = key
        keyed.setdefault((*key, rounds[span.pid, key]), []).append(span)
    return sorted([*keyed.values(), *overlapping], key=lambda group: group[0].start_s)


def _is_whole(span: Span | ThreadSpan) -> bool:
    """Return whether a span is all of a checkpoint: DLIO's name their epoch, which has several."""
    return span.name.rpartition(".")[2].lower() in CHECKPOINT_CALLS


def writes(digests: Iterable[TraceDigest]) -> Iterator[Write]:
    """Return the application's writes, one for each digest and tier."""
    for digest in digests:
        for access in digest.accesses:
            if access.op == Operation.WRITE and access.tier != Tier.SCR and access.bytes > 0:
                yield Write(start_s=access.start_s, end_s=access.end_s, bytes=access.bytes)


def from_writes(all_writes: Iterable[Write]) -> TraceFindings:
    """Return the checkpoints that bursts of writes show, each of which has no gap in it.

    Where the gaps between writes have a natural break, what lies between two long ones is a burst. Bursts
    that are alike in bytes are more likely to be checkpoints.
    """
    found = sorted(all_writes, key=lambda write: write.start_s)
    if not found:
        return TraceFindings(confidence=Confidence.NONE)
    threshold_s = _threshold_s(found)
    bursts = [found[0]]
    for write in found[1:]:
        if write.start_s - bursts[-1].end_s > threshold_s:
            bursts.append(write)
        else:
            end_s = max(bursts[-1].end_s, write.end_s)
            total = bursts[-1].bytes + write.bytes
            bursts[-1] = msgspec.structs.replace(bursts[-1], end_s=end_s, bytes=total)
    heaviest = max(burst.bytes for burst in bursts)
    kept = [burst for burst in bursts if burst.bytes * 10 >= heaviest]
    sizes = [burst.bytes for burst in kept]
    are_alike = len(kept) >= _SEVERAL and pstdev(sizes) <= _ALIKE * fmean(sizes)
    return TraceFindings(
        saves=tuple(JobInterval(name="burst", start_s=each.start_s, end_s=each.end_s) for each in kept),
        confidence=Confidence.MEDIUM if are_alike else Confidence.LOW,
    )


def _threshold_s(found: Sequence[Write]) -> float:
    """Return the gap in seconds that parts bursts: where sorted gaps grow most, and threefold at least."""
    until_s, gaps = found[0].end_s, []
    for write in found[1:]:
        gaps.append(max(0.0, write.start_s - until_s))
        until_s = max(until_s, write.end_s)
    shortest = max(_LEAST_BREAK_S, median(write.end_s - write.start_s for write in found))
    steps = sorted([shortest, *(gap for gap in gaps if gap > shortest)])
    grows, at = max(((high / low, low * high) for low, high in pairwise(steps)), default=(0.0, 0.0))
    return at**0.5 if grows >= _BREAK else float("inf")
