"""Snapshots as OpenMetrics over HTTP, by prometheus_client's own server; only its thread loads this."""

import ipaddress
import logging
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from .snapshot import Snapshot

log = logging.getLogger("scrtune.daemon")


class OpenMetrics(Collector):
    """Serves the last snapshot at `host` and `port` (0: any that is free) until the process ends.

    `docs/monitoring.md` lists the metrics; there are none before the first snapshot. The seconds of a bucket
    are gauges, for they may fall: steps that were productive turn out to be wasted. Raises OSError when it
    cannot listen there.
    """

    def __init__(self, host: str, port: int) -> None:
        self._latest: Snapshot | None = None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        server, _ = start_http_server(port, host, registry)
        at, port = str(server.server_address[0]), int(server.server_address[1])
        self.name = f"metrics at http://{f'[{at}]' if ':' in at else at}:{port}/metrics"
        log.info("%s", self.name)
        if not ipaddress.ip_address(at.partition("%")[0]).is_loopback:
            log.warning("%s: everyone who can connect to this node may read them", self.name)

    def write(self, snapshot: Snapshot) -> None:
        """Answer the next scrapes with `snapshot`."""
        self._latest = snapshot

    def describe(self) -> Iterator[Metric]:
        """Return nothing: which metrics there are depends on the job."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Return every metric of the last snapshot."""
        snapshot = self._latest
        if snapshot is None:
            return
        status = snapshot.status
        names = {"job_id": status.job_id, "host": status.host, "engine": status.engine}
        yield InfoMetricFamily("scrtune_job", "The job of this daemon", value=names)
        yield from _of_daemon(snapshot)
        if snapshot.is_begun:
            yield from _of_time(snapshot)
            yield from _of_steps(snapshot)
            yield from _of_checkpoints(snapshot)


def _of_daemon(snapshot: Snapshot) -> Iterator[Metric]:
    status, counters = snapshot.status, snapshot.status.counters
    yield _gauge(
        "snapshot_timestamp_seconds", "When these numbers were taken, since the epoch", snapshot.time_s
    )
    yield _counter("events", "Events that arrived", counters.events)
    yield _counter("events_dropped", "Events and trace lines not counted", counters.dropped, "reason")
    yield _counter("events_lost", "Events that never arrived", counters.lost, "source")
    yield _counter("messages_rejected", "Messages that could not be used", status.rejected, "reason")
    yield _counter("journal_records_lost", "Records that the disk refused", status.journal_lost)
    yield _gauge("tuning_enabled", "1 while settings are tried", status.tuning)
    yield _gauge("settings_generation", "Number of the active settings", status.generation)
    yield _gauge("decisions", "The last 1,000 decisions of the tuner", snapshot.decisions, "verdict")


def _of_time(snapshot: Snapshot) -> Iterator[Metric]:
    account = snapshot.account
    yield _gauge("goodput_ratio", "Productive share of the wall time, 0 to 1", account.goodput)
    yield _gauge("wall_seconds", "Wall time of the job over all its runs", account.wall_s)
    yield _gauge("time_seconds", "Wall time by what it went to", account.buckets, "bucket")
    windows = {str(window_s): window for window_s, window in snapshot.windows.items()}
    shares = {name: window.goodput for name, window in windows.items()}
    yield _gauge("window_goodput_ratio", "The same of the last so many seconds", shares, "window_seconds")
    spent = {(name, bucket): s for name, window in windows.items() for bucket, s in window.buckets.items()}
    text = "Wall time of the last so many seconds by what it went to"
    yield _gauge("window_time_seconds", text, spent, "window_seconds", "bucket")


def _of_steps(snapshot: Snapshot) -> Iterator[Metric]:
    account = snapshot.account
    yield _counter("runs", "Times that the job was started", account.runs)
    yield _counter("steps", "Steps completed, each number once", account.steps)
    if snapshot.ideal_step_s is not None:
        yield _gauge("last_step", "Number of the last step", snapshot.last_step)
        yield _gauge("ideal_step_seconds", "Mean step without outliers", snapshot.ideal_step_s)
        yield _gauge("step_deviation_seconds", "Mean distance from the ideal step", snapshot.step_deviation_s)


def _of_checkpoints(snapshot: Snapshot) -> Iterator[Metric]:
    account, last = snapshot.account, snapshot.last_checkpoint
    yield _counter("checkpoints", "Valid checkpoints", account.checkpoints)
    yield _counter("recoveries", "Datasets that SCR brought back", account.recoveries)
    yield _counter("node_failures", "Nodes that SCR's scripts found dead", account.node_failures)
    status = snapshot.status
    cost = {"now": status.checkpoint_cost_s, "own settings": status.baseline_cost_s}
    yield _gauge("checkpoint_cost_seconds", "Believed cost of a checkpoint", cost, "settings")
    if last is None:
        return
    yield _gauge("last_checkpoint_cost_seconds", "Cost of the last checkpoint", last.cost_s)
    yield _gauge("last_checkpoint_blocking_seconds", "What it blocked the application", last.blocking_s)
    yield _gauge("last_checkpoint_size_bytes", "Its size", last.bytes)
    yield _gauge("last_checkpoint_timestamp_seconds", "When it was complete, since the epoch", last.time_s)
    if last.flushed:
        yield _gauge("last_checkpoint_flush_seconds", "Duration of its flush", last.flush_s)


_Values: TypeAlias = float | Mapping[str, float] | Mapping[tuple[str, str], float]


def _gauge(name: str, help_text: str, values: _Values, *labels: str) -> Metric:
    """Return a gauge of one value, or of one for each value of `labels`."""
    return _filled(GaugeMetricFamily(f"scrtune_{name}", help_text, labels=labels), values)


def _counter(name: str, help_text: str, values: _Values, *labels: str) -> Metric:
    return _filled(CounterMetricFamily(f"scrtune_{name}", help_text, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: _Values) -> Metric:
    for label, value in (values if isinstance(values, Mapping) else {(): values}).items():
        family.add_metric((label,) if isinstance(label, str) else label, value)
    return family
