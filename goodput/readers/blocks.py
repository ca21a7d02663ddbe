"""Blocks of JSON lines decoded at once: what most of a log is made of, straight into columns.

In our own log that is steps and borders of intervals, in ml-goodput-measurement's steps and data loading.
Lines with anything else are left to :mod:`.jsonl`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter, gt
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ..job_events import JobEvents
from ..validation import LARGEST_INTEGER, LARGEST_S

NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_T = TypeVar("_T")
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)] | UnsetType
_Time: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST_S, le=LARGEST_S)] | UnsetType
_Jobs: TypeAlias = defaultdict[str, JobEvents]


class _Event(msgspec.Struct, gc=False):
    """A line of our own log."""

    type: Literal["step_started", "step_completed", "interval_started", "interval_ended"]
    job_name: str = ""
    step: _Number = UNSET
    time_s: _Time = UNSET
    start_s: _Time = UNSET
    end_s: _Time = UNSET
    kind: str | UnsetType = UNSET
    name: str = ""
    writer: str = ""


class _Entry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A line of ml-goodput-measurement's recorder."""

    job_name: str = ""
    step_count: _Number = UNSET
    step_start_time: _Time = UNSET
    data_loading_start_time: _Time = UNSET
    data_loading_end_time: _Time = UNSET


class Block(msgspec.Struct):
    """What lines in `form` say: `events` by job, of so many `entries`, and the indices of `other` lines."""

    form: str
    events: dict[str, JobEvents]
    entries: int
    other: Sequence[int]


_HEAD_BYTES = 4096
_LOADING = attrgetter("data_loading_start_time", "data_loading_end_time")
_events: msgspec.json.Decoder[_Event] = msgspec.json.Decoder(_Event)
_entries: msgspec.json.Decoder[_Entry] = msgspec.json.Decoder(_Entry)


def block_of(text: bytes, count: int) -> Block:
    """Return what `count` lines say. Raises TypeError or ValueError where not all fits into columns."""
    jobs: _Jobs = defaultdict(JobEvents)
    if b'"type"' in text[:_HEAD_BYTES]:
        events, other = _decoded(text, count, _events)
        _add_events(jobs, events)
        return Block("scrtune", jobs, len(events), other)
    entries, other = _decoded(text, count, _entries)
    _add_entries(jobs, entries)
    return Block("ml-goodput-measurement", jobs, len(entries), other)


def _decoded(text: bytes, count: int, decoder: msgspec.json.Decoder[_T]) -> tuple[list[_T], Sequence[int]]:
    """Return the lines as objects, and the indices of those that are none."""
    try:
        lines = decoder.decode_lines(text)
        if len(lines) == count:
            return lines, ()
    except NO_JSON:
        pass  # not all of them: one after the other
    lines, other = [], []
    for index, line in enumerate(text.split(b"\n")):
        try:
            lines.append(decoder.decode(line))
        except NO_JSON:
            other.append(index)
    return lines, other


def _add_events(jobs: _Jobs, lines: list[_Event]) -> None:
    begun = [line for line in lines if line.type == "step_started"]
    for (job, writer), part in _grouped(begun, "job_name", "writer"):
        _fill(jobs[job].step_starts[writer], part, numbers="step", times_s="time_s")
    completed = [line for line in lines if line.type == "step_completed"]
    for (job, writer), part in _grouped(completed, "job_name", "writer"):
        whole = jobs[job].whole_steps[writer]
        _fill(whole, part, numbers="step", starts_s="start_s", ends_s="end_s")
        if any(map(gt, whole.starts_s, whole.ends_s)):
            raise ValueError("an end before its start")
    bordering = [line for line in lines if line.type in ("interval_started", "interval_ended")]
    for (job, kind, name, writer), part in _grouped(bordering, "job_name", "kind", "name", "writer"):
        if kind is UNSET:
            raise ValueError("no kind")
        borders = jobs[job].borders[kind, name, writer]
        borders.begins.fromlist([int(line.type == "interval_started") for line in part])
        _fill(borders, part, times_s="time_s")


def _add_entries(jobs: _Jobs, lines: list[_Entry]) -> None:
    for job, part in _grouped(lines, "job_name"):
        begun = [line for line in part if line.step_start_time is not UNSET]
        loading = [line for line in part if line.step_start_time is UNSET] if len(begun) < len(part) else []
        begins = [int(line.data_loading_end_time is UNSET) for line in loading]
        both = begins.count(0) - [line.data_loading_start_time for line in loading].count(UNSET)
        if both or [line for line in begun if line.data_loading_start_time is not line.data_loading_end_time]:
            raise ValueError("several things in one entry")
        if begun:
            _fill(jobs[job].step_starts[""], begun, numbers="step_count", times_s="step_start_time")
        if loading:
            borders = jobs[job].borders["data_loading", "", ""]
            borders.begins.fromlist(begins)
            borders.times_s.fromlist(
                [start if end is UNSET else end for start, end in map(_LOADING, loading)]
            )


def _grouped(lines: list[Any], *fields: str) -> Iterable[tuple[Any, list[Any]]]:
    """Return the lines by these fields, which mostly are the same in all."""
    keys = list(map(attrgetter(*fields), lines))
    if keys and keys.count(keys[0]) == len(keys):
        return [(keys[0], lines)]
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for key, line in zip(keys, lines, strict=True):
        groups[key].append(line)
    return groups.items()


def _fill(columns: Any, lines: list[Any], **fields: str) -> None:
    """Append a field of each line to the columns of these names."""
    for column, field in fields.items():
        getattr(columns, column).fromlist(list(map(attrgetter(field), lines)))
