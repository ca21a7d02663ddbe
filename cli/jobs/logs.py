"""Logs that `scrtune goodput LOG...` is given, read as what their content shows them to be.

Every form ends up as goodput events by job (:mod:`scrtune.goodput.readers`). What cannot be read of a
file is reported with file and line, and costs nothing else.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ...client.implicit_steps import ImplicitSteps
from ...client.scr_log import standalone as scr_log_alone
from ...client.scr_log.log import LogRecord, parse_line
from ...daemon.journal.records import JournalReader
from ...goodput.events import GoodputEvent, JobEnded, JobStarted, OutputCompleted, StepCompleted
from ...goodput.job_events import JobEvents
from ...goodput.readers.detect import HEAD_BYTES, MARK, Form, detect
from ...goodput.readers.jsonl import Bulk, JobLog, Log, bulk_of
from ...goodput.validation import defect
from ...intents.intent import Confidence
from ...replay.reading.salvage import MAGIC, Damage, inflate, read_at
from ...replay.reading.traces import Summary, TraceNotFoundError
from ...replay.run import JobShape, find_checkpoints, read_digests
from ...units import count_text
from ..errors import CommandError

_HEAD_PIECES = 64
_BLOCK_BYTES = 1 << 20
_LISTED = 10
"""Problems of one file that have a line each."""
_FRAME = (JobStarted, JobEnded, StepCompleted)
"""The events that are only inferred from a log that has checkpoints but no steps."""


class JournalLog(msgspec.Struct, kw_only=True):
    """The goodput events of the journal at `path`.

    `ignored` counts its other records, by kind, `dropped` events with impossible times. `end_s` is the time
    of its last record; `torn` says what it ends with, and where, if not with a record.
    """

    path: Path
    events: JobEvents = msgspec.field(default_factory=JobEvents)
    ignored: Counter[str] = msgspec.field(default_factory=Counter)
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    end_s: float = 0.0
    torn: str = ""


class Logs(msgspec.Struct, kw_only=True):
    """What all files have, by job, and what of them could not be read.

    `journals` are those of daemons, by job. `forms` counts entries by kind, `ignored` those that are not
    about time; `lost` are events that their writers had to drop, `repeated` those that came more than once
    and count once. `problems` has one line each: file, line, and what is wrong there. `nameless` name no job.
    """

    jobs: dict[str, JobLog] = {}
    journals: dict[str, list[JournalLog]] = {}
    forms: Counter[str] = msgspec.field(default_factory=Counter)
    ignored: Counter[str] = msgspec.field(default_factory=Counter)
    garbage: int = 0
    lost: int = 0
    repeated: int = 0
    problems: list[str] = []
    nameless: list[Path] = []

    def job(self, name: str) -> JobLog:
        """Return the job of that name, a new one if there is none yet."""
        return self.jobs.setdefault(name, JobLog())


def read_logs(paths: Iterable[Path]) -> Logs:
    """Read all of `paths`; a directory is one of traces. Raises CommandError and OSError."""
    logs = Logs()
    inferred: defaultdict[str, list[GoodputEvent]] = defaultdict(list)
    traces: list[Path] = []
    lines: list[Path] = []
    for path in paths:
        form, content = ("dftracer", iter(())) if path.is_dir() else _look(path)
        if form == "dftracer":
            traces.append(path)
        elif form == "journal":
            _take_journal(path, logs)
        elif form == "scr log":
            text = (line for block in _blocks(path, content, logs) for line in block.split(b"\n"))
            for job, events in scr_log_alone.by_job(_scr_records(path, text, logs)).items():
                inferred[job] += events
        else:
            lines.append(path)
    _take_lines(lines, logs)
    if traces:
        try:
            inferred[""] += _trace_events(traces, logs)
        except TraceNotFoundError as error:
            raise CommandError(f"{error}; of other logs name each file") from None
        logs.nameless += traces
    _name_the_nameless(logs, inferred)
    for name, events in inferred.items():  # a job's own steps and runs count for more
        log = logs.job(name)
        knows_steps = bool(log.launcher or log.events.steps)
        log.events.extend(event for event in events if not (knows_steps and isinstance(event, _FRAME)))
    logs.repeated = sum(log.drop_repeated() for log in logs.jobs.values())
    return logs


def _look(path: Path) -> tuple[Form, Iterator[bytes | Damage]]:
    """Return the form of a file, and its content, inflated if need be. Raises OSError with its name."""
    if not path.exists():
        raise CommandError(
            f"{path}: No such file or directory; a job in LOG is named with --job-name, one of scrtune's with"
            " --job-id"
        )
    if not path.is_file():
        raise CommandError(f"{path}: no regular file; write the log to one")
    if is_packed := read_at(path, 0, len(MAGIC)) == MAGIC:
        pieces = (piece for piece in inflate(path, str(path)) if isinstance(piece, bytes))
        form = detect(b"".join(itertools.islice(pieces, _HEAD_PIECES)))
    else:
        form = detect(read_at(path, 0, HEAD_BYTES))
    if form is None or form == "gzip":
        raise CommandError(
            f"{path}: line 1: no goodput log, log of SCR's, journal or trace;"
            " docs/goodput-logs.md shows what can be read"
        )
    if form == "journal" and is_packed:
        raise CommandError(f"{path}: a compressed journal; inflate it first (gunzip)")
    return form, inflate(path, str(path)) if is_packed else _pieces(path)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_BLOCK_BYTES):
            yield piece


def _blocks(path: Path, content: Iterable[bytes | Damage], logs: Logs) -> Iterator[bytes]:
    """Yield blocks of whole lines, without a byte order mark; a line that damage tore apart ends there."""
    parts: list[bytes] = []
    for number, piece in enumerate(content):
        text = piece if isinstance(piece, bytes) else b"\n"
        if isinstance(piece, Damage):
            logs.problems.append(f"{path}: byte {piece.offset}: {piece.reason}")
        whole, newline, rest = text.removeprefix(MARK if number == 0 else b"").rpartition(b"\n")
        if newline:
            yield b"".join([*parts, whole])
            parts.clear()
        parts.append(rest)
    if any(parts):
        yield b"".join(parts)


def _read_lines(path: Path, logs: Logs, bulks: Mapping[str, Bulk] | None = None) -> Log:
    log = Log(bulks)
    blocks = _blocks(path, _look(path)[1], logs)
    first = next(blocks, b"")
    if first.lstrip().startswith(b"["):
        log.array(b"\n".join([first, *blocks]))
    else:
        for block in itertools.chain([first], blocks):
            log.lines(block)
    return log


def _take_lines(paths: Sequence[Path], logs: Logs) -> None:
    """Take logs of JSON lines in, without what lies far from all else of a job: then they are read again."""
    read = [_read_lines(path, logs) for path in paths]
    if bulks := _bulks(read):
        read = [_read_lines(path, Logs(), bulks) for path in paths]
    for path, log in zip(paths, read, strict=True):
        if log.jobs.keys() == {""}:
            logs.nameless.append(path)
        for name, job in log.jobs.items():
            logs.job(name).update(job)
        logs.forms += log.forms
        logs.ignored += log.ignored
        logs.garbage += log.garbage
        logs.lost += log.lost
        logs.problems += [f"{path}: line {each.line}: {each.what}" for each in log.problems[:_LISTED]]
        if log.garbage > _LISTED:
            logs.problems.append(f"{path}: {log.garbage - _LISTED} more lines like these")


def _bulks(read: Iterable[Log]) -> dict[str, Bulk]:
    """Return where the times may lie of the jobs that have some far from others."""
    parts: dict[str, list[JobLog]] = {}
    for log in read:
        for name, job in log.jobs.items():
            parts.setdefault(name, []).append(job)
    names = [name for name in parts if name]
    if len(names) == 1 and "" in parts:  # what names no job is of that one
        parts[""] = parts[names[0]] = parts[""] + parts[names[0]]
    return {name: bulk for name, each in parts.items() if (bulk := bulk_of(each)) is not None}


def read_journal(path: Path) -> JournalLog:
    """Read the goodput events of a daemon's journal. Raises JournalError and OSError."""
    reader = JournalReader(path)
    log = JournalLog(path=path)
    for now, event in reader:
        log.end_s = now
        if not isinstance(event, GoodputEvent):
            log.ignored[str(type(event).__struct_config__.tag)] += 1
        elif (problem := defect(event, now)) is not None:
            log.dropped[problem] += 1
        else:
            log.events.add(event)
    if reader.recovered.torn:
        log.torn = f"{path}: byte {reader.recovered.end}: ends with {reader.recovered.torn}"
    return log


