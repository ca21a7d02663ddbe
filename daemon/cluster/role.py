"""Whether a daemon decides for its job, and what follows when that changes. One alone always does."""

import logging
import time
from typing import TYPE_CHECKING

import zmq

from ...goodput.events import OutputCompleted
from ...intents.effects import Effect, RewriteConfig
from ...intents.events import Event, LeaderChanged, SettingsObserved
from ..options import DaemonOptions
from ..views import ClusterView

if TYPE_CHECKING:
    from ..loop import Daemon
    from .cluster import Cluster
    from .lead import Changed

log = logging.getLogger("scrtune.daemon")


class Role:
    """A daemon's role among those of its job."""

    def __init__(self, options: DaemonOptions, daemon: "Daemon") -> None:
        self._options, self._daemon = options, daemon
        self._cluster: Cluster | None = None
        self._waiting: list[Event] = []
        self.decides = options.cluster is None
        """Whether this daemon is the one of the job that decides."""

    @property
    def elsewhere(self) -> str:
        """The node that decides, if that is another one and known, else empty."""
        return "" if self.decides or self._cluster is None else self._cluster.leader

    @property
    def job(self) -> SettingsObserved | None:
        """The job, as its rank 0 or the leader has described it."""
        return self._daemon.pipeline.job if self.decides or self._cluster is None else self._cluster.job

    @property
    def is_waiting(self) -> bool:
        """Return whether what rank 0 has said waits for the state of the leader before this one."""
        return bool(self._waiting)

    @property
    def look_s(self) -> float:
        """The least seconds between two looks at this node."""
        return self._cluster.look_s if self._cluster else 0.0

    @property
    def next_s(self) -> float:
        """When :meth:`turn` may have something to do though nothing came, in monotonic seconds."""
        return self._cluster.next_s if self._cluster else float("inf")

    def view(self) -> ClusterView | None:
        """Return who leads and who is there; None without other nodes."""
        return self._cluster.view(time.monotonic()) if self._cluster else None

    def ours(self, effects: list[Effect]) -> list[Effect]:
        """Return the effects that are this daemon's to perform: one daemon of a job publishes settings."""
        return effects if self.decides else [e for e in effects if not isinstance(e, RewriteConfig)]

    def join(self, poller: zmq.Poller) -> None:
        """Join the daemons of the job's other nodes, if it has any; lead again if this one did."""
        if self._options.cluster is None:
            return
        from .cluster import joined  # noqa: PLC0415 - a job of one node has no use for it

        self._cluster = joined(self._options.cluster, self._options.paths, poller)
        if self._cluster is None:
            self.decides = True
            self._daemon.publish()
        elif self._led_last:
            term = self._daemon.pipeline.leaders[-1].term
            for changed in self._cluster.resume(term, self._daemon.clock()):
                self._follow(self._cluster, changed)

    @property
    def _led_last(self) -> bool:
        leaders = self._daemon.pipeline.leaders
        return bool(leaders) and leaders[-1].host == self._options.paths.host

    def turn(self) -> None:
        """Take in what the other nodes say, and what follows from their silence."""
        if (cluster := self._cluster) is None:
            return
        cluster.journal_version = self._daemon.journal.version
        for news in cluster.turn(time.monotonic(), self._daemon.clock()):
            if isinstance(news, Event):
                self._daemon.handle(news)
            else:
                self._follow(cluster, news)
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.arrived(event)

    def arrived(self, event: Event) -> None:
        """Take in what a process of this node says: what rank 0 does makes this node the leader."""
        if (cluster := self._cluster) is None:
            self._daemon.handle(event)
            return
        if isinstance(event, SettingsObserved | OutputCompleted) and not self._waiting:
            changed = cluster.heard(
                begins=isinstance(event, SettingsObserved),
                has_state=self._daemon.pipeline.job is not None,
                led_last=self._led_last,
                time_s=time.monotonic(),
                now=self._daemon.clock(),
            )
            for each in changed:
                self._follow(cluster, each)
        if cluster.is_waiting:
            self._waiting.append(event)
            return
        self.seen_here(event)
        if isinstance(event, SettingsObserved):
            self._describe(cluster)

    def seen_here(self, event: Event) -> None:
        """Handle what was seen on this node, and let the leader know."""
        if self._cluster is not None:
            self._cluster.tell(event)
        self._daemon.handle(event)

    def _follow(self, cluster: "Cluster", changed: "Changed") -> None:
        """Another node leads from now on, or this one, with what the last leader had sent it."""
        if changed.is_taken_over and cluster.take_over():
            self._daemon.take_over()
        leader, known = changed.leader, self._daemon.pipeline.leaders
        self.decides = cluster.is_leading
        log.info("term %d: node %s leads, because %s", leader.term, leader.host, leader.why)
        if not known or (known[-1].host, known[-1].term) != (leader.host, leader.term):
            self._daemon.handle(LeaderChanged(host=leader.host, term=leader.term, why=leader.why))
        self._describe(cluster)
        self._daemon.publish()

    def _describe(self, cluster: "Cluster") -> None:
        if self.decides and (job := self._daemon.pipeline.job) is not None:
            cluster.describe(job)

    def close(self) -> None:
        """Leave the others."""
        if self._cluster is not None:
            self._cluster.close()
