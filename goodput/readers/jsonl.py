"""What logs say of a job's time: lines in, events and problems out, whoever wrote them.

Our own events, entries of ml-goodput-measurement's recorder (:mod:`.ml_goodput`) and of the resiliency
library (:mod:`.resiliency`) may be mixed. What most lines are is decoded block by block straight into
columns, all else line by line. Nothing here raises because of what a log says: what cannot be read is
counted, and reported with its line. `docs/goodput-logs.md` has examples.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import attrgetter, gt
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ..events import GoodputEvent
from ..job_events import JobEvents
from ..validation import LARGEST_INTEGER, LARGEST_S, defect_of_record, span
from . import resiliency
from .launcher_log import beside
from .ml_goodput import NotUnderstoodError, integer_of, recorder_events
from .resiliency import LauncherEvent, moment

NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
MAX_PROBLEMS = 100
MAX_JOBS = 10_000
FAR_S = 366 * 86_400.0
"""No time may lie so far from the middle one of its job: longer than an event may wait for a daemon."""

_PUNCTUATION = frozenset({b"", b"[", b"]", b","})
_PIECE = 65_536
_HEAD_BYTES = 4096
_LOADING = attrgetter("data_loading_start_time", "data_loading_end_time")
_TAGS = frozenset(kind.__struct_config__.tag for kind in GoodputEvent.__args__)
_LOST = "events_lost"

Bulk: TypeAlias = tuple[float, float]
"""From when until when the times of a job may lie, as epoch seconds."""

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


_events: msgspec.json.Decoder[_Event] = msgspec.json.Decoder(_Event)
_entries: msgspec.json.Decoder[_Entry] = msgspec.json.Decoder(_Entry)


class LogProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a line (of an array: with its entry of that number), both counted from 1."""

    line: int
    what: str


class JobLog(msgspec.Struct, kw_only=True):
    """What was said of one job: by itself, and by a launcher."""

    events: JobEvents = msgspec.field(default_factory=JobEvents)
    launcher: list[LauncherEvent] = []

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self.events) + len(self.launcher)

    def update(self, other: "JobLog") -> None:
        """Add all that `other` has."""
        self.events.update(other.events)
        self.launcher += other.launcher

    def drop_repeated(self) -> int:
        """Keep each entry once; return how many came again, as of a journal beside the recorder's log."""
        before, self.launcher = len(self.launcher), list(dict.fromkeys(self.launcher))
        return before - len(self.launcher) + self.events.drop_repeated()

    def timeline(self) -> JobEvents:
        """Return all of it as events for a ledger; what a job says itself, its launcher need not."""
        if not self.launcher:
            return self.events
        timeline = JobEvents(beside(self.events, self.launcher))
        timeline.update(self.events)
        return timeline


class Log:
    """Takes entries in. `jobs` has what they said by job name; without a name it is the empty one.

    `garbage` counts what is no entry, or beyond the `bulks` of its job, `ignored` what is not about time,
    `lost` the events that their writer had to drop.
    """

    def __init__(self, bulks: Mapping[str, Bulk] | None = None) -> None:
        self.jobs: dict[str, JobLog] = {}
        self.problems: list[LogProblem] = []
        self.garbage = 0
        self.forms: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.lost = 0
        self._bulks = bulks or {}
        self._lines = 0

    def lines(self, text: bytes) -> None:
        """Take whole lines in, on from those before; an array that has an entry on each is read as well."""
        text = text.removesuffix(b"\n")
        count = text.count(b"\n") + 1
        left: Sequence[int] = range(count)
        with suppress(TypeError, ValueError):  # where not all fits into columns
            left = self._take(text, count)
        lines = text.split(b"\n") if left else []
        for index in left:
            self._line(lines[index], self._lines + index + 1)
        self._lines += count

    def array(self, text: bytes) -> None:
        """Take a whole file in that is one array of entries; one that is cut off counts as lines."""
        try:
            entries = msgspec.json.decode(text, type=list[msgspec.Raw])
        except NO_JSON:
            self.lines(text)
            return
        for begin in range(0, len(entries), _PIECE):
            self.lines(b"\n".join(bytes(entry).replace(b"\n", b" ") for entry in entries[begin:][:_PIECE]))

    def _take(self, text: bytes, count: int) -> Sequence[int]:
        """Take all of `count` lines in that are usual; return the indices of the others.

        Raises TypeError or ValueError, and takes nothing in, if any of their events cannot be.
        """
        jobs: _Jobs = defaultdict(JobEvents)
        if b'"type"' in text[:_HEAD_BYTES]:
            form, (own, other) = "scrtune", _decoded(text, count, _events)
            _add_events(jobs, own)
        else:
            form, (entries, other) = "ml-goodput-measurement", _decoded(text, count, _entries)
            _add_entries(jobs, entries)
        for name in jobs.keys() & self._bulks.keys():
            times_s, (low_s, high_s) = jobs[name].times_s(), self._bulks[name]
            if times_s.min() < low_s or times_s.max() > high_s:
                raise ValueError("far from the others")
        if len(self.jobs.keys() | jobs) > MAX_JOBS:
            raise ValueError("too many jobs")
        for name, events in jobs.items():
            self._job(name).events.update(events)
        self.forms[form] += count - len(other)
        return other

    def _line(self, line: bytes, number: int) -> None:
        text = line.strip()
        if text in _PUNCTUATION:
            return
        try:
            self._entry(text.rstrip(b","))
        except NotUnderstoodError as error:
            self.garbage += 1
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append(LogProblem(line=number, what=str(error)))

    def _entry(self, text: bytes) -> None:
        """Take the entry in a line in, or in the payload there. Raises NotUnderstoodError."""
        try:
            whole = msgspec.json.decode(text, type=dict[str, object])
        except NO_JSON:
            raise NotUnderstoodError("no JSON object") from None
        entry = whole.get("jsonPayload", whole)
        if not isinstance(entry, dict):
            raise NotUnderstoodError("its jsonPayload is no JSON object")
        job, tag = str(entry.get("job_name") or ""), entry.get("type")
        if isinstance(tag, str) and tag in _TAGS:
            own = own_event(entry)
            self._log(job, "scrtune", span(own)).events.add(own)
        elif entry.get("event_type") in resiliency.KINDS:
            told = launcher_event(entry)
            self._log(job, "resiliency", (told.time_s, told.time_s)).launcher.append(told)
        elif isinstance(tag, str):  # for other readers, or of a later version
            count = entry.get("count")
            if tag == _LOST and isinstance(count, int) and 0 <= count <= LARGEST_INTEGER:
                self.lost += count
            is_room = tag in self.ignored or len(self.ignored) < MAX_PROBLEMS
            self.ignored[tag[:100] if is_room else "others"] += 1
        else:
            events = recorder_events(entry)
            self._log(job, "ml-goodput-measurement", *map(span, events)).events.extend(events)

    def _log(self, job: str, form: str, *spans: tuple[float, float]) -> JobLog:
        """Return the log that an entry belongs to, if what it says lies within the bulk of the job."""
        low_s, high_s = self._bulks.get(job, (-inf, inf))
        for start_s, end_s in spans:
            if start_s < low_s or end_s > high_s:
                far = moment(start_s if start_s < low_s else end_s)
                raise NotUnderstoodError(f"{far} is more than a year from the bulk of the job's log")
        log = self._job(job)
        self.forms[form] += 1
        return log

    def _job(self, name: str) -> JobLog:
        if name not in self.jobs:
            if len(self.jobs) >= MAX_JOBS:
                raise NotUnderstoodError(f"job {name!r} is one of more than {MAX_JOBS}")
            self.jobs[name] = JobLog()
        return self.jobs[name]


