"""OpenMetrics over HTTP with prometheus_client: only the endpoint's thread loads this module."""

import io
import ipaddress
import logging
import selectors
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from .address import Address
from .snapshot import Snapshot
from .unix_listener import listen_at

log = logging.getLogger("scrtune.daemon")

_SCRAPES_AT_ONCE = 8
_PATIENCE_S = 2.0


class JobCollector(Collector):
    """The metrics of a snapshot (`docs/monitoring.md` lists them); none before there is one.

    Seconds of a bucket are gauges, for they may fall: steps that were productive turn out to be wasted.
    """

    def __init__(self, latest: Callable[[], Snapshot | None]) -> None:
        self._latest = latest

    def describe(self) -> Iterator[Metric]:
        """Nothing beforehand: what there is depends on the job."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every metric of the last snapshot."""
        snapshot = self._latest()
        if snapshot is None:
            return
        names = {"job_id": snapshot.job_id, "host": snapshot.host, "engine": snapshot.engine}
        yield InfoMetricFamily("scrtune_job", "The job that this daemon looks after", value=names)
        yield from _of_daemon(snapshot)
        if snapshot.is_begun:
            yield from _of_time(snapshot)
            yield from _of_steps(snapshot)
            yield from _of_checkpoints(snapshot)


def _of_daemon(snapshot: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "snapshot_timestamp_seconds", "When these numbers were taken, since the epoch", snapshot.time_s
    )
    yield _counter("events", "Events that arrived", snapshot.events)
    yield _counters("events_dropped", "Events and trace lines not counted", "reason", snapshot.dropped)
    yield _counters("events_lost", "Events that never arrived", "source", snapshot.lost)
    yield _counters("messages_rejected", "Messages that could not be used", "reason", snapshot.rejected)
    yield _counter("journal_records_lost", "Records that the disk refused", snapshot.journal_lost)
    yield _gauge("tuning_enabled", "1 while settings are tried", snapshot.tuning)
    yield _gauge("settings_generation", "Number of the settings in force", snapshot.generation)
    yield _gauges("decisions", "The last 1,000 decisions of the tuner", "verdict", snapshot.decisions)


def _of_time(snapshot: Snapshot) -> Iterator[Metric]:
    account = snapshot.account
    yield _gauge("goodput_ratio", "Productive share of the wall time, 0 to 1", account.goodput)
    yield _gauge("wall_seconds", "Wall time of the job over all its runs", account.wall_s)
    yield _gauges("time_seconds", "Wall time by what it went to", "bucket", account.buckets)
    windows = {str(window_s): window for window_s, window in snapshot.windows.items()}
    shares = {name: window.goodput for name, window in windows.items()}
    yield _gauges("window_goodput_ratio", "The same of the last so many seconds", "window_seconds", shares)
    spent = GaugeMetricFamily(
        "scrtune_window_time_seconds",
        "Wall time of the last so many seconds by what it went to",
        labels=("window_seconds", "bucket"),
    )
    for name, window in windows.items():
        for bucket, spent_s in window.buckets.items():
            spent.add_metric((name, bucket), spent_s)
    yield spent


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
    cost = {"now": snapshot.checkpoint_cost_s, "own settings": snapshot.baseline_cost_s}
    yield _gauges("checkpoint_cost_seconds", "Mean cost of a checkpoint", "settings", cost)
    if last is None:
        return
    yield _gauge("last_checkpoint_cost_seconds", "Cost of the last checkpoint", last.cost_s)
    yield _gauge("last_checkpoint_blocking_seconds", "What it blocked the application", last.blocking_s)
    yield _gauge("last_checkpoint_size_bytes", "Its size", last.bytes)
    yield _gauge("last_checkpoint_timestamp_seconds", "When it was complete, since the epoch", last.time_s)
    if last.flushed:
        yield _gauge("last_checkpoint_flush_seconds", "Duration of its flush", last.flush_s)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"scrtune_{name}", help_text, value=value)


