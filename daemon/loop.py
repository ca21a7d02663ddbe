"""The daemon: one thread, one poller. Drain what is there (bounded), answer questions, tick."""

import logging
import time
from collections.abc import Callable

from ..intents.events import Event
from ..intents.pipeline import Pipeline
from .control import Control
from .execute import Executor
from .ingest import Ingest
from .journal import Journal, JournalError, recover
from .node import NodeObserver
from .options import DaemonOptions
from .process import Lock, Signals
from .sockets import Sockets

log = logging.getLogger("scrtune.daemon")

_LAST_DRAIN_S = 0.25  # SIGTERM to exit stays well below a second
_RETRY_S = 5.0


class Daemon:
    """One daemon of one job on one node. The clock is the caller's: seconds since the epoch."""

    def __init__(self, options: DaemonOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._pipeline = Pipeline()
        self._ingest = Ingest()
        self._executor = Executor(options)
        self._node = NodeObserver(options.paths.host)
        self._journal: Journal
        self._control = Control(self._pipeline, self._ingest, self._executor, options)
        self._next_tick_s = self._next_look_s = self._next_retry_s = 0.0

    def run(self) -> None:
        """Run until a signal ends it.

        Raises :class:`scrtune.daemon.process.AlreadyRunningError`, :class:`JournalError` and
        :class:`scrtune.client.paths.RunDirectoryError`; nothing that arrives later ends it.
        """
        paths = self._options.paths.create()
        lock = Lock(paths.lock)
        try:
            self._recover()
            with Signals().watched() as signals, Sockets(paths, signals.fd) as sockets:
                log.info("listening on %s", paths.events_endpoint)
                while not signals.ending:
                    sockets.wait(self._next_tick_s - self._clock())
                    self._turn(sockets)
                self._end(sockets)
        finally:
            lock.release()

    def _recover(self) -> None:
        path = self._options.paths.journal
        if not path.exists():
            self._journal = Journal(path)
            return
        try:
            recovered = recover(path, self._pipeline)
        except JournalError as error:
            aside = path.with_suffix(".unreadable")
            path.replace(aside)
            log.error("%s; it lies at %s now", error, aside)
            self._journal = Journal(path)
            return
        self._journal = Journal(path, keep=recovered.end)
        log.info(
            "recovered %d records from the journal, generation %d",
            recovered.records,
            self._pipeline.advice.generation,
        )
        if recovered.torn:
            log.warning("the journal ended in %s; it was cut there", recovered.torn)
        if self._pipeline.job is not None:
            self._ingest.learn(self._pipeline.job)
            self._executor.publish(self._pipeline.advice)

    def _turn(self, sockets: Sockets) -> None:
        """One turn: events, questions in between, tick when it is due, journal."""
        self._answer(sockets)
        for count, message in enumerate(sockets.events(), start=1):
            self._take(message)
            self._answer(sockets)
            if count >= self._options.drain_limit:
                break
        now = self._clock()
        if now >= self._next_tick_s:
            self._tick(now)
        self._journal.flush(now)
        self._control.journal_lost = self._journal.lost

    def _take(self, message: bytes) -> None:
        for event in self._ingest.message(message):
            self._handle(event)

    def _answer(self, sockets: Sockets) -> None:
        for envelope, payload in sockets.questions():
            sockets.answer(envelope, self._control.answer(payload, self._clock()))

    def _tick(self, now: float) -> None:
        self._next_tick_s = now + self._options.tick_s
        digest = self._ingest.digest()
        if digest is not None:
            self._handle(digest)
        if now >= self._next_look_s:
            self._next_look_s = now + self._options.look_s
            self._look()
        if self._executor.last_failure and now >= self._next_retry_s:
            self._next_retry_s = now + _RETRY_S
            self._executor.publish(self._pipeline.advice)

    def _look(self) -> None:
        """Look at the node, once the application has said which processes are its own."""
        job = self._pipeline.job
        if job is None:
            return
        pids = [pid for host, pid in job.processes if host == self._options.paths.host]
        seen = self._node.look(pids, job.cache)
        if seen.processes:
            self._handle(seen)

    def _handle(self, event: Event) -> None:
        now = self._clock()
        self._journal.append(now, event)
        self._executor.perform(self._pipeline.handle(event, now))

    def _end(self, sockets: Sockets) -> None:
        """Take in what is there already, then put everything on disk."""
        until_s = self._clock() + _LAST_DRAIN_S
        for message in sockets.events():
            self._take(message)
            if self._clock() > until_s:
                break
        if (digest := self._ingest.digest(final=True)) is not None:
            self._handle(digest)
        self._journal.flush(self._clock())
        self._journal.close()
        log.info("ended after %d messages, %d rewrites", self._ingest.messages, self._executor.rewrites)
