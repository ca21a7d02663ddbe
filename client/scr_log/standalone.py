"""SCR's log without anybody who took times beside it: what it says by itself, as goodput events.

Its times are whole seconds, its durations exact. So a time is put where the durations since the last one lead
to, within the second that the log gives it. Where the application or the preloaded library took times itself,
:mod:`.preload_events` knows better; this is for a log that was found alone.
"""

from collections.abc import Iterable, Iterator

from ...goodput.events import GoodputEvent, JobEnded, JobStarted
from ..implicit_steps import ImplicitSteps
from .join import Joiner, Output
from .log import Record

_SECOND_S = 1 - 1e-6
_FINALIZED = "SCR_FINALIZE_CALLED"


def by_job(records: Iterable[Record]) -> dict[str, list[GoodputEvent]]:
    """The events of each job that wrote to the log, by its ``jobid``."""
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
        self._now_s = 0.0
        self._implicit: ImplicitSteps | None = None
        self._first = True
        """No output of this run was seen, and nothing that it restarted from."""
        self._computing_s = 0.0
        self._output: Record | None = None
        self._entered_s = self._opened_s = self._closing_s = self._closed_s = 0.0

    def take(self, record: Record) -> Iterator[GoodputEvent]:
        if record.time_s is None or record.truncated:
            return
        if not record.is_transfer and record.name in _ENDING:
            yield from self._close(record)
        yield from self._event(record)
        yield from self._joiner.records([record])
        if record.name == "HALT" and record.note == _FINALIZED and self._implicit is not None:
            ended_s = self._reach(record, self._now_s)
            self._implicit = None
            yield from self._joiner.ended(ended_s)
            yield JobEnded(time_s=ended_s)

    def end(self) -> Iterator[GoodputEvent]:
        """What was under way when the log ended."""
        yield from self._close(None)
        yield from self._joiner.ended()

    def _event(self, record: Record) -> Iterator[GoodputEvent]:
        seconds = max(0.0, record.seconds or 0.0)
        match record.name:
            case "START":
                started_s = self._reach(record, self._now_s)
                self._implicit, self._first = ImplicitSteps(started_s), True
                yield JobStarted(time_s=started_s, ranks=record.procs or 1, nodes=record.nodes or 1)
            case "RESTART_SUCCESS" | "FETCH_SUCCESS" if self._implicit is not None and record.dataset:
                self._reach(record, self._now_s)
                self._implicit.resumed(record.dataset, self._now_s)
                self._first = False
            case "COMPUTE_START":
                self._computing_s = self._reach(record, self._now_s)
                yield from self._joiner.began(self._now_s)
                if self._implicit is not None:
                    self._implicit.paused(self._now_s)
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
            case _:
                pass

    def _close(self, following: Record | None) -> Iterator[GoodputEvent]:
        """The output that is open, when `following` shows that it has ended."""
        started, self._output = self._output, None
        if started is None or started.dataset is None:
            return
        if following is None:
            closed_s = max(self._now_s, self._closed_s)
        else:
            closed_s = self._reach(following, max(self._now_s, self._closed_s))
        output = Output(
            dataset=started.dataset,
            name=started.dataset_name,
            checkpoint=started.name == "CHECKPOINT_START",
            entered_s=self._entered_s,
            opened_s=self._opened_s,
            closing_s=min(self._closing_s, closed_s),
            closed_s=closed_s,
        )
        if self._implicit is not None:
            if self._first:
                self._implicit.resumed(output.dataset - 1, self._computing_s)
                self._first = False
            yield from self._implicit.output_started(output.entered_s)
        yield self._joiner.output(output)
        yield from self._joiner.records(())
        if self._implicit is not None and output.checkpoint:
            self._implicit.resumed(output.dataset, closed_s)
        elif self._implicit is not None:
            self._implicit.paused(closed_s)

    def _reach(self, record: Record, expected_s: float) -> float:
        """The time of `record`: the one that was expected, as far as its stamp allows; never backwards."""
        stamp_s = record.time_s or 0.0
        self._now_s = max(self._now_s, min(max(expected_s, stamp_s), stamp_s + _SECOND_S))
        return self._now_s


_ENDING = frozenset(
    {
        "START",
        "COMPUTE_START",
        "CHECKPOINT_START",
        "OUTPUT_START",
        "HALT",
        "RUN_END",
        "RUN_START",
        "NODE_FAIL",
    }
)
"""What cannot be within an output."""
