"""Many records of the journal as one: what steps share stands there once, their times as differences.

Nothing is left out, to the last bit of each number: what is unpacked is what was packed.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ...goodput.events import StepCompleted, StepStarted
from ...intents.events import Event, EventsLost, MetricObserved, NodeObserved, TraceDigest
from .records import Record, Senders

LEFT_OUT = "steps and samples of long ago, to keep the journal small"

_STEP_LIMIT = 1 << 62  # differences of what is below fit into 64 bit

Longs = npt.NDArray[np.int64]


class StepColumns(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Steps of one writer, a row for each: see :func:`_planes`.

    `numbers` are the place in the batch and the step's number, `times` those of the event and that of the
    record.
    """

    is_completed: bool
    writer: str
    count: int
    numbers: bytes
    times: bytes


class RecordBatch(msgspec.Struct, frozen=True, array_like=True, tag="batch", kw_only=True):
    """Records that follow each other: the steps, and the others with their places, as they were.

    `first` events lay before it, `count` are in it, less `left_out` (:func:`thinned`; `end_s` is the time
    of the last of them). `senders` is what was known of senders at its end.
    """

    first: int
    count: int
    steps: tuple[StepColumns, ...] = ()
    others: tuple[tuple[int, msgspec.Raw], ...] = ()
    senders: Senders = {}
    left_out: int = 0
    end_s: float = 0.0


_pair_decoder: msgspec.msgpack.Decoder[tuple[float, Event]] = msgspec.msgpack.Decoder(tuple[float, Event])


def pack(records: Sequence[Record], first: int) -> bytes:
    """Return a batch of `records`, before which there were `first`."""
    groups: dict[tuple[bool, str], list[tuple[int, int, tuple[float, ...]]]] = defaultdict(list)
    others = []
    for index, (payload, known) in enumerate(records):
        match known:
            case (now, StepCompleted(step=step) as event) if abs(step) < _STEP_LIMIT:
                groups[True, event.writer].append((index, step, (event.start_s, event.end_s, now)))
            case (now, StepStarted(step=step) as event) if abs(step) < _STEP_LIMIT:
                groups[False, event.writer].append((index, step, (event.time_s, now)))
            case _:
                others.append((index, msgspec.Raw(payload)))
    steps = tuple(
        StepColumns(
            is_completed=is_completed,
            writer=writer,
            count=len(rows),
            numbers=_planes(np.array([row[:2] for row in rows], "<i8")),
            times=_planes(np.array([row[2] for row in rows], "<f8").view("<i8")),
        )
        for (is_completed, writer), rows in groups.items()
    )
    batch = RecordBatch(first=first, count=len(records), steps=steps, others=tuple(others))
    return msgspec.msgpack.encode(batch)


def unpack(batch: RecordBatch) -> list[Record]:
    """Return what was packed, in order; at the end what is left out, as one event. Raises ValueError."""
    found: dict[int, Record] = {}
    for steps in batch.steps:
        columns = 3 if steps.is_completed else 2
        numbers = _rows(steps.numbers, steps.count, 2).tolist()
        times = _rows(steps.times, steps.count, columns).view("<f8").tolist()
        for (index, step), times_s in zip(numbers, times, strict=True):
            found[index] = Record(b"", (times_s[-1], _step(steps.writer, step, times_s)))
    for index, payload in batch.others:
        found[index] = Record(bytes(payload), _known(payload))
    records = [found[index] for index in sorted(found)]
    if batch.left_out:
        lost = EventsLost(source=LEFT_OUT, count=batch.left_out)
        records.append(Record(b"", (batch.end_s, lost)))
    return records


def thinned(payload: bytes) -> bytes | None:
    """Return a batch without its steps, metrics, digests and looks at the node.

    None if it is no batch, or has none of these.
    """
    try:
        batch = msgspec.msgpack.decode(payload, type=RecordBatch)
    except msgspec.MsgspecError:
        return None
    others = tuple((index, raw) for index, raw in batch.others if not _is_bulk(raw))
    if not batch.steps and len(others) == len(batch.others):
        return None
    thin = RecordBatch(
        first=batch.first,
        count=batch.count,
        others=others,
        senders=batch.senders,
        left_out=batch.count - len(others),
        end_s=max(record.known[0] for record in unpack(batch) if record.known),
    )
    return msgspec.msgpack.encode(thin)


def _is_bulk(payload: msgspec.Raw) -> bool:
    known = _known(payload)
    return known is not None and isinstance(known[1], TraceDigest | NodeObserved | MetricObserved)


def _known(payload: msgspec.Raw) -> tuple[float, Event] | None:
    try:
        return _pair_decoder.decode(payload)
    except (ValueError, RecursionError):
        return None


def _step(writer: str, step: int, times_s: Sequence[float]) -> StepCompleted | StepStarted:
    if len(times_s) == 3:  # noqa: PLR2004 - start, end, record
        return StepCompleted(step=step, start_s=times_s[0], end_s=times_s[1], writer=writer)
    return StepStarted(step=step, time_s=times_s[0], writer=writer)


def _planes(rows: Longs) -> bytes:
    """Return the differences from number to number, all lowest bytes first: what repeats lies together.

    Of two doubles the difference is that of their bits: small where they are near each other, and exact.
    """
    differences = np.diff(rows.ravel(), prepend=np.int64(0)).astype("<i8").reshape(rows.shape)
    planes: bytes = differences.view(np.uint8).T.tobytes()
    return planes


def _rows(planes: bytes, count: int, columns: int) -> Longs:
    differences = np.frombuffer(planes, np.uint8).reshape(columns * 8, count).T
    numbers: Longs = np.cumsum(np.ascontiguousarray(differences).view("<i8").ravel(), dtype="<i8")
    return numbers.reshape(count, columns)
