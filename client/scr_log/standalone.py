"""SCR's log without anybody who took times beside it, as goodput events.

Its times are whole seconds, its durations exact. So a time is put where the durations since the last one lead
to, within the second that the log gives it.
"""

from collections.abc import Iterable, Iterator

from ...goodput.events import GoodputEvent, JobEnded, JobStarted
from ..implicit_steps import ImplicitSteps
from .join import FINALIZED, Joiner, Output
from .log import LogRecord

_SECOND_S = 1 - 1e-6
_ENDING = frozenset(
    {"START", "COMPUTE_START", "CHECKPOINT_START", "OUTPUT_START"}
    | {"HALT", "RUN_END", "RUN_START", "NODE_FAIL"}
)
"""What cannot be within an output."""


def by_job(records: Iterable[LogRecord]) -> dict[str, list[GoodputEvent]]:
    """Return the events of each job that wrote to the log, by its ``jobid``."""
    jobs: dict[str, _Job] = {}
    events: dict[str, list[GoodputEvent]] = {}
    for record in records:
        job = jobs.setdefault(record.jobid, _Job())
        events.setdefault(record.jobid, []).extend(job.take(record))
    for name, job in jobs.items():
        events[name] += job.end()
    return events


class _Job:
    """One job's records, in their order; outputs end where the next thing begins."""

    def __init__(self) -> None:
        self._joiner = Joiner()
        self._steps: ImplicitSteps | None = None
        """Of the run, while there is one."""
        self._now_s = self._computing_s = 0.0
        self._output: LogRecord | None = None
        self._entered_s = self._opened_s = self._closing_s = self._closed_s = 0.0

    def take(self, record: LogRecord) -> Iterator[GoodputEvent]:
        if record.truncated:
            return
        if not record.is_transfer and record.name in _ENDING:
            yield from self._close(record)
        yield from self._event(record)
        yield from self._joiner.records([record])
        if record.name == "HALT" and record.note == FINALIZED and self._steps is not None:
            ended_s = self._reach(record, self._now_s)
            self._steps = None
            yield from self._joiner.ended(ended_s)
            yield JobEnded(time_s=ended_s)

    def end(self) -> Iterator[GoodputEvent]:
        """Return what was under way when the log ended."""
        yield from self._close(None)
        yield from self._joiner.ended()

    def _event(self, record: LogRecord) -> Iterator[GoodputEvent]:
        seconds = max(0.0, record.seconds or 0.0)
        match record.name:
            case "START":
                started_s = self._reach(record, self._now_s)
                self._steps = ImplicitSteps(started_s, dataset=None)
                yield JobStarted(time_s=started_s, ranks=record.procs or 1, nodes=record.nodes or 1)
            case "RESTART_SUCCESS" | "FETCH_SUCCESS" if self._steps is not None and record.dataset:
                self._steps.resumed(record.dataset, self._reach(record, self._now_s))
            case "COMPUTE_START":
                self._computing_s = self._reach(record, self._now_s)
                yield from self._joiner.began(self._now_s)
                if self._steps is not None:
                    self._steps.paused(self._now_s)
            case "COMPUTE_END":
                self._reach(record, self._computing_s + seconds)
            case "CHECKPOINT_START" | "OUTPUT_START" if record.dataset is not None:
                self._output = record
                self._entered_s = self._opened_s = self._closing_s = self._closed_s = self._reach(
                    record, self._now_s
                )
            case "WRITE" if self._output is not None:
                self._opened_s = self._reach(record, self._entered_s)
                self._closing_s = self._closed_s = self._opened_s + seconds
            case "CHECKPOINT_END" | "OUTPUT_END" if self._output is not None:
                self._closed_s = max(self._closing_s, self._entered_s + seconds)
            case "FLUSH_SYNC" if self._output is not None and record.dataset == self._output.dataset:
                self._closed_s += seconds

    def _close(self, following: LogRecord | None) -> Iterator[GoodputEvent]:
        """Return the output that is open, which `following` (None: the log's end) shows to have ended."""
        started, self._output = self._output, None
        if started is None or started.dataset is None:
            return
        closed_s = max(self._now_s, self._closed_s)
        if following is not None:
            closed_s = self._reach(following, closed_s)
        output = Output(
            dataset=started.dataset,
            name=started.dataset_name,
            checkpoint=started.name == "CHECKPOINT_START",
            entered_s=self._entered_s,
            opened_s=self._opened_s,
            closing_s=min(self._closing_s, closed_s),
            closed_s=closed_s,
        )
        if self._steps is not None:
            yield from self._steps.output(
                output.dataset, output.entered_s, closed_s, resumable=output.checkpoint
            )
        yield self._joiner.output(output)
        yield from self._joiner.records(())

    def _reach(self, record: LogRecord, expected_s: float) -> float:
        """Return the time of `record`: the expected one, as far as its stamp allows; never backwards."""
        stamp_s = record.time_s
        self._now_s = max(self._now_s, min(max(expected_s, stamp_s), stamp_s + _SECOND_S))
        return self._now_s