def _take_journal(path: Path, logs: Logs) -> None:
    log = read_journal(path)
    name = path.absolute().parent.parent.name  # the run directory has the job's name
    logs.journals.setdefault(name, []).append(log)
    logs.forms["journal"] += len(log.events)
    logs.ignored += log.ignored
    logs.garbage += log.dropped.total()
    logs.job(name).events.update(log.events)
    problems = (f"{path}: {count_text(count, 'event')} with {what}" for what, count in log.dropped.items())
    logs.problems += [*problems, *filter(None, [log.torn])]


def _scr_records(path: Path, lines: Iterable[bytes], logs: Logs) -> Iterator[LogRecord]:
    garbage, near_s = 0, None
    for number, line in enumerate(lines, start=1):
        record = parse_line(line, near_s)
        if record is None:
            garbage += 1
            if garbage <= _LISTED:
                logs.problems.append(f"{path}: line {number}: no line of SCR's")
            continue
        logs.forms["scr log"] += 1
        near_s = record.time_s  # in the hour that comes twice, the line before tells which it is
        yield record
    logs.garbage += garbage


def _trace_events(paths: list[Path], logs: Logs) -> list[GoodputEvent]:
    """Return the checkpoints in the traces of one job, and as its work what lies between them."""
    summary = Summary()
    digests = read_digests(paths, JobShape(), summary)
    logs.problems += [f"{each.source}: byte {each.offset}: {each.reason}" for each in summary.damage]
    logs.forms["dftracer"] += summary.lines
    ends = [digest.end_s for digest in digests if digest.end_s > 0]
    if not ends:
        return []
    start_s = min(digest.start_s for digest in digests if digest.end_s > 0)
    processes = {process for digest in digests for process in digest.processes}
    ranks, nodes = max(1, len(processes)), max(1, len({host for host, _ in processes}))
    found = find_checkpoints(paths, JobShape(), digests)
    if found.confidence is Confidence.MEDIUM:
        logs.problems.append(f"{paths[0]}: its {len(found.saves)} checkpoints are {found.source}")
    if not found.saves or found.confidence is Confidence.LOW:
        problem = "no checkpoint in the trace: what of its time was work is not known"
        logs.problems.append(f"{paths[0]}: {problem}")
        return []
    events: list[GoodputEvent] = [JobStarted(time_s=start_s, ranks=ranks, nodes=nodes)]
    work = ImplicitSteps(start_s)
    for event in found.events(digests, ranks):
        if isinstance(event, OutputCompleted):
            events += work.output_started(event.start_s)
        events.append(event)
        work.resumed(event.dataset, event.end_s)
    return [*events, *work.output_started(max(ends)), JobEnded(time_s=max(ends))]


def _name_the_nameless(logs: Logs, inferred: defaultdict[str, list[GoodputEvent]]) -> None:
    """Give what names no job to the one that is named, when there is just one, and say so."""
    names = {name for name in (*logs.jobs, *inferred) if name}
    if len(names) != 1:
        return
    (name,) = names
    logs.problems += [
        f"{path}: names no job and counts for {name!r}; if it is of another, give it alone"
        for path in logs.nameless
    ]
    if (nameless := logs.jobs.pop("", None)) is not None:
        logs.job(name).update(nameless)
    inferred[name] += inferred.pop("", [])
