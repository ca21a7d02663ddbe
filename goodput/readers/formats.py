"""What logs say of a job's time: lines in, events and problems out, whoever wrote them.

Three kinds of JSON entries are understood, one a line or all in one array, mixed in any way, as they are or
within the `jsonPayload` of exported cloud log entries:

- our own event log: an event of :mod:`scrtune.goodput.events` with its `type`, and perhaps `job_name`;
- what ml-goodput-measurement's recorder logs (``step_count``, ``step_start_time``, ...), with the checkpoint
  statistics that Orbax logs beside it;
- what the resiliency library logs (:mod:`scrtune.goodput.readers.resiliency`).

:func:`detect` also knows what is none of these, and whose reader can take it. Nothing here raises because of
what a log says: what cannot be read is counted, and told with its line. `docs/goodput-logs.md` has examples.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from ..events import (
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    SlicesObserved,
    StepStarted,
)
from ..job_events import JobEvents
from ..validation import LARGEST_INTEGER, LARGEST_S, defect_of_record, merged
from . import resiliency
from .launcher_log import beside
from .resiliency import LauncherEvent

Form = Literal["journal", "gzip", "scr log", "dftracer", "json"]

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some editors begin a file with."""
HEAD_BYTES = 64 * 1024
"""What :func:`detect` wants to see of a file."""
MAX_PROBLEMS = 100
MAX_JOBS = 10_000

_JOURNAL = b"scrtune journal "
_GZIP = b"\x1f\x8b"
_SCR_LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d: host=.*?, jobid=.*?, (?:event|xfer)=")
_TRACE_LINE = re.compile(rb'\s*\{.*"cat"\s*:.*"ph"\s*:')
_PUNCTUATION = frozenset({b"", b"[", b"]", b","})
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_Reader: TypeAlias = Callable[[Mapping[str, object]], GoodputEvent]

_event_decoder: msgspec.json.Decoder[GoodputEvent] = msgspec.json.Decoder(GoodputEvent)
_TAGS = frozenset(kind.__struct_config__.tag for kind in GoodputEvent.__args__)
_LOST = "events_lost"
_NUMBERS = (int, float)


class _Named(msgspec.Struct):
    """The one field of an event's line that is not the event's."""

    job_name: str = ""


_name_decoder: msgspec.json.Decoder[_Named] = msgspec.json.Decoder(_Named)

_CHECKPOINTER = {
    "save": ("checkpoint_save", "checkpoint_manager_blocking"),
    "restore": ("checkpoint_restore", "checkpoint_manager"),
    "emergency_restore": ("checkpoint_restore", "checkpoint_manager"),
}


class LogProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a line (of an array: with its entry of that number), both counted from 1."""

    line: int
    what: str


class NotUnderstoodError(ValueError):
    """An entry that cannot be used; the text says why. It never leaves this module."""


class JobLog(msgspec.Struct, kw_only=True):
    """What was said of one job, in the order of the lines; where one file said it all, with their numbers."""

    events: list[GoodputEvent] = []
    launcher: list[LauncherEvent] = []
    event_lines: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    launcher_lines: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))

    def timeline(self) -> list[GoodputEvent]:
        """All of it as events for a ledger, by their times; what a job says itself, its launcher need not."""
        return (
            merged(self.events, beside(JobEvents(self.events), self.launcher))
            if self.launcher
            else self.events
        )


class Log:
    """Takes entries in. `jobs` has what they said by job name; without a name it is the empty one.

    `garbage` counts what is no entry of any kind, the first hundred of it are in `problems`; `forms` counts
    the entries of each kind, `ignored` those that are not about time, `lost` the events that their writer
    says it had to drop.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, JobLog] = {}
        self.problems: list[LogProblem] = []
        self.garbage = 0
        self.forms: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.lost = 0
        self._number = 0
        """That of the line at hand."""

    def lines(self, lines: Iterable[bytes]) -> None:
        """Take the lines of a file in; an array that has an entry on each line is read as well."""
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if text not in _PUNCTUATION:
                self._line(text.rstrip(b","), number)

    def array(self, text: bytes) -> None:
        """Take a whole file in that is one array of entries; one that is cut off counts as lines."""
        try:
            entries = msgspec.json.decode(text, type=list[msgspec.Raw])
        except _NO_JSON:
            self.lines(text.split(b"\n"))
            return
        for number, entry in enumerate(entries, start=1):
            self._line(bytes(entry), number)

    def _line(self, text: bytes, number: int) -> None:
        self._number = number
        try:
            if not self._own(text):
                self._foreign(text)
        except NotUnderstoodError as error:
            self.garbage += 1
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append(LogProblem(line=number, what=str(error)))

    def _own(self, text: bytes) -> bool:
        """Whether it is an event of our own; by far the fastest way to read one."""
        if b'"type"' not in text:
            return False
        try:
            event = _event_decoder.decode(text)
            job = _name_decoder.decode(text).job_name if b'"job_name"' in text else ""
        except _NO_JSON:
            return False  # not of this kind, or it will be told why not
        _check(event)
        self.forms["scrtune"] += 1
        self._said(job, event)
        return True

    def _foreign(self, text: bytes) -> None:
        try:
            entry = msgspec.json.decode(text)
        except _NO_JSON:
            raise NotUnderstoodError("no JSON object") from None
        if not isinstance(entry, dict):
            raise NotUnderstoodError("no JSON object")
        payload = entry.get("jsonPayload", entry)
        if not isinstance(payload, dict):
            raise NotUnderstoodError("its jsonPayload is no JSON object")
        if payload is not entry and isinstance(payload.get("type"), str):
            self._line_within(payload)
            return
        job = _name(payload)
        if payload.get("event_type") in resiliency.KINDS:
            event = launcher_event(payload)
            self.forms["resiliency"] += 1
            log = self._job(job)
            log.launcher.append(event)
            log.launcher_lines.append(self._number)
            return
        if isinstance(payload.get("type"), str):
            self._no_event(payload)
            return
        events = list(recorder_events(payload))
        if not events:
            raise NotUnderstoodError("an entry of no kind that is known")
        self.forms["ml-goodput-measurement"] += 1
        for said in events:
            self._said(job, said)

    def _said(self, job: str, event: GoodputEvent) -> None:
        log = self._job(job)
        log.events.append(event)
        log.event_lines.append(self._number)

    def _line_within(self, payload: Mapping[str, object]) -> None:
        text = msgspec.json.encode(payload)
        if not self._own(text):
            self._no_event(payload)

    def _no_event(self, entry: Mapping[str, object]) -> None:
        """An entry whose `type` is none of our events: for other readers, of a later version, or broken."""
        tag = str(entry["type"])
        if tag in _TAGS:
            own_event(entry)
        count = entry.get("count")
        if tag == _LOST and isinstance(count, int) and 0 <= count <= LARGEST_INTEGER:
            self.lost += count
        self.ignored[tag[:100] if tag in self.ignored or len(self.ignored) < MAX_PROBLEMS else "others"] += 1

    def _job(self, name: str) -> JobLog:
        if name not in self.jobs:
            if len(self.jobs) >= MAX_JOBS:
                raise NotUnderstoodError(f"job {name!r} is one of more than {MAX_JOBS}")
            self.jobs[name] = JobLog()
        return self.jobs[name]


def detect(head: bytes) -> Form | None:
    """What a file is by its first :data:`HEAD_BYTES`, or None when it is nothing that is known."""
    head = head.removeprefix(MARK)
    if head.startswith(_JOURNAL):
        return "journal"
    if head.startswith(_GZIP):
        return "gzip"
    for line in head.split(b"\n"):
        if _TRACE_LINE.match(line):
            return "dftracer"
        if _SCR_LINE.match(line):
            return "scr log"
        text = line.strip()
        if text.startswith(b"[{") or (text.startswith(b"{") and text.endswith((b"}", b"},"))):
            return "json"
    # an array that is printed over several lines; or the whole file is one line, longer than what we see
    return "json" if head.lstrip()[:1] in (b"[", b"{") else None


def launcher_event(entry: Mapping[str, object]) -> LauncherEvent:
    """An entry of the resiliency library's log. Raises NotUnderstoodError."""
    timestamp = entry.get("timestamp")
    if not isinstance(timestamp, str):
        raise NotUnderstoodError(f"{entry['event_type']} without its timestamp")
    try:
        time_us = resiliency.microseconds(timestamp)
    except ValueError as error:
        raise NotUnderstoodError(str(error)) from None
    return LauncherEvent(
        kind=str(entry["event_type"]),
        time_us=time_us,
        step=_whole(entry, "step"),
        node_rank=_whole(entry, "node_rank"),
    )


def recorder_events(entry: Mapping[str, object]) -> Iterator[GoodputEvent]:
    """The events in an entry of ml-goodput-measurement's recorder, or of Orbax. Raises NotUnderstoodError."""
    for key in entry:
        read = _READERS.get(key)
        if read is not None:
            yield read(entry)
    said = entry.get("event_type")
    if isinstance(said, str) and said in _CHECKPOINTER:
        yield _checkpoint(entry)


def own_event(entry: Mapping[str, object]) -> GoodputEvent:
    """The event of our own that an entry with a `type` is. Raises NotUnderstoodError."""
    try:
        event: GoodputEvent = msgspec.convert(entry, GoodputEvent)
    except msgspec.ValidationError as error:
        raise NotUnderstoodError(f"no whole {entry['type']} event: {error}") from None
    _check(event)
    return event


