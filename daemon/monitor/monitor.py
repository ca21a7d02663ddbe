"""Goodput of a running job for others to watch: the loop takes snapshots, a thread for each sink writes them.

A disk that is full or hangs, an occupied port or a missing library delays neither the loop nor another sink.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from ...goodput.events import JobStarted, StepCompleted, StepStarted
from ...goodput.ledger.ledger import Window
from ...goodput.steps.recent import RecentSteps
from ...goodput.validation import defect
from ...intents.events import Event
from ...intents.pipeline import Pipeline
from ...intents.tune.decisions import Verdict
from ..options import OFF, Monitoring, address_of
from ..views import MonitorView, StatusView
from .csv import CsvRows
from .snapshot import Deviations, Sink, Snapshot, immutable
from .tensorboard import TensorBoardScalars

log = logging.getLogger("scrtune.daemon")

_METRICS_EVERY_S = 1.0
_FINAL_WRITE_S = 0.5  # of all sinks together: a daemon ends well within a second
_HANGS_S = 10.0
_MOST_DEVIATIONS = 10_000  # that are not written yet: a disk that is full for days costs no more than 1 MB


class SinkThread:
    """Writes each snapshot that it is given to one sink, on a thread of its own.

    `open_sink` is called there, since it may load a library or wait for a name server. Whatever fails is
    logged, once while it stays the same, and tried again with the next snapshot. A snapshot that comes while
    the last one is still being written waits; a newer one replaces it and has the step deviations of both.
    Raises RuntimeError when no thread can be started.
    """

    def __init__(self, name: str, open_sink: Callable[[], Sink], *, hangs_s: float = _HANGS_S) -> None:
        self._name = name
        self._open = open_sink
        self._hangs_s = hangs_s
        self._sink: Sink | None = None
        self._changed = threading.Condition()
        self._waiting: Snapshot | None = None
        self._deviations: Deviations = ()  # that are not written yet
        self._over = False
        self._failure = ""
        self._began_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    @property
    def view(self) -> MonitorView:
        """Return what it is and where, and why the last snapshot is not there."""
        failure, began_s = self._failure, self._began_s
        if began_s is not None and (took_s := time.monotonic() - began_s) > self._hangs_s:
            failure = f"the last write has not ended for {took_s:.0f} s"
        return MonitorView(name=self._sink.name if self._sink else self._name, failure=failure)

    def give(self, snapshot: Snapshot) -> None:
        """Have `snapshot` written as soon as the last one is."""
        with self._changed:
            self._deviations = (self._deviations + snapshot.deviations)[-_MOST_DEVIATIONS:]
            self._waiting = snapshot
            self._changed.notify()

    def finish(self) -> None:
        """Write what waits, and nothing after it."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def join(self, timeout_s: float) -> bool:
        """Return whether everything is written within `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (snapshot := self._next()) is not None:
            self._began_s = time.monotonic()
            try:
                self._sink = self._sink or self._open()
                self._sink.write(snapshot)
                self._failure = ""
            except ImportError as error:
                self._failed(f"{error}; pip install --upgrade 'scrtune[monitoring]'", snapshot)
            except Exception as error:  # noqa: BLE001  monitoring never ends a job
                self._failed(f"{error}; it is tried again", snapshot)
            self._began_s = None

    def _next(self) -> Snapshot | None:
        """Wait for a snapshot; returns None after the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._over)
            snapshot, self._waiting = self._waiting, None
            deviations, self._deviations = self._deviations, ()
            return snapshot and msgspec.structs.replace(snapshot, deviations=deviations)

    def _failed(self, why: str, snapshot: Snapshot) -> None:
        with self._changed:
            self._deviations = (snapshot.deviations + self._deviations)[-_MOST_DEVIATIONS:]
        if why != self._failure:
            log.error("%s: %s", self.view.name, why)
        self._failure = why


