"""The daemon: one thread, one poller. Drain what is there (bounded), answer questions, tick."""

import gc
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cached_property
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import msgspec

from ..goodput.events import JobEnded
from ..goodput.steps.recent import RecentSteps
from ..heap import set_limits
from ..intents.events import Event, EventsLost, SettingsObserved, TraceDigest
from ..intents.pipeline import Pipeline
from ..scr_config.files import write_atomic
from .cluster.role import Role
from .control import Control
from .ingest import Ingest
from .journal.journal import Journal, apply_event
from .journal.records import JournalError, JournalReader
from .journal.snapshot import Snapshots, restore
from .lock import Lock
from .memory import JobMemory
from .monitor.monitor import Monitor
from .node.allocation import AllocationWatch
from .node.probes import Probes
from .options import LOST, READY, DaemonOptions
from .priority import CoreShare
from .settings.executor import Executor
from .signals import FOR_THE_APPLICATION, Parent, Signals, handled
from .sockets import Sockets
from .views import UNREAD, StatusView

if TYPE_CHECKING:
    from .node.observer import JobNode

log = logging.getLogger("scrtune.daemon")

_LAST_DRAIN_S = 0.25  # SIGTERM to exit stays well below a second
_SPARE_BYTES = 64 * 1024
_LAST_QUIET_S = 0.02  # what was sent before we were told to end is there within this time
_FIRST_QUIET_S = 0.2  # senders may still be connecting to a daemon that has heard nothing
_RETRY_S = 5.0
_QUESTIONS_AT_ONCE = 64  # an asker that floods us must not hold up everything else
_MESSAGES_AT_ONCE = 64  # before questions are answered and the tick may run
# digests of the trace and observations of the node become rarer with the age of the run, within these bounds
_TICK_PACE, _TICK_S = 0.01, (0.1, 2.0)
_LOOK_PACE, _LOOK_S = 0.2, (1.0, 10.0)  # 17 in the first minute, of about 2 ms each
_SNAPSHOT_WAIT_S = 0.2
_OWN_PAGES_BYTES, _KEPT_BYTES = 32 * 1024, 1024 * 1024
_ACCOUNT_AFTER_S = 5.0  # by then the application has begun: to load numpy costs as much as 50 observations


