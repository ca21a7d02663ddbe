"""What logs say of a job's time: lines in, events and problems out, whoever wrote them.

Three kinds of JSON entries are understood, one a line or all in one array, mixed in any way, as they are or
within the `jsonPayload` of exported cloud log entries:

- our own event log: an event of :mod:`scrtune.goodput.events` with its `type`, and perhaps `job_name`;
- what ml-goodput-measurement's recorder logs (``step_count``, ``step_start_time``, ...), with the checkpoint
  statistics that Orbax logs beside it (:mod:`.ml_goodput`);
- what the resiliency library logs (:mod:`.resiliency`).

What most lines are is decoded block by block (:mod:`.blocks`), all else line by line. Nothing here raises
because of what a log says: what cannot be read is counted, and reported with its line.
`docs/goodput-logs.md` has examples.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

import msgspec

from ..events import GoodputEvent
from ..job_events import JobEvents
from ..validation import LARGEST_INTEGER, defect_of_record, span
from . import resiliency
from .blocks import NO_JSON, Block, block_of
from .launcher_log import beside
from .ml_goodput import NotUnderstoodError, integer_of, recorder_events
from .resiliency import LauncherEvent, moment

MAX_PROBLEMS = 100
MAX_JOBS = 10_000
FAR_S = 366 * 86_400.0
"""No time may lie so far from the middle one of its job: longer than an event may wait for a daemon."""

_PUNCTUATION = frozenset({b"", b"[", b"]", b","})
_PIECE = 65_536
_TAGS = frozenset(kind.__struct_config__.tag for kind in GoodputEvent.__args__)
_LOST = "events_lost"

Bulk: TypeAlias = tuple[float, float]
"""From when until when the times of a job may lie, as epoch seconds."""


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
        """Keep each entry once: a journal has what the recorder's log has. Return how many came again."""
        entries = len(self.launcher)
        self.launcher = list(dict.fromkeys(self.launcher))
        return entries - len(self.launcher) + self.events.drop_repeated()

    def timeline(self) -> JobEvents:
        """Return all of it as events for a ledger; what a job says itself, its launcher need not."""
        if not self.launcher:
            return self.events
        timeline = JobEvents(beside(self.events, self.launcher))
        timeline.update(self.events)
        return timeline


class Log:
    """Takes entries in. `jobs` has what they said by job name; without a name it is the empty one.

    `garbage` counts what is no entry of any kind, or beyond the `bulks` of its job; the first hundred of it
    are in `problems`. `forms` counts the entries of each kind, `ignored` those that are not about time,
    `lost` the events that their writer says it had to drop.
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
        try:
            block = block_of(text, count)
            left = block.other if self._take(block) else range(count)
        except (TypeError, ValueError):
            left = range(count)
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

    def _take(self, block: Block) -> bool:
        """Take the events of a block in, unless one of them cannot be."""
        for name, events in block.events.items():
            if (bulk := self._bulks.get(name)) is not None:
                times_s = events.times_s()
                if times_s.min() < bulk[0] or times_s.max() > bulk[1]:
                    return False
        if len(self.jobs.keys() | block.events) > MAX_JOBS:
            return False
        for name, events in block.events.items():
            self._job(name).events.update(events)
        if block.entries:
            self.forms[block.form] += block.entries
        return True

    def _line(self, line: bytes, number: int) -> None:
        text = line.strip()
        if text in _PUNCTUATION:
            return
        try:
            self._entry(_entry_of(text.rstrip(b",")))
        except NotUnderstoodError as error:
            self.garbage += 1
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append(LogProblem(line=number, what=str(error)))

    def _entry(self, entry: Mapping[str, object]) -> None:
        job, tag = str(entry.get("job_name") or ""), entry.get("type")
        if isinstance(tag, str) and tag in _TAGS:
            self._add(job, "scrtune", [own_event(entry)])
        elif entry.get("event_type") in resiliency.KINDS:
            self._add(job, "resiliency", [launcher_event(entry)])
        elif isinstance(tag, str):  # for other readers, or of a later version
            count = entry.get("count")
            if tag == _LOST and isinstance(count, int) and 0 <= count <= LARGEST_INTEGER:
                self.lost += count
            is_room = tag in self.ignored or len(self.ignored) < MAX_PROBLEMS
            self.ignored[tag[:100] if is_room else "others"] += 1
        else:
            self._add(job, "ml-goodput-measurement", recorder_events(entry))

    def _add(self, job: str, form: str, events: Sequence[GoodputEvent | LauncherEvent]) -> None:
        """Add what an entry says of a job, if that lies within its bulk."""
        low_s, high_s = self._bulks.get(job, (-inf, inf))
        for event in events:
            start_s, end_s = (event.time_s, event.time_s) if isinstance(event, LauncherEvent) else span(event)
            if start_s < low_s or end_s > high_s:
                far = moment(start_s if start_s < low_s else end_s)
                raise NotUnderstoodError(f"{far} is more than a year from the bulk of the job's log")
        log = self._job(job)
        self.forms[form] += 1
        for event in events:
            if isinstance(event, LauncherEvent):
                log.launcher.append(event)
            else:
                log.events.add(event)

    def _job(self, name: str) -> JobLog:
        if name not in self.jobs:
            if len(self.jobs) >= MAX_JOBS:
                raise NotUnderstoodError(f"job {name!r} is one of more than {MAX_JOBS}")
            self.jobs[name] = JobLog()
        return self.jobs[name]


def bulk_of(parts: Iterable[JobLog]) -> Bulk | None:
    """Return where the times of a job may lie that these logs cover; None if all of them do.

    Of a log nobody knows when it was read: a clock that was not set, or a damaged line, shows only beside the
    rest. One entry with the time 0 would make an account of half a century.
    """
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
    try:
        time_us = resiliency.microseconds(timestamp)
    except ValueError as error:
        raise NotUnderstoodError(str(error)) from None
    step, node_rank = integer_of(entry, "step"), integer_of(entry, "node_rank")
    return LauncherEvent(kind=kind, time_us=time_us, step=step, node_rank=node_rank)


def _entry_of(text: bytes) -> dict[str, object]:
    """Return the entry in a line, or in the payload there. Raises NotUnderstoodError."""
    try:
        entry = msgspec.json.decode(text, type=dict[str, object])
    except NO_JSON:
        raise NotUnderstoodError("no JSON object") from None
    payload = entry.get("jsonPayload", entry)
    if not isinstance(payload, dict):
        raise NotUnderstoodError("its jsonPayload is no JSON object")
    return payload