class Monitor:
    """Takes snapshots and gives them to the sinks that were asked for; belongs to the loop's thread."""

    def __init__(
        self,
        options: Monitoring,
        pipeline: Pipeline,
        status: Callable[[float], StatusView],
        steps: RecentSteps | None = None,
    ) -> None:
        self._options = options
        self._pipeline = pipeline
        self._status = status
        self._steps = steps or RecentSteps()
        self._shown: list[SinkThread] = []
        self._written: list[SinkThread] = []
        self._failures: list[MonitorView] = []
        self._next_show_s = self._next_write_s = 0.0

    def start(self) -> None:
        """Start the threads."""
        options = self._options
        if (metrics := options.metrics) != OFF:
            self._start(self._shown, f"metrics at {metrics}", lambda: _open_metrics(metrics))
        if (directory := options.tensorboard) is not None:
            self._start(self._written, f"scalars in {directory}", lambda: TensorBoardScalars(directory))
        if (path := options.csv) is not None:
            self._start(self._written, f"rows in {path}", lambda: CsvRows(path))
        self._steps.take_deviations()  # those of the journal were written by the daemon before us

    def views(self) -> tuple[MonitorView, ...]:
        """Return the sinks and why they fail, for `scrtune status`."""
        return (*(thread.view for thread in (*self._written, *self._shown)), *self._failures)

    def observe(self, event: Event, now: float) -> None:
        """Take in a step of the job; all other events are passed over."""
        if (
            self._options.is_wanted
            and isinstance(event, StepCompleted | StepStarted | JobStarted)
            and defect(event, now) is None
        ):
            self._steps.handle(event)

    def tick(self, time_s: float, now: float) -> None:
        """Give the sinks a snapshot when it is time, by the monotonic clock."""
        if self._shown and time_s >= self._next_show_s:
            self._next_show_s = time_s + _METRICS_EVERY_S
            self._give(self._shown, now)
        if self._written and time_s >= self._next_write_s:
            self._next_write_s = time_s + self._options.every_s
            self._give(self._written, now, self._steps.take_deviations())

    def end(self, now: float) -> None:
        """Give all sinks the last snapshot, and wait for them, half a second at most; then they are left."""
        threads = [*self._written, *self._shown]
        if not threads:
            return
        self._give(threads, now, self._steps.take_deviations())
        until_s = time.monotonic() + _FINAL_WRITE_S
        for thread in threads:
            thread.finish()
        for thread in threads:
            if not thread.join(max(0.0, until_s - time.monotonic())):
                log.warning("%s: the last update is not done in time and is given up", thread.view.name)

    def _start(self, threads: list[SinkThread], name: str, open_sink: Callable[[], Sink]) -> None:
        try:
            threads.append(SinkThread(name, open_sink))
        except RuntimeError as error:  # there are no threads left
            self._fail(name, str(error))

    def _fail(self, name: str, failure: str, *, is_bug: bool = False) -> None:
        view = MonitorView(name=name, failure=failure)
        if view not in self._failures:
            log.error("%s: %s", name, failure, exc_info=is_bug)
            self._failures.append(view)

    def _give(self, threads: Sequence[SinkThread], now: float, deviations: Deviations = ()) -> None:
        try:
            snapshot = self._snapshot(now, deviations)
        except Exception:  # noqa: BLE001  the loop goes on, whatever cannot be shown
            self._fail("the job's numbers", "they cannot be shown: a bug, see daemon.log", is_bug=True)
            return
        for thread in threads:
            thread.give(snapshot)

    def _windows(self, now: float) -> dict[int, Window]:
        """Return the rolling windows that the job, or a part of it, lies in."""
        ledger = self._pipeline.ledger
        windows = {window_s: ledger.window(now - window_s, now, now) for window_s in self._options.windows_s}
        return {window_s: window for window_s, window in windows.items() if window.wall_s > 0}

    def _snapshot(self, now: float, deviations: Deviations) -> Snapshot:
        pipeline, status = self._pipeline, self._status(now)
        verdicts = [decision.verdict for decision in pipeline.decisions]
        return Snapshot(
            time_s=now,
            status=immutable(status),
            account=pipeline.account(now),
            windows=self._windows(now),
            decisions={verdict.name.lower(): verdicts.count(verdict) for verdict in Verdict},
            last_checkpoint=pipeline.costs[-1] if pipeline.costs else None,
            last_step=self._steps.last,
            ideal_step_s=self._steps.ideal_s,
            step_deviation_s=self._steps.deviation_s,
            deviations=deviations,
        )


def _open_metrics(address: str) -> Sink:
    from .prometheus import OpenMetrics  # noqa: PLC0415  prometheus_client: who asks for nothing loads nothing

    return OpenMetrics(*address_of(address))