def _gauges(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"scrtune_{name}", help_text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), value)
    return family


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"scrtune_{name}", help_text, value=value)


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"scrtune_{name}", help_text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), value)
    return family


def serve(
    address: Address,
    latest: Callable[[], Snapshot | None],
    until_closed: socket.socket,
    listening: Callable[[str], None],
    listener: socket.socket | None = None,
) -> None:
    """Answer scrapes at `address` until the other end of `until_closed` is closed.

    `listening` is told where, as soon as somebody can ask; `listener` is a unix socket that listens there
    already. Raises OSError when nobody ever can.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(latest))
    server = _HostServer(address) if address.path is None else _UnixServer(address, listener)
    with server, selectors.DefaultSelector() as selector:
        server.set_app(make_wsgi_app(registry))
        listening(server.told)
        selector.register(server, selectors.EVENT_READ)
        selector.register(until_closed, selectors.EVENT_READ)
        while all(key.fileobj is server for key, _ in selector.select()):
            server.handle_request()


class _Request(io.RawIOBase):
    """What a scraper says, as far as it comes within 2 s: it is not enough that each byte of it does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until_s = time.monotonic() + _PATIENCE_S

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes, or 0 at the end. Raises TimeoutError."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left_s)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(_PATIENCE_S)


class _Handler(WSGIRequestHandler):
    """One scrape. Who has not asked after 2 s, or does not take the answer for 2 s, is hung up on."""

    timeout = _PATIENCE_S

    def setup(self) -> None:
        """Read with a limit for all of the request; the answer is sent at once, which has its own."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's signature
        """Scrapes come by the thousand: they are not told."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """A thread for each scrape, eight at once; the next ones are hung up on until one is done."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False  # an occupied port is told, not shared
    timeout = 0  # we ask when there is somebody

    def __init__(self, address: Address, where: Any) -> None:
        self._slots = threading.BoundedSemaphore(_SCRAPES_AT_ONCE)
        self.address = address
        super().__init__(where, _Handler)

    @property
    def told(self) -> str:
        """Where it listens, for the log."""
        return str(self.address)

    def server_bind(self) -> None:
        """As HTTPServer does, but without asking the network for our own name."""
        socketserver.TCPServer.server_bind(self)
        self.describe()

    def describe(self) -> None:
        """Say to scrapes' handlers where they are."""
        self.server_name, self.server_port = self.address.host or "localhost", self.address.port
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Whether there is room for one more."""
        return self._slots.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start its thread."""
        try:
            super().process_request(request, client_address)
        except Exception:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A scraper that hangs up, or says nothing, is not our concern."""
        log.debug("a scrape failed: %s", sys.exc_info()[1])


class _HostServer(_Server):
    """At a host and a port."""

    def __init__(self, address: Address) -> None:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        self.address_family, *_, where = found[0]
        super().__init__(address, where[:2])
        if not ipaddress.ip_address(str(where[0]).partition("%")[0]).is_loopback:
            log.warning("metrics at %s: whoever reaches this node may read them", self.told)

    @property
    def told(self) -> str:
        """A URL."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{Address(host=host, port=port)}/metrics"


class _UnixServer(_Server):
    """At a path, for this user alone; `listener` listens there, if somebody does already."""

    address_family = socket.AF_UNIX

    def __init__(self, address: Address, listener: socket.socket | None) -> None:
        assert address.path is not None  # noqa: S101
        self._path = address.path
        self._listener = listener
        self._is_ours = False
        super().__init__(address, str(address.path))

    def server_bind(self) -> None:
        """Listen, unless somebody does."""
        self.socket.close()
        self.socket = self._listener or listen_at(self._path)
        self._is_ours = True
        self.describe()

    def get_request(self) -> tuple[Any, Any]:
        """A unix socket's client has no address; the handler wants one."""
        request, _ = super().get_request()
        return request, ("unix", 0)

    def server_activate(self) -> None:
        """It listens."""

    def server_close(self) -> None:
        """Remove the socket, which nobody answers at any more."""
        super().server_close()
        if self._is_ours:
            self._path.unlink(missing_ok=True)