def elastic_wait_kind(event_type: object) -> str:
    """The kind of interval that a wait is: for more slices (``scale_up`` in its type), else for fewer.

    ml-goodput-measurement documents ``scale_up`` and ``slice_down``, and counts any other type as the latter.
    """
    is_scale_up = isinstance(event_type, str) and "scale_up" in event_type.lower()
    return "elastic_scale_up" if is_scale_up else "elastic_slice_down"


def checkpoint_name(step: int, directory: object) -> str:
    """The same for all hosts that tell of a checkpoint; another in the cloud than on a file system here."""
    is_remote = isinstance(directory, str) and directory.startswith("gs://")
    return f"{step} {'persistent' if is_remote else 'local'}"


def _slices(entry: Mapping[str, object]) -> SlicesObserved:
    return SlicesObserved(
        time_s=_time(entry, "elastic_slice_counts_timestamp"),
        active=_whole(entry, "active_slices"),
        total=_whole(entry, "total_slices"),
        available=_whole(entry, "available_slices"),
    )


def _edge(event: type[IntervalStarted] | type[IntervalEnded], kind: str, key: str) -> _Reader:
    def read(entry: Mapping[str, object]) -> GoodputEvent:
        return event(kind=kind, time_s=_time(entry, key))

    return read


def _custom(event: type[IntervalStarted] | type[IntervalEnded], key: str) -> _Reader:
    def read(entry: Mapping[str, object]) -> GoodputEvent:
        name = str(entry.get("custom_badput_event_type", "unknown")).upper()
        return event(kind="custom", time_s=_time(entry, key), name=name)

    return read


def _wait(event: type[IntervalStarted] | type[IntervalEnded], key: str) -> _Reader:
    def read(entry: Mapping[str, object]) -> GoodputEvent:
        name = str(entry.get("elastic_wait_event_type", "unknown"))
        return event(kind=elastic_wait_kind(name), time_s=_time(entry, key), name=name)

    return read


def _checkpoint(entry: Mapping[str, object]) -> Interval:
    """What blocked in Orbax's checkpoint manager; nothing where it has not said for how long."""
    kind, key = _CHECKPOINTER[str(entry["event_type"])]
    start, seconds = f"{key}_start_time", f"{key}_duration_secs"
    if entry.get(start) is None or entry.get(seconds) is None:
        raise NotUnderstoodError(f"{entry['event_type']} without {start} and {seconds}")
    start_s, duration_s = _time(entry, start), _time(entry, seconds)
    if duration_s < 0:
        raise NotUnderstoodError(f"{seconds} is negative")
    has_step = entry.get("step") is not None
    name = checkpoint_name(_whole(entry, "step"), entry.get("directory")) if has_step else ""
    return Interval(kind=kind, start_s=start_s, end_s=start_s + duration_s, name=name)


def _check(event: GoodputEvent) -> None:
    """Raise NotUnderstoodError for an event that no ledger could use."""
    if what := defect_of_record(event):
        raise NotUnderstoodError(what)


def _name(entry: Mapping[str, object]) -> str:
    name = entry.get("job_name") or ""
    return name if isinstance(name, str) else str(name)


def _time(entry: Mapping[str, object], key: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not abs(value) <= LARGEST_S:
        raise NotUnderstoodError(f"{key} is {value!r:.100}, no epoch seconds")
    return float(value)


def _whole(entry: Mapping[str, object], key: str) -> int:
    """A whole number; the cloud's logs make 5.0 of 5. What is not there, or null, is 0."""
    value = entry.get(key)
    if value is None:
        return 0
    if isinstance(value, _NUMBERS) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER:
        whole = int(value)
        if whole == value:
            return whole
    raise NotUnderstoodError(f"{key} is {value!r:.100}, no whole number")


_PLAIN = {
    "tpu_init": "device_init",
    "training_prep": "training_prep",
    "data_loading": "data_loading",
    "elastic_reinit": "elastic_reinit",
}
_EDGES: tuple[tuple[str, type[IntervalStarted] | type[IntervalEnded]], ...] = (
    ("start_time", IntervalStarted),
    ("end_time", IntervalEnded),
)
_READERS: dict[str, _Reader] = {
    "step_start_time": lambda entry: StepStarted(
        step=_whole(entry, "step_count"), time_s=_time(entry, "step_start_time")
    ),
    "job_start_time": lambda entry: JobStarted(time_s=_time(entry, "job_start_time")),
    "job_end_time": lambda entry: JobEnded(time_s=_time(entry, "job_end_time")),
    "elastic_slice_counts_timestamp": _slices,
}
"""What the recorder's entries say, by the key that holds the time of it."""
for _end, _event in _EDGES:
    _READERS |= {f"{_key}_{_end}": _edge(_event, _kind, f"{_key}_{_end}") for _key, _kind in _PLAIN.items()}
    _READERS[f"custom_badput_event_{_end}"] = _custom(_event, f"custom_badput_event_{_end}")
    _READERS[f"elastic_wait_{_end}"] = _wait(_event, f"elastic_wait_{_end}")
