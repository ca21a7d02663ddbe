"""Join what SCR's log says of a dataset with the times that were taken around SCR's calls.

SCR logs whole seconds and exact durations; the calls have exact times. Together they are goodput events.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import msgspec

from ...goodput.events import (
    FlushCompleted,
    GoodputEvent,
    JobHalted,
    NodeFailed,
    OutputCompleted,
    OutputStarted,
    Recovered,
    RestartCompleted,
)
from .log import LogRecord

_REMEMBERED = 4096
_STAMP_S = 1.0
"""SCR's times are cut to whole seconds."""
FINALIZED = "SCR_FINALIZE_CALLED"


class Output(msgspec.Struct, frozen=True, kw_only=True, tag="output"):
    """One output as its calls showed it on rank 0: epoch seconds.

    SCR_Start_output took from `entered_s` to `opened_s`, and spent `apply_s` of that on new settings;
    SCR_Complete_output took from `closing_s` to `closed_s`. `shared` as in OutputCompleted.shared_files.
    `observe_s` is what tracing `observed` calls added between `opened_s` and `closing_s`; `cpu_s` and
    `run_delay_s` as in OutputCompleted. `flush_timed`: its asynchronous flush is under way, and a
    :class:`Flushed` will follow.
    """

    dataset: int
    name: str = ""
    checkpoint: bool = True
    valid: bool = True
    generation: int = 0
    entered_s: float
    apply_s: float = 0.0
    opened_s: float
    closing_s: float
    closed_s: float
    shared: bool | None = None
    observed: int = 0
    observe_s: float = 0.0
    cpu_s: float = 0.0
    run_delay_s: float = 0.0
    flush_timed: bool = False

    def started(self) -> OutputStarted:
        """Return the event of its beginning."""
        return OutputStarted(
            dataset=self.dataset,
            name=self.name,
            time_s=self.opened_s,
            generation=self.generation,
            checkpoint=self.checkpoint,
        )


class Flushed(msgspec.Struct, frozen=True, kw_only=True, tag="flushed"):
    """SCR has noticed the end of an asynchronous flush, which took `seconds` to its last copy on any rank.

    None: not all copies were seen. Written before SCR logs that end. `cpu_s` and `run_delay_s` as in
    FlushCompleted.
    """

    dataset: int
    seconds: float | None = None
    cpu_s: float = 0.0
    run_delay_s: float = 0.0


class Restart(msgspec.Struct, frozen=True, kw_only=True, tag="restart"):
    """One restart as its calls showed it: SCR_Start_restart entered, SCR_Complete_restart left."""

    name: str = ""
    valid: bool = True
    entered_s: float
    closed_s: float


@dataclass
class _Dataset:
    """What the log has said of one dataset; None: nothing."""

    generation: int = 0
    bytes: int = 0
    files: int = 0
    encode_s: float = 0.0
    until_encoded_s: float = 0.0
    """From SCR_Start_output to the end of the encoding."""
    has_waited: bool = False
    """SCR_Start_output waited for an earlier flush."""
    asynchronous: bool = False
    flush_due: bool = False
    flush: LogRecord | None = None
    flush_failed: bool = False
    flush_start_s: float | None = None
    """Known once the output is; what SCR logs of a flush before that waits for it."""
    earlier_flush: int | None = None
    """The dataset whose flush SCR waited for before it flushed this one."""
    closed_s: float | None = None
    """When its output ended."""
    flush_reported: bool = False
    copied: Flushed | None = None
    """What the library saw of the flush: from its start to the last copy's end."""


