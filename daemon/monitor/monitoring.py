"""Goodput of a running job for others to watch: what the loop's thread takes, and who gets it.

The loop takes a :class:`Snapshot` now and then. Everything else, the endpoint, TensorBoard and CSV, lives on
threads of its own that see nothing but the last snapshot: a disk that is full or hangs, a port that is
occupied or a scraper that never reads is theirs alone.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ...client.paths import JobPaths
from ...goodput.events import JobStarted, StepCompleted, StepStarted
from ...goodput.ledger.ledger import Window
from ...goodput.steps.recent import RecentSteps
from ...goodput.validation import defect
from ...intents.events import Event
from ...intents.pipeline import Pipeline
from ...intents.tune.decisions import Verdict
from ..options import OFF, Monitoring
from ..views import MonitorView
from .address import IN_RUN_DIRECTORY, address_of
from .endpoint import Doorbell, Endpoint
from .scalars import Writer, to_csv, to_tensorboard
from .snapshot import Deviations, Sink, Snapshot, bounded

log = logging.getLogger("scrtune.daemon")

FINAL_FLUSH_S = 0.5
"""What the last write of everything may take together: a daemon ends well within a second."""
FEWEST_SECONDS = 1.0
"""Between two snapshots for the endpoint, however often it is asked."""


class Monitor:
    """Belongs to the loop's thread, which calls all of this. Without options it waits for a first scrape."""

    def __init__(self, options: Monitoring, paths: JobPaths, pipeline: Pipeline) -> None:
        self._options = options
        self._paths = paths
        self._pipeline = pipeline
        self._steps = RecentSteps()
        self._endpoint: Endpoint | None = None
        self._doorbell: Doorbell | None = None
        self._writers: list[Writer] = []
        self._next_show_s = self._next_write_s = 0.0
        self._failed = False
        self._not_started = ""
        self.rejected: Mapping[str, int] = {}
        self.journal_lost = 0

    def start(self) -> None:
        """Start the threads; what they need is loaded there."""
        options = self._options
        try:
            if options.metrics not in {"", OFF}:
                self._endpoint = Endpoint(address_of(options.metrics, self._paths.root))
            if options.tensorboard is not None:
                self._writers.append(to_tensorboard(options.tensorboard))
            if options.csv is not None:
                self._writers.append(to_csv(options.csv))
            if not options.metrics and find_spec("prometheus_client") is not None:
                self._doorbell = Doorbell(self._paths.root / IN_RUN_DIRECTORY)
        except (OSError, RuntimeError, ValueError) as error:  # no descriptors or threads left, for one
            self._fails(error)
        self._steps.take_deviations()  # those of the journal were written by the daemon before us

    def views(self) -> tuple[MonitorView, ...]:
        """Who watches, and why not, for `scrtune status`."""
        watchers: list[Sink | Doorbell] = [*self._sinks, *filter(None, [self._doorbell])]
        views = [MonitorView(name=each.name, failure=each.failure) for each in watchers]
        if self._not_started:
            views.append(MonitorView(name="whatever else was asked for", failure=self._not_started))
        if self._failed:
            views.append(MonitorView(name="the job's numbers", failure="a bug, see daemon.log"))
        return tuple(views)

    @property
    def _sinks(self) -> list[Sink]:
        return [*self._writers, *filter(None, [self._endpoint])]

    def observe(self, event: Event, now: float) -> None:
        """Take a step of the job in; all else is passed over."""
        is_watched = self._options.is_wanted or self._endpoint is not None
        if not is_watched or not isinstance(event, StepCompleted | StepStarted | JobStarted):
            return
        if defect(event, now) is None:
            self._steps.handle(event)

    def tick(self, time_s: float, now: float) -> None:
        """Give a snapshot to who asks for one, and to the writer when it is time, by the monotonic clock."""
        if self._doorbell and self._doorbell.rings:
            self._open(self._doorbell)
        if self._endpoint and self._endpoint.is_asked and time_s >= self._next_show_s:
            self._next_show_s = time_s + FEWEST_SECONDS
            self._give([self._endpoint], now)
        if self._writers and time_s >= self._next_write_s:
            self._next_write_s = time_s + self._options.every_s
            self._give(self._writers, now, self._steps.take_deviations())

    def _open(self, doorbell: Doorbell) -> None:
        """Somebody asks for the first time."""
        self._doorbell = None
        try:
            self._endpoint = doorbell.answered()
        except (OSError, RuntimeError) as error:
            doorbell.close()
            self._fails(error)

    def _fails(self, error: Exception) -> None:
        self._not_started = str(error)
        log.error("the job is not watched as was asked: %s", error)

    def end(self, now: float) -> None:
        """Give everyone the last snapshot, and wait for them, half a second at most; then they are left."""
        if self._doorbell:
            self._doorbell.close()
        sinks = self._sinks
        if not sinks:
            return
        self._give(sinks, now, self._steps.take_deviations())
        until_s = time.monotonic() + FINAL_FLUSH_S
        for sink in sinks:
            sink.finish()
        for sink in sinks:
            if not sink.join(max(0.0, until_s - time.monotonic())):
                log.warning("%s: the last update is not done in time and is given up", sink.name)

    def _give(self, sinks: Sequence[Sink], now: float, deviations: Deviations = ()) -> None:
        try:
            snapshot = self._snapshot(now, deviations)
        except Exception:
            if not self._failed:
                log.exception("the job's state cannot be shown to its monitors: a bug; all else goes on")
            self._failed = True
            return
        for sink in sinks:
            sink.give(snapshot)

    def _windows(self, now: float) -> dict[int, Window]:
        """The rolling windows that the job, or a part of it, lies in."""
        ledger = self._pipeline.ledger
        windows = {window_s: ledger.window(now - window_s, now, now) for window_s in self._options.windows_s}
        return {window_s: window for window_s, window in windows.items() if window.wall_s > 0}

    def _snapshot(self, now: float, deviations: Deviations) -> Snapshot:
        pipeline = self._pipeline
        job, tuner, counters = pipeline.job, pipeline.tuner, pipeline.counters
        verdicts = [decision.verdict for decision in pipeline.decisions]
        return Snapshot(
            time_s=now,
            job_id=self._paths.job_id,
            host=self._paths.host,
            account=pipeline.account(now),
            windows=self._windows(now),
            engine=job.engine if job else "",
            generation=pipeline.advice.generation,
            tuning=pipeline.on,
            decisions={verdict.name.lower(): verdicts.count(verdict) for verdict in Verdict},
            checkpoint_cost_s=tuner.current_s if tuner else 0.0,
            baseline_cost_s=tuner.baseline_s if tuner else 0.0,
            last_checkpoint=pipeline.costs[-1] if pipeline.costs else None,
            events=counters.events,
            dropped=bounded(counters.dropped),
            lost=bounded(counters.lost),
            rejected=bounded(self.rejected),
            journal_lost=self.journal_lost,
            last_step=self._steps.last,
            ideal_step_s=self._steps.ideal_s,
            step_deviation_s=self._steps.deviation_s,
            deviations=deviations,
        )
