"""A daemon as one of its job's: beats to the leader with what this node has seen, and what follows.

The loop calls :meth:`Cluster.turn`; what it yields is to be done, in order. A job on one node has none of it.
"""

import logging
import os
import resource
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec
import zmq

from ...client.paths import JobPaths
from ...client.transport import wire
from ...intents.events import (
    Event,
    EventsLost,
    NodeLeft,
    NodeObserved,
    SettingsObserved,
    StorageProbed,
    TraceDigest,
)
from ..ingest import Ingest
from ..options import ClusterOptions
from ..views import ClusterView, MemberView
from .keys import KeyFileError, job_keys
from .lead import Changed, Lost, Membership
from .link import Link
from .messages import CLUSTER_VERSION, Address, Beat, MessageError, Reply, decode, encode
from .mirror import Mirror, next_part
from .peers import Peers, PeersError

log = logging.getLogger("scrtune.daemon")

_LOOKS_PER_S = 50
"""Looks at nodes that a leader takes in and writes down, whatever the number of nodes."""
_SEARCH_S = 2.0
_STATE_LIMIT_S = 10.0
"""So long rank 0 waits to be heard where another node leads, for what that one knows, or its successor."""
_MOST_PENDING = 36
_MOST_SHOWN = 1024
_SKEW_S = 5.0
_MOST_BEATS_AT_ONCE = 256

NodeEvent = TraceDigest | NodeObserved | StorageProbed | EventsLost
"""What a node says of itself; of anything else another node's word does not count."""