def bulk_of(parts: Iterable[JobLog]) -> Bulk | None:
    """Return where the times of a job may lie, or None: a wrong clock shows only beside the rest."""
    import numpy as np  # noqa: PLC0415 - who only records shall not pay for it

    parts = list(parts)
    launched_s = [event.time_s for part in parts for event in part.launcher]
    times_s = np.concatenate([launched_s, *(part.events.times_s() for part in parts)])
    if not len(times_s) or np.ptp(times_s) <= FAR_S:
        return None
    middle_s = float(np.sort(times_s)[len(times_s) // 2])
    return middle_s - FAR_S, middle_s + FAR_S


def own_event(entry: Mapping[str, object]) -> GoodputEvent:
    """Return the event of our own that an entry with a `type` is. Raises NotUnderstoodError."""
    try:
        event: GoodputEvent = msgspec.convert(entry, GoodputEvent)
    except msgspec.ValidationError as error:
        raise NotUnderstoodError(f"no whole {entry['type']} event: {error}") from None
    if what := defect_of_record(event):
        raise NotUnderstoodError(what)
    return event


def launcher_event(entry: Mapping[str, object]) -> LauncherEvent:
    """Return an entry of the resiliency library's log as an event. Raises NotUnderstoodError."""
    kind, timestamp = str(entry["event_type"]), entry.get("timestamp")
    if not isinstance(timestamp, str):
        raise NotUnderstoodError(f"{kind} without its timestamp")
    time_us = resiliency.microseconds(timestamp)
    step, node_rank = integer_of(entry, "step"), integer_of(entry, "node_rank")
    return LauncherEvent(kind=kind, time_us=time_us, step=step, node_rank=node_rank)


def _decoded(text: bytes, count: int, decoder: msgspec.json.Decoder[_T]) -> tuple[list[_T], Sequence[int]]:
    """Return the lines as objects, and the indices of those that are none."""
    with suppress(*NO_JSON):  # if not all of them: one after the other
        lines = decoder.decode_lines(text)
        if len(lines) == count:
            return lines, ()
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
        _fill(jobs[job].step_starts[writer], part, numbers="step", starts_s="time_s")
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
        borders.numbers.fromlist([int(line.type == "interval_started") for line in part])
        _fill(borders, part, starts_s="time_s")


def _add_entries(jobs: _Jobs, lines: list[_Entry]) -> None:
    for job, part in _grouped(lines, "job_name"):
        begun = [line for line in part if line.step_start_time is not UNSET]
        loading = [line for line in part if line.step_start_time is UNSET] if len(begun) < len(part) else []
        begins = [int(line.data_loading_end_time is UNSET) for line in loading]
        both = begins.count(0) - [line.data_loading_start_time for line in loading].count(UNSET)
        if both or [line for line in begun if line.data_loading_start_time is not line.data_loading_end_time]:
            raise ValueError("several things in one entry")
        if begun:
            _fill(jobs[job].step_starts[""], begun, numbers="step_count", starts_s="step_start_time")
        if loading:
            borders = jobs[job].borders["data_loading", "", ""]
            borders.numbers.fromlist(begins)
            times_s = [start if end is UNSET else end for start, end in map(_LOADING, loading)]
            borders.starts_s.fromlist(times_s)


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
    """Append a field of each line to the columns of these names. Raises TypeError where a line has none."""
    for column, field in fields.items():
        getattr(columns, column).fromlist(list(map(attrgetter(field), lines)))