class Daemon:
    """One daemon of one job on one node.

    `clock` returns the seconds since the epoch that events are stamped with. It may jump: what has to happen
    in time goes by the monotonic clock.
    """

    def __init__(self, options: DaemonOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self.clock = clock
        self._signals = Signals()
        self._parent = Parent(options.parent)
        self._share = CoreShare()
        self.journal: Journal
        self._snapshots = Snapshots(options.paths)
        self._steps = RecentSteps()
        self.pipeline = Pipeline()
        """The state of the job on this node."""
        self._ingest = Ingest()
        self._executor = Executor(options)
        self._probes = Probes(options.paths.host)
        self._is_probe_due = options.probe
        self._allocation = AllocationWatch()
        self._memory = JobMemory(options)
        self._control: Control
        self._monitor: Monitor
        self._started_s = time.monotonic()
        self._next_tick_s = self._next_look_s = self._next_retry_s = 0.0
        self._has_account = self._has_heard = False
        self._has_news = True
        """Whether anything came since the last tick."""
        self._leave_s = float("inf")
        self._role = Role(options, self)

    def run(self) -> None:
        """Run until a signal ends it.

        Raises :class:`scrtune.daemon.lock.AlreadyRunningError`, :class:`JournalError` and
        :class:`scrtune.client.paths.RunDirectoryError`; nothing that arrives later ends it.
        """
        # else what is small and stays would lie between freed buffers, and keep tens of MiB from the system
        set_limits(own_pages_bytes=_OWN_PAGES_BYTES, kept_bytes=_KEPT_BYTES, heaps=1)
        with handled(FOR_THE_APPLICATION, signal.SIG_IGN), self._signals.watched() as signals:
            paths = self._options.paths.create()
            with closing(Lock(paths.lock)):
                if self._recover():
                    fds = [signals.fd] if self._parent.fd is None else [signals.fd, self._parent.fd]
                    with closing(Sockets(paths, *fds)) as sockets:
                        self._serve(sockets)

    def _recover(self) -> bool:
        """Go on from the journal; False when a signal came before it was read, which leaves it as it is."""
        path = self._options.paths.journal
        reader = self._restored()
        try:
            for now, event in reader:
                self._ingest.recall(event)
                apply_event(self.pipeline, event, now)  # its effects were performed when it happened
                self._monitor.observe(event, now)
                if self._signals.ending:
                    return False
        except FileNotFoundError:
            pass
        except JournalError as error:
            aside = path.with_suffix(".unreadable")
            path.replace(aside)
            log.error("%s; it lies at %s now", error, aside)
        recovered = reader.recovered
        self._ingest.recall_senders(recovered.senders)
        self.journal = Journal(path, recovered)
        if recovered.number:
            text = "recovered %d events, %d of them from the journal, generation %d"
            log.info(text, recovered.number, recovered.records, self.pipeline.advice.generation)
        if recovered.torn:
            log.warning("the journal ended in %s; it was cut there", recovered.torn)
        if recovered.damaged:
            log.warning("the journal is damaged in %d places; what is there is lost", recovered.damaged)
        self._keep_state()
        self._allocation.recall(self.pipeline.observers.allocation)
        if self.pipeline.job is not None:
            self._executor.recall(self.pipeline.advice)
            self.publish()
        return True

    def _restored(self) -> JournalReader:
        """Go on from the last snapshot; returns a reader of what came after it."""
        paths, start, number = self._options.paths, 0, 0
        if (state := restore(paths)) is not None:
            self.pipeline, self._steps = state.pipeline, state.steps
            start, number = state.end, state.number
            self._ingest.recall_senders(state.senders)
            if (job := self.pipeline.job) is not None:
                self._ingest.learn(job)
        self._control = Control(
            self.pipeline, self._executor, self._options, handle=self.handle, complete=self._complete
        )
        self._control.elsewhere = lambda: self._role.elsewhere
        self._monitor = Monitor(self._options.monitoring, self.pipeline, self._control.status, self._steps)
        return JournalReader(paths.journal, start, number)

    def _keep_state(self) -> None:
        self._snapshots.keep(self.journal, self.pipeline, self._steps, self._ingest.senders)

    def _serve(self, sockets: Sockets) -> None:
        gc.freeze()  # what is here now stays (until the first snapshot: heap.give_back): pauses are shorter
        log.info("listening on %s", self._options.paths.events_endpoint)
        self._monitor.start()
        self._reserve()
        self._role.join(sockets.poller)
        self._parent.say(READY)
        while not self._signals.ending:
            if self._parent.fd in sockets.wait(self._idle_s(time.monotonic())):
                self._hear()
            self._turn(sockets)
        self._end(sockets)

    def publish(self) -> None:
        """Publish the settings, if they are known and this daemon decides."""
        if self._role.decides and self.pipeline.job is not None:
            self._executor.publish(self.pipeline.advice, self.clock())

    def take_over(self) -> None:
        """Go on from a journal that has come from another node, as if this daemon had been killed."""
        self.journal.close()
        self._monitor.end(self.clock())
        self.pipeline, self._steps, self._snapshots = (
            Pipeline(),
            RecentSteps(),
            Snapshots(self._options.paths),
        )
        if not self._recover():  # a signal came: the rest is read by whoever needs it
            self.journal = Journal(self._options.paths.journal)
        self._ingest.hear_all_again()  # that journal knows nothing of those who speak to us
        self._executor.take_over(self.pipeline.advice)
        self._monitor.start()

    def _idle_s(self, time_s: float) -> float:
        """Return for how long to sleep unless something comes: to no tick that would find nothing to do."""
        if self._snapshots.is_due:
            return 0.0
        is_busy = self._executor.unfinished or self._probes.is_running or self._allocation.is_running
        due_s = self._next_tick_s
        if not (self._has_news or is_busy or self._options.monitoring.is_wanted):
            due_s = max(due_s, self._next_look_s) if self._role.job else time_s + _LOOK_S[1]
        return min(due_s, self._role.next_s) - time_s

    def _hear(self) -> None:
        """Take in what the parent says: that the application has ended, and then that we are to end."""
        lines = self._parent.lines()
        if lines is None:
            self._signals.ending = True
            return
        for line in lines:
            with suppress(msgspec.MsgspecError):
                self.handle(msgspec.json.decode(line, type=JobEnded))

    def _turn(self, sockets: Sockets) -> None:
        """One turn: events, questions in between, tick when it is due, journal."""
        self._answer(sockets)
        self._role.turn()
        if not self._role.is_waiting:
            for message in islice(sockets.events(), _MESSAGES_AT_ONCE):
                self._take(message, sockets)
        if time.monotonic() >= self._next_tick_s:
            self._tick(time.monotonic())
        self._flush()
        self._keep_state()

    def _take(self, message: bytes, sockets: Sockets) -> None:
        self._has_news = True
        for event in self._ingest.message(message):
            self._role.arrived(event)
            if not (self._has_heard or isinstance(event, TraceDigest | EventsLost)):  # the forwarder's
                self._has_heard = True
                self._options.paths.unheard.unlink(missing_ok=True)
            self._answer(sockets)
        while not self._late() and self._ingest.sum_up():
            self._answer(sockets)

    def _answer(self, sockets: Sockets) -> None:
        for envelope, payload in islice(sockets.questions(), _QUESTIONS_AT_ONCE):
            self._flush()  # what an answer counts is in the journal, or is counted as lost
            answer = self._control.answer(payload, self.clock())
            self._flush()  # and so is what was ordered
            sockets.answer(envelope, answer)

    def _complete(self, view: StatusView) -> StatusView:
        return msgspec.structs.replace(
            view,
            rejected=self._ingest.rejected,
            journal_lost=self.journal.lost,
            journal_error=self.journal.error,
            monitors=self._monitor.views(),
            cluster=self._role.view(),
        )

    def _late(self) -> bool:
        """Return whether a signal came so long ago that what still waits must be left."""
        if not self._signals.ending:
            return False
        self._leave_s = min(self._leave_s, time.monotonic() + _LAST_DRAIN_S)
        return time.monotonic() > self._leave_s

    def _tick(self, time_s: float) -> None:
        age_s = time_s - self._started_s
        self._next_tick_s = time_s + sorted((*_TICK_S, _TICK_PACE * age_s))[1]
        self._has_news = False
        digest = self._ingest.digest()
        if digest is not None:
            self._role.seen_here(digest)
        self._take_probes()
        # where rank 0 is: the scheduler need not be asked by every node
        is_here = self.pipeline.job is not None and self._role.decides
        if is_here and (seen := self._allocation.look(time_s, self.clock())) is not None:
            self.handle(seen)
        if time_s >= self._next_look_s:
            self._next_look_s = time_s + max(self._role.look_s, sorted((*_LOOK_S, _LOOK_PACE * age_s))[1])
            self._look(age_s)
        if self._executor.unfinished and self._role.decides and time_s >= self._next_retry_s:
            self._next_retry_s = time_s + _RETRY_S
            self._executor.publish(self.pipeline.advice, self.clock())
        self._monitor.tick(time_s, self.clock())
        self._memory.tick(time_s, self.pipeline)

    def _look(self, age_s: float) -> None:
        """Look at the config file and the node, once the application has said which processes are its own."""
        job = self._role.job
        if job is None:
            return
        self._probe_once(job, self.clock())
        self._share.tick(self.pipeline.costs[-1].interval_s if self.pipeline.costs else 0.0)
        if age_s >= _ACCOUNT_AFTER_S and self._role.decides and not self._has_account:
            self._has_account = True
            self.pipeline.account(self.clock())  # else whoever waits for our end would wait for numpy
        if self._role.decides and (edited := self._executor.file.edited()) is not None:
            self.handle(edited)
        seen = self._node.look(job)
        if seen.processes:
            self._role.seen_here(seen)

    @cached_property
    def _node(self) -> "JobNode":
        from .node.observer import JobNode  # noqa: PLC0415 - psutil: an application without SCR has no use for it

        return JobNode(self._options.paths)

    def handle(self, event: Event) -> None:
        """Take an event in, and perform what follows from it."""
        now = self.clock()
        if isinstance(event, SettingsObserved) and self.pipeline.job is None:
            event = self._executor.file.without_earlier_advice(event)
            if (recalled := self._memory.recall(event)) is not None:
                self.handle(recalled)
        self.journal.append(now, event)
        effects = apply_event(self.pipeline, event, now)
        self._monitor.observe(event, now)
        if effects:
            self._flush()  # what is published must not be forgotten when we are killed
            self._executor.perform(self._role.ours(effects), now)
        if isinstance(event, SettingsObserved):
            self._started_s, self._next_look_s = time.monotonic(), 0.0  # of this run: much is new again
            self._probe_once(event, now)
            self._allocation.ask()

    def _probe_once(self, job: SettingsObserved, now: float) -> None:
        """Start the probes of this node, unless an earlier daemon of the job has their results."""
        if not self._is_probe_due or not (job.cache or job.prefix):
            return
        self._is_probe_due = False
        seen = self.pipeline.observers
        ranks = None if seen.nodes.is_probed(self._options.paths.host) else self._node.ranks
        prefix = self._role.decides and not seen.targets
        for failed in self._probes.start(job, now, ranks, prefix=prefix):
            self._role.seen_here(failed)

    def _take_probes(self) -> None:
        for probed in self._probes.take(self.clock()):
            self._role.seen_here(probed)

    def _flush(self) -> None:
        had_room = not self.journal.error
        self.journal.flush(self.clock(), self._ingest.heard())
        if had_room and (error := self.journal.error):
            log.error("the journal cannot be written (%s); records are lost until it can", error)

    def _end(self, sockets: Sockets) -> None:
        """Take in what is there already, as far as time allows, then put everything on disk."""
        self._is_probe_due = False
        self._take_probes()
        self._probes.close()
        self._allocation.close()
        for message in sockets.events(_LAST_QUIET_S if self._ingest.messages else _FIRST_QUIET_S):
            self._take(message, sockets)
            if self._late():
                break
        if unread := self._unread(sockets):
            self.handle(EventsLost(source=UNREAD, count=unread))
        if (digest := self._ingest.digest(final=True)) is not None:
            self.handle(digest)
        if left := self._ingest.give_up():
            self.handle(EventsLost(source="trace lines that waited when the daemon ended", count=left))
        self._memory.keep(self.pipeline)
        self._options.paths.spare.unlink(missing_ok=True)
        self._flush()
        if self._snapshots.is_due:
            self._keep_state()
        self.journal.close()
        self._snapshots.wait(_SNAPSHOT_WAIT_S)
        self._monitor.end(self.clock())
        if self._parent.fd is not None:
            self._leave_status()
        self._role.close()
        log.info("ended after %d messages, %d rewrites", self._ingest.messages, self._executor.rewrites)

    def _unread(self, sockets: Sockets) -> int:
        """Return how many messages there is no time for; they are gone then."""
        if not self._late():
            return 0
        leave_s = time.monotonic() + _LAST_DRAIN_S
        unread = takewhile(lambda _: time.monotonic() < leave_s, sockets.events(_LAST_QUIET_S))
        return sum(1 for _ in unread)

    def _reserve(self) -> None:
        """Take now the room that the last status needs: the file system may be full by then."""
        if self._parent.fd is None:
            return
        with suppress(OSError), self._options.paths.spare.open("wb") as spare:
            os.posix_fallocate(spare.fileno(), 0, _SPARE_BYTES)

    def _leave_status(self) -> None:
        """Leave the last status for the parent: a journal would take longer to replay than its user waits."""
        status = msgspec.structs.replace(self._control.status(self.clock()), running=False)
        try:
            write_atomic(self._options.paths.last_status, msgspec.json.encode(status), durable=False)
        except OSError as error:
            log.error("the last status cannot be written: %s", error.strerror)
            self._parent.say(LOST + str(self.journal.lost).encode())