class Cluster:
    """One daemon's part in its job's."""

    def __init__(self, options: ClusterOptions, paths: JobPaths, poller: zmq.Poller) -> None:
        """Raises OSError, :class:`PeersError` and :class:`zmq.ZMQError` when this node must go on alone."""
        self._paths = paths
        self._peers = Peers(options.directory, options.peers, paths.host, os.environ)
        self._link = _listening(self._peers, options, poller)
        self._me = self._peers.announce(self._link.endpoint)
        self._members = Membership(self._me, self._peers.first())
        self._mirror = Mirror(paths)
        self._ingest = Ingest(others_heard=True)  # an earlier leader did
        self._contact: Address | None = None
        self._pending: list[NodeEvent] = []
        self._unanswered: tuple[int, bytes] = (0, b"")
        self._sequence = self._lost_events = 0
        self._beats = self._beat_bytes = 0
        self._problems: Counter[str] = Counter()
        self._skewed: set[str] = set()
        self._next_search_s = 0.0
        self._state_until_s: float | None = None
        self._has_all = False
        self.job: SettingsObserved | None = None
        """The job as the leader told it; at the leader: as it is told."""
        self._job_key = 0
        self._processes: dict[str, list[tuple[str, int]]] = {}
        self.journal_version = ""
        """What tells this daemon's journal from the one that it was before it was packed."""

    @property
    def is_leading(self) -> bool:
        """Return whether this daemon decides for the job."""
        return self._members.is_leading

    @property
    def leader(self) -> str:
        """The node that decides; empty while none is known."""
        return self._members.leader.host if self._members.leader else ""

    @property
    def look_s(self) -> float:
        """The least seconds between two looks at a node."""
        return max(self._members.nodes, len(self._members.members)) / _LOOKS_PER_S

    @property
    def next_s(self) -> float:
        """When a turn is due though nothing came, in monotonic seconds."""
        return self._members.next_s if self._members.contact or self.is_leading else self._next_search_s

    @property
    def is_waiting(self) -> bool:
        """Return whether what rank 0 says must wait for the state of the leader before us."""
        return self._state_until_s is not None

    # what this node has seen

    def resume(self, term: int, now: float) -> Iterator[Changed]:
        """Lead again: this daemon did when it ended."""
        yield self._members.lead(now, "it led before it was started again", term=term)

    def describe(self, job: SettingsObserved) -> None:
        """Tell the others of the job that rank 0 has described."""
        self._processes = {}
        for process in job.processes:
            self._processes.setdefault(process[0], []).append(process)
        self.job = msgspec.structs.replace(
            job, settings={}, sources={}, mutability={}, advised={}, processes=()
        )
        self._job_key = zlib.crc32(msgspec.msgpack.encode((self.job, job.processes))) or 1

    def tell(self, event: Event) -> None:
        """Send what was seen on this node to the leader, with the next beat."""
        if self.is_leading or not isinstance(event, NodeEvent):
            return
        if isinstance(event, NodeObserved):  # an earlier look says nothing that this one does not
            self._pending = [each for each in self._pending if not isinstance(each, NodeObserved)]
        self._pending.append(event)
        if len(self._pending) > _MOST_PENDING:
            del self._pending[0]
            self._lost_events += 1

    def heard(
        self, *, begins: bool, has_state: bool, led_last: bool, time_s: float, now: float
    ) -> list[Changed]:
        """Rank 0 has spoken to this daemon (:meth:`.lead.Membership.spoke`); `led_last` before it ended.

        Where another node leads, the state of that one comes first: see :attr:`is_waiting`.
        """
        leader = self._members.leader
        if begins and leader is not None and not self.is_leading:
            if self._state_until_s is None:
                self._state_until_s, self._has_all = time_s + _STATE_LIMIT_S, False
                self._members.hurry()
            if time_s < self._state_until_s and not self._has_all:
                return []
        self._state_until_s = None
        changed = self._members.spoke(now, begins=begins, has_state=has_state)
        if not changed and leader is not None and not self.is_leading:
            self._problem("events of an application whose rank 0 another node does not hear")
        is_taken_over = self._mirror.is_there and not led_last
        return [Changed(each.leader, is_taken_over=is_taken_over) for each in changed]

    def take_over(self) -> bool:
        """Put the last leader's journal in the place of ours; False when there is none."""
        return self._mirror.install()

    # the others

    def turn(self, time_s: float, now: float) -> Iterator[Changed | Event]:
        """Hear the others, and send what is due; yields what is to be done, in order."""
        yield from self._hear(time_s, now)
        if time_s >= self._next_search_s and self._members.is_searching:
            self._next_search_s = time_s + _SEARCH_S
            self._members.know(self._peers.first())
        for news in self._members.tick(time_s, now):
            if isinstance(news, Lost):
                log.warning("node %s is silent: what it said of itself counts no longer", news.host)
                self._problem("nodes that were lost")
                yield NodeLeft(host=news.host)
            else:
                yield self._changed(news)
        if (target := self._members.due(time_s)) is not None:
            self._beat(target, now)

    def _changed(self, news: Changed) -> Changed:
        self._has_all = False
        if news.is_taken_over and not self._mirror.is_there:
            return Changed(news.leader)
        return news

    def _hear(self, time_s: float, now: float) -> Iterator[Changed | Event]:
        for count, (peer, data) in enumerate(self._link.beats(), 1):
            self._beats, self._beat_bytes = self._beats + 1, self._beat_bytes + len(data)
            try:
                beat = decode(Beat, data, self._paths.job_id)
            except MessageError as error:
                self._problem(str(error))
                self._link.answer(peer, encode(self._reply()))  # its own version is what that one reads of it
                continue
            yield from map(self._changed, self._members.beat(beat, time_s, now))
            yield from self._events(beat)
            self._link.answer(peer, encode(self._reply(beat)))
            if count >= _MOST_BEATS_AT_ONCE:
                break
        for data in self._link.replies():
            try:
                reply = decode(Reply, data, self._paths.job_id)
            except MessageError as error:
                self._problem(str(error))
                continue
            yield from map(self._changed, self._members.reply(reply, now))
            self._take(reply)

    def _events(self, beat: Beat) -> Iterator[Event]:
        """Yield what a node has seen, once, if this daemon leads."""
        seen = self._members.members[beat.sender.host]
        if abs(seen.ahead_s) > _SKEW_S and beat.sender.host not in self._skewed:
            self._skewed.add(beat.sender.host)
            log.warning("the clock of node %s differs by %.0f s", beat.sender.host, seen.ahead_s)
            self._problem(f"nodes whose clock differs by more than {_SKEW_S:.0f} s")
        if not self.is_leading or not beat.events or beat.number <= seen.number:
            return
        seen.number, seen.digest_s = beat.number, seen.heard_s
        for event in self._ingest.message(beat.events):
            if (
                not isinstance(event, NodeEvent)
                or getattr(event, "host", seen.address.host) != seen.address.host
            ):
                self._problem("events of a node that are not its own to tell")
            else:
                yield event

    def _reply(self, beat: Beat | None = None) -> Reply:
        """Return the answer to `beat`, or to what was none."""
        reply = Reply(CLUSTER_VERSION, self._paths.job_id, self._me, self._members.leader)
        if beat is None or not self.is_leading:
            return reply
        job, host = self.job, beat.sender.host
        if job is not None and beat.job_key == self._job_key:
            job = None
        elif job is not None:
            job = msgspec.structs.replace(job, processes=tuple(self._processes.get(host, ())[:1024]))
        part = None
        if beat.holding is not None:
            part = next_part(self._paths, self.journal_version, beat.holding)
        return msgspec.structs.replace(
            reply,
            number=beat.number,
            line=self._members.next,
            nodes=len(self._members.members) + 1,
            job_key=self._job_key,
            job=job,
            part=part,
            has_all=beat.holding is not None and part is None,
        )

    def _take(self, reply: Reply) -> None:
        """Take in what a reply says beside who leads."""
        if reply.leader is None or reply.leader.host != reply.sender.host or self.is_leading:
            return
        if reply.number == self._unanswered[0]:
            self._unanswered = (self._unanswered[0], b"")
        self._job_key = reply.job_key
        if reply.job is not None:
            self.job = reply.job
        if reply.part is not None:
            self._mirror.write(reply.part)
            self._members.hurry()
        self._has_all = reply.has_all

    def _beat(self, target: Address, now: float) -> None:
        if target != self._contact:
            self._contact = target
            self._link.contact(target.endpoint)
        number, events = self._unanswered
        if not events and (self._pending or self._lost_events) and not self.is_leading:
            number, events = self._unanswered = (number + 1, self._packed())
        needs_state = self._members.is_next or self.is_waiting
        beat = Beat(
            CLUSTER_VERSION,
            self._paths.job_id,
            self._me,
            now,
            self._members.leader,
            number,
            events,
            self._job_key if self.job is not None else 0,
            self._mirror.holding if needs_state and not self.is_leading else None,
        )
        self._link.send(encode(beat))

    def _packed(self) -> bytes:
        lost = self._lost_events
        source = f"node:{self._me.host}: digests that waited for a leader"
        events: Iterable[NodeEvent] = [
            *self._pending,
            *([EventsLost(source=source, count=lost)] if lost else ()),
        ]
        packed = wire.encode(sender=f"node:{self._me.host}", sequence=self._sequence, events=events)
        self._sequence += 1
        self._pending, self._lost_events = [], 0
        return packed

    def _problem(self, what: str) -> None:
        if not self._problems[what]:
            log.warning("between the nodes: %s", what)
        self._problems[what] += 1

    # what is shown

    def view(self, time_s: float) -> ClusterView:
        """Return who leads, and who is there as far as this node knows."""
        leader = self._members.leader
        heard, lost = self._members.members, self._members.lost
        members = sorted({**heard, **lost}.items())[:_MOST_SHOWN] if self.is_leading else []
        rejected = Counter({f"between nodes: {why}": count for why, count in self._ingest.rejected.items()})
        return ClusterView(
            leader=self.leader,
            term=leader.term if leader else 0,
            since_s=leader.since_s if leader else 0.0,
            why=leader.why if leader else "",
            is_heard=leader.is_heard if leader else False,
            next_in_line=next((each.host for each in self._members.next), "") if self.is_leading else "",
            members=tuple(
                MemberView(
                    host=host,
                    age_s=time_s - seen.heard_s,
                    digest_age_s=None if seen.digest_s is None else time_s - seen.digest_s,
                    is_lost=host in lost,
                    ahead_s=seen.ahead_s,
                )
                for host, seen in members
            ),
            beats=self._beats,
            beat_bytes=self._beat_bytes,
            problems=dict(self._problems + self._link.refused + rejected),
        )

    def close(self) -> None:
        """Leave the others; a daemon that is killed leaves its name behind, and finds its port by that."""
        self._peers.leave(self._me)
        self._link.close()


def _listening(peers: Peers, options: ClusterOptions, poller: zmq.Poller) -> Link:
    """Return the sockets: at the port that this node had before, else at any that is free."""
    keys = job_keys(options.directory)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # each other node is a connection at the leader
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    address, port = peers.listens_at
    if port and not options.peers:
        with suppress(zmq.ZMQError):
            return Link(address, port, keys, poller)
        port = 0
    return Link(address, port, keys, poller)


def joined(options: ClusterOptions | None, paths: JobPaths, poller: zmq.Poller) -> Cluster | None:
    """Return this daemon's part among its job's, None in a job of one node.

    Where that cannot be had, this node goes on alone, and says so.
    """
    if options is None:
        return None
    try:
        return Cluster(options, paths, poller)
    except (KeyFileError, PeersError, OSError, zmq.ZMQError) as error:
        log.warning("%s. This node's daemon goes on alone: what it sees is not told to the others.", error)
        return None
