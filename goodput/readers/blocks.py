"""Blocks of JSON lines decoded at once: the events that most of a log is made of, straight into columns.

In our own log that is steps and borders of intervals, in one of ml-goodput-measurement steps and data loading.
What else a block has, :mod:`.jsonl` reads line by line.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, gt
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..job_events import JobEvents
from ..validation import LARGEST_INTEGER, LARGEST_S

NotColumnsError = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError)
"""What :func:`columns_of` raises."""

_Text: TypeAlias = str | UnsetType
_Step: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)] | UnsetType
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST_S, le=LARGEST_S)] | UnsetType
_Rare: TypeAlias = Raw | UnsetType
_Jobs: TypeAlias = defaultdict[str, JobEvents]


class Columns(msgspec.Struct):
    """What `lines` lines say: `events` by job, from `entries` of them, and the indices of all `others`."""

    form: str
    events: dict[str, JobEvents]
    entries: int
    others: Sequence[int]
    lines: int


class _Event(msgspec.Struct, gc=False):
    """A line of our own log."""

    type: _Text = UNSET
    job_name: str = ""
    step: _Step = UNSET
    time_s: _Seconds = UNSET
    start_s: _Seconds = UNSET
    end_s: _Seconds = UNSET
    kind: _Text = UNSET
    name: str = ""
    writer: str = ""


class _Entry(msgspec.Struct, gc=False):
    """A line of ml-goodput-measurement's recorder; raw fields only show that there is more in it."""

    job_name: str = ""
    step_count: _Step = UNSET
    step_start_time: _Seconds = UNSET
    data_loading_start_time: _Seconds = UNSET
    data_loading_end_time: _Seconds = UNSET
    type: _Rare = UNSET
    event_type: _Rare = UNSET
    jsonPayload: _Rare = UNSET
    job_start_time: _Rare = UNSET
    job_end_time: _Rare = UNSET
    tpu_init_start_time: _Rare = UNSET
    tpu_init_end_time: _Rare = UNSET
    training_prep_start_time: _Rare = UNSET
    training_prep_end_time: _Rare = UNSET
    custom_badput_event_start_time: _Rare = UNSET
    custom_badput_event_end_time: _Rare = UNSET
    elastic_slice_counts_timestamp: _Rare = UNSET
    elastic_wait_start_time: _Rare = UNSET
    elastic_wait_end_time: _Rare = UNSET
    elastic_reinit_start_time: _Rare = UNSET
    elastic_reinit_end_time: _Rare = UNSET


_events: msgspec.json.Decoder[_Event] = msgspec.json.Decoder(_Event)
_entries: msgspec.json.Decoder[_Entry] = msgspec.json.Decoder(_Entry)
_BORDERS = frozenset({"interval_started", "interval_ended"})
_COMMON = _BORDERS | {"step_started", "step_completed"}
_HEAD_BYTES = 4096


def columns_of(text: bytes) -> Columns:
    """Return what whole lines say. Raises one of :data:`NotColumnsError` where a line does not fit in."""
    return _of_events(text) if b'"type"' in text[:_HEAD_BYTES] else _of_entries(text)


def _of_events(text: bytes) -> Columns:
    lines = _events.decode_lines(text)
    others = [index for index, line in enumerate(lines) if line.type not in _COMMON]
    jobs: _Jobs = defaultdict(JobEvents)
    begun = [line for line in lines if line.type == "step_started"]
    for (job, writer), part in _grouped(begun, attrgetter("job_name", "writer")):
        starts = jobs[job].step_starts[writer]
        starts.numbers.fromlist([line.step for line in part])
        starts.times_s.fromlist([line.time_s for line in part])
    completed = [line for line in lines if line.type == "step_completed"]
    for (job, writer), part in _grouped(completed, attrgetter("job_name", "writer")):
        whole = jobs[job].whole_steps[writer]
        whole.numbers.fromlist([line.step for line in part])
        whole.starts_s.fromlist([line.start_s for line in part])
        whole.ends_s.fromlist([line.end_s for line in part])
        if any(map(gt, whole.starts_s, whole.ends_s)):
            raise ValueError("an end before its start")
    bordering = [line for line in lines if line.type in _BORDERS]
    for (job, kind, name, writer), part in _grouped(bordering, attrgetter("job_name", "kind", "name", "writer")):
        if kind is UNSET:
            raise ValueError("no kind")
        borders = jobs[job].borders[kind, name, writer]
        borders.begins.fromlist([line.type == "interval_started" for line in part])
        borders.times_s.fromlist([line.time_s for line in part])
    return Columns("scrtune", jobs, len(lines) - len(others), others, len(lines))


def _of_entries(text: bytes) -> Columns:
    lines = _entries.decode_lines(text)
    others = [
        index
        for index, line in enumerate(lines)
        # a step's start, or the start or end of data loading, and nothing else
        if (line.data_loading_start_time is line.data_loading_end_time) is (line.step_start_time is UNSET)
        or not (
            line.type
            is line.event_type
            is line.jsonPayload
            is line.job_start_time
            is line.job_end_time
            is line.tpu_init_start_time
            is line.tpu_init_end_time
            is line.training_prep_start_time
            is line.training_prep_end_time
            is line.custom_badput_event_start_time
            is line.custom_badput_event_end_time
            is line.elastic_slice_counts_timestamp
            is line.elastic_wait_start_time
            is line.elastic_wait_end_time
            is line.elastic_reinit_start_time
            is line.elastic_reinit_end_time
        )
    ]
    common = lines
    if others:
        rare = frozenset(others)
        common = [line for index, line in enumerate(lines) if index not in rare]
    jobs: _Jobs = defaultdict(JobEvents)
    for job, part in _grouped(common, attrgetter("job_name")):
        begun = [line for line in part if line.step_start_time is not UNSET]
        if begun:
            starts = jobs[job].step_starts[""]
            starts.numbers.fromlist([line.step_count for line in begun])
            starts.times_s.fromlist([line.step_start_time for line in begun])
        loads = [line for line in part if line.step_start_time is UNSET]
        if loads:
            begins = [line.data_loading_end_time is UNSET for line in loads]
            if begins.count(False) != [line.data_loading_start_time for line in loads].count(UNSET):
                raise ValueError("start and end of data loading in one entry")
            borders = jobs[job].borders["data_loading", "", ""]
            borders.begins.fromlist(begins)
            borders.times_s.fromlist(
                [
                    line.data_loading_start_time if starts else line.data_loading_end_time
                    for line, starts in zip(loads, begins, strict=True)
                ]
            )
    return Columns("ml-goodput-measurement", jobs, len(common), others, len(lines))


def _grouped(entries: list[Any], key: Callable[[Any], Any]) -> Iterable[tuple[Any, list[Any]]]:
    """Return the entries of each key; mostly all have the same one."""
    keys = list(map(key, entries))
    if keys.count(keys[0] if keys else None) == len(keys):
        return zip(keys[:1], [entries])
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for each, entry in zip(keys, entries, strict=True):
        groups[each].append(entry)
    return groups.items()