class Joiner:
    """Joins one job's log records and outputs. Feed what was logged within a call before that call's output.

    Memory is bounded: the last 4,096 datasets are kept.
    """

    def __init__(self) -> None:
        self._datasets: dict[int, _Dataset] = {}
        self._opening: int | None = None
        self._closing: int | None = None
        self._fetching = False
        self._began: dict[tuple[str, int], float] = {}
        self._held: list[Recovered] = []
        self._found: dict[int, _Dataset] = {}
        self._restart = (0, "cache")
        self._timed: set[int] = set()
        """The datasets whose :class:`Flushed` is still to come."""
        self._events: list[GoodputEvent] = []

    def records(self, records: Iterable[LogRecord]) -> list[GoodputEvent]:
        """Take records in; return the events that they, and outputs since the last call, have settled.

        What SCR_Init rebuilds is held back until :meth:`began` or :meth:`reinitialized` says what it was for.
        """
        for record in records:
            self._record(record)
        events, self._events = self._events, []
        return events

    def began(self, time_s: float) -> list[Recovered]:
        """Return what SCR brought back for the run whose SCR_Init returned at `time_s`."""
        began = [each for each in self._held if each.start_s <= time_s]
        self._held = [each for each in self._held if each.start_s > time_s]
        return began

    def reinitialized(self, time_s: float, seconds: float) -> None:
        """SCR was finalized and initialized again within `seconds` before `time_s`: nothing had been lost."""
        start_s = time_s - seconds - _STAMP_S
        self._held = [each for each in self._held if not start_s <= each.start_s <= time_s]

    def output(self, output: Output) -> OutputCompleted:
        """Return the output as the log has it. Flushes that it settles come with :meth:`records`."""
        seen = self._dataset(output.dataset)
        seen.generation = output.generation
        seen.closed_s = output.closed_s
        felt_s = output.closed_s - output.closing_s
        # without an earlier flush SCR_Start_output takes next to nothing
        wait_s = max(0.0, output.opened_s - output.entered_s - output.apply_s) if seen.has_waited else 0.0
        flush_s = 0.0
        if seen.flush_due and seen.asynchronous:
            # not before the encoding ended, by either clock that we have
            since_entered_s = output.entered_s + output.apply_s + seen.until_encoded_s
            encoded_s = max(since_entered_s, output.closing_s + seen.encode_s)
            seen.flush_start_s = min(output.closed_s, encoded_s)
            flush_s = output.closed_s - seen.flush_start_s
        elif seen.flush_due and seen.flush is not None:
            start_s = output.closed_s - min(felt_s, seen.flush.seconds or 0.0)
            seen.flush_start_s = max(start_s, min(output.closed_s, self._end_s(seen.earlier_flush)))
            flush_s = output.closed_s - seen.flush_start_s
            wait_s += seen.flush_start_s - start_s
        self._give_up(output.closed_s)
        if output.flush_timed:
            self._timed.add(output.dataset)
        self._report_flush(output.dataset, seen)
        return OutputCompleted(
            dataset=output.dataset,
            name=output.name,
            start_s=output.entered_s,
            end_s=output.closed_s,
            generation=output.generation,
            checkpoint=output.checkpoint,
            valid=output.valid,
            bytes=seen.bytes,
            files=seen.files,
            write_s=max(0.0, output.closing_s - output.opened_s - output.observe_s),
            encode_s=seen.encode_s,
            flush_s=max(0.0, flush_s),
            wait_s=wait_s,
            flush_due=seen.flush_due,
            apply_s=output.apply_s,
            shared_files=output.shared,
            observed=output.observed,
            observe_s=output.observe_s,
            cpu_s=output.cpu_s,
            run_delay_s=output.run_delay_s,
        )

    def flushed(self, flushed: Flushed) -> None:
        """Take in the end of a flush as the library saw it; what it settles comes with :meth:`records`."""
        seen = self._dataset(flushed.dataset)
        seen.copied = flushed
        self._timed.discard(flushed.dataset)
        if seen.closed_s is not None:
            self._report_flush(flushed.dataset, seen)

    def restart(self, restart: Restart) -> RestartCompleted:
        """Return the restart, from what the log brought back last; SCR does not log what it rebuilt."""
        dataset, source = self._restart
        return RestartCompleted(
            dataset=dataset,
            name=restart.name,
            start_s=restart.entered_s,
            end_s=restart.closed_s,
            source=source,
            valid=restart.valid,
        )

    def ended(self, time_s: float = inf) -> list[GoodputEvent]:
        """Return, at a run's end, the flushes that waited for their output, with the times that SCR gives."""
        self._timed.clear()
        for number, seen in self._datasets.items():
            if seen.flush is not None and seen.flush.time_s <= time_s:
                self._report_flush(number, seen)
        return self.records(())

    def _end_s(self, number: int | None) -> float:
        """Return the end of the flush of dataset `number`, 0 when that is not known exactly."""
        earlier = self._datasets.get(number or 0, _Dataset())
        if earlier.flush_start_s is None or earlier.flush is None:
            return 0.0
        return earlier.flush_start_s + (earlier.flush.seconds or 0.0)

    def _dataset(self, number: int) -> _Dataset:
        seen = self._datasets.setdefault(number, _Dataset())
        _forget(self._datasets)
        return seen

    def _record(self, record: LogRecord) -> None:
        match record.name:
            case "CHECKPOINT_START" | "OUTPUT_START" if record.dataset is not None:
                self._datasets.pop(record.dataset, None)
                self._dataset(record.dataset)
                self._opening, self._closing = record.dataset, None
            case "CHECKPOINT_END" | "OUTPUT_END":
                self._opening, self._closing = None, record.dataset
            case "WRITE" | "ENCODE" | "CHECKPOINT" | "OUTPUT":
                self._part(record)
            case "COMPUTE_START" | "COMPUTE_END" | "START":
                self._opening = self._closing = None
            case "HALT":
                self._opening = self._closing = None
                if record.note != FINALIZED:
                    self._events.append(JobHalted(time_s=record.time_s, reason=record.note))
            case "NODE_FAIL":
                node = record.note.partition(": ")[0]
                self._events.append(NodeFailed(time_s=record.time_s, node=node))
            case name if "FLUSH" in name:
                self._flush(record)
            case _:
                self._recovery(record)

    def _part(self, record: LogRecord) -> None:
        """Note what an output spent time on, but not the encoding of a dataset that is fetched."""
        if record.dataset is None or self._fetching:
            return
        seen = self._dataset(record.dataset)
        seconds = max(0.0, record.seconds or 0.0)
        if record.bytes is not None and record.files is not None:
            seen.bytes, seen.files = max(0, record.bytes), max(0, record.files)
        match record.name:
            case "WRITE":
                self._opening = None
            case "ENCODE":
                seen.encode_s = seconds
            case "CHECKPOINT" | "OUTPUT":
                seen.until_encoded_s = seconds

    def _flush(self, record: LogRecord) -> None:
        number = record.dataset
        if number is None:
            return
        seen = self._datasets.get(number)
        is_own = seen is not None and number == self._closing
        match record.name:
            case "ASYNC_FLUSH_START" if seen is not None and is_own:
                seen.asynchronous = seen.flush_due = True
            case "ASYNC_FLUSH_START":  # SCR_Init flushes what it finds in the cache
                self._found[number] = _Dataset(asynchronous=True)
                _forget(self._found)
            case "FLUSH_START" if seen is not None and is_own:
                seen.flush_due = True
            case "FLUSH_FAIL" | "ASYNC_FLUSH_FAIL":
                (self._found.get(number) or seen or _Dataset()).flush_failed = True
            case "FLUSH_SYNC" if not is_own:  # SCR_Init and SCR_Finalize flush, too
                failed = seen is not None and seen.flush_failed
                if seen is None or seen.flush is None:
                    self._report_flush(number, _Dataset(flush=record, flush_failed=failed))
            case "FLUSH_ASYNC" if number in self._found:
                found = self._found.pop(number)
                found.flush = record
                self._report_flush(number, found)
            case "FLUSH_SYNC" | "FLUSH_ASYNC":
                self._flush_ended(number, self._dataset(number), record)

    def _flush_ended(self, number: int, seen: _Dataset, record: LogRecord) -> None:
        opening, closing = (self._datasets.get(each or 0) for each in (self._opening, self._closing))
        if opening is not None:
            opening.has_waited = True
        if closing is not None and number != self._closing and not closing.flush_due:
            closing.earlier_flush = number
        if seen.flush is None:
            seen.flush = record
            if seen.closed_s is not None:
                self._report_flush(number, seen)

    def _give_up(self, time_s: float) -> None:
        """Report the flushes whose end SCR noticed well before `time_s`, and the library did not report."""
        for number in sorted(self._timed):
            seen = self._datasets.get(number)
            if seen is None:
                self._timed.discard(number)
            elif seen.flush is not None and self._end_s(number) + _STAMP_S < time_s:
                self._timed.discard(number)
                self._report_flush(number, seen)

    def _report_flush(self, number: int, seen: _Dataset) -> None:
        """Report the flush of a dataset, once, with the best times there are."""
        record = seen.flush
        if record is None or seen.flush_reported or number in self._timed:
            return
        seen.flush_reported = True
        start_s = record.time_s if seen.flush_start_s is None else seen.flush_start_s
        seconds = max(0.0, record.seconds or 0.0)
        if not seen.asynchronous and seen.flush_start_s is not None and seen.closed_s:
            seconds = seen.closed_s - seen.flush_start_s
        source, copied = "scr", seen.copied or Flushed(dataset=number)
        if seen.asynchronous and copied.seconds is not None:
            seconds, source = min(seconds, max(0.0, copied.seconds)), "libscrtune"
        self._events.append(
            FlushCompleted(
                dataset=number,
                start_s=start_s,
                end_s=start_s + seconds,
                generation=seen.generation,
                asynchronous=seen.asynchronous,
                bytes=max(0, record.bytes or 0),
                valid=not seen.flush_failed,
                source=source,
                cpu_s=copied.cpu_s,
                run_delay_s=copied.run_delay_s,
            )
        )

    def _recovery(self, record: LogRecord) -> None:
        """Note what was brought back: REBUILD, RESTART in SCR_Init, FETCH in SCR_Have_restart, SCAVENGE."""
        kind, _, outcome = record.name.rpartition("_")
        if kind not in ("REBUILD", "RESTART", "FETCH", "SCAVENGE"):
            return
        number = record.dataset or 0
        if kind == "FETCH":
            self._fetching = outcome == "START"
        if outcome == "START":
            self._began = {(kind, number): record.time_s}
            return
        if record.name == "REBUILD_SUCCESS":
            return  # RESTART_SUCCESS reports all that were rebuilt, and how long it took
        seconds = max(0.0, record.seconds or 0.0)
        start_s = record.time_s
        if kind != "RESTART":
            start_s = self._began.get((kind, number), start_s - seconds)
        recovered = Recovered(
            kind={"FETCH": "fetch", "SCAVENGE": "scavenge"}.get(kind, "rebuild"),
            dataset=number,
            start_s=start_s,
            end_s=max(record.time_s, start_s) if record.seconds is None else start_s + seconds,
            valid=outcome != "FAIL",
        )
        if recovered.valid and kind in ("RESTART", "FETCH"):
            self._restart = (number, "cache" if kind == "RESTART" else "prefix")
        (self._held if recovered.kind == "rebuild" else self._events).append(recovered)
        del self._held[:-_REMEMBERED]


def _forget(datasets: dict[int, _Dataset]) -> None:
    """Let the oldest go, once there are too many."""
    while len(datasets) > _REMEMBERED:
        del datasets[next(iter(datasets))]
