"""Who leads, as one daemon sees it: no socket and no clock of its own, so that every case can be played.

- The daemon that rank 0 speaks to leads, for the ranks obey it and no other.
- Until rank 0 has spoken nobody leads; the others ask the first node of the job who does.
- A leader that is silent for 5 s is lost. The next in its line (the first nodes of the job that it heard
  lately) leads then, with the state that it was sent.
- Of two leaders the one that rank 0 speaks to counts, else the later one. A leader that nobody else can reach
  goes on for rank 0 alone; when the network is whole again it says so to the nodes that it had lost.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

import msgspec

from ...intents.observe.nodes import MOST_NODES
from .messages import Address, Beat, Leadership, Reply

BEAT_S = 1.0
LOST_S = 5.0
"""So long nothing is heard of a node before it counts as lost."""
LINE = 3
"""Nodes that know to be next."""
_BEATS_PER_S = 200
"""At most so many arrive at the leader, whatever the number of nodes; those in its line beat each second."""
_CONVINCE_S = 2.0
_FORGIVE_S = 30.0


class Seen(msgspec.Struct):
    """A node that has sent a beat: when it did last, and when the last events (monotonic seconds)."""

    address: Address
    heard_s: float
    number: int = 0
    """Of the last beat with events."""
    digest_s: float | None = None
    ahead_s: float = 0.0
    """How far its clock is ahead of this one."""


@dataclass(frozen=True)
class Changed:
    """Another leadership counts from now on; `is_taken_over`: it is ours, with what the last leader sent."""

    leader: Leadership
    is_taken_over: bool = False


class Lost(NamedTuple):
    """A node that was heard of is silent."""

    host: str


class Membership:
    """One daemon among those of its job. Times are monotonic seconds, `now` epoch seconds."""

    def __init__(self, me: Address, first: Sequence[Address] = ()) -> None:
        """`first` are the first nodes of the job as they are known (:meth:`know`)."""
        self.me = me
        self.leader: Leadership | None = None
        self.contact: Address | None = None
        """The node that beats go to; None: they come to us."""
        self.nodes = 1
        """Those of the job that the leader hears, itself among them."""
        self.members: dict[str, Seen] = {}
        """Those that send beats here, in the order of their last ones."""
        self.lost: dict[str, Seen] = {}
        self.next: tuple[Address, ...] = ()
        """The next leaders, should this daemon lead and be lost, the first one first."""
        self._line: tuple[Address, ...] = ()
        self._first = tuple(first)
        self._silent_since: dict[str, float] = {}
        self._unconvinced: deque[Address] = deque()
        self._term = 0
        self._next_s = 0.0
        self._unanswered_s: float | None = None

    @property
    def is_leading(self) -> bool:
        """Return whether this daemon decides."""
        return self.leader is not None and self.leader.host == self.me.host

    @property
    def is_next(self) -> bool:
        """Return whether this daemon is first in line, and so holds the leader's state."""
        return bool(self._line) and not self.is_leading and self._line[0].host == self.me.host

    @property
    def is_searching(self) -> bool:
        """Return whether a node of the job that is not known yet might be the one to ask."""
        if self.is_leading or (self.leader is not None and self.contact is not None):
            return False
        return self.contact is None or self.contact.order > 0

    def know(self, first: Sequence[Address]) -> None:
        """Take in the first nodes of the job, in its order."""
        self._first = tuple(first)

    def spoke(self, now: float, *, begins: bool, has_state: bool) -> list[Changed]:
        """Rank 0 has spoken to this daemon: of a run that `begins`, or of one whose state we have.

        A leader that rank 0 speaks to stays one, until a run begins elsewhere.
        """
        leader = self.leader
        is_known = begins or (has_state and not (leader and leader.is_heard))
        if (self.is_leading and leader is not None and leader.is_heard) or not is_known:
            return []
        return [self.lead(now, "rank 0 speaks to this node")]

    def lead(self, now: float, why: str, *, term: int = 0, is_heard: bool = True) -> Changed:
        """Lead from now on, in the next term, or in `term` if that is later."""
        before = self.leader
        self._term = max(term, self._term + 1)
        own = Leadership(self.me, self._term, now, is_heard, why)
        self._line = ()
        self._unconvinced.extend(each for each in self._known(before) if each.host != self.me.host)
        self._next_s = 0.0
        return self._follow(own)

    def _known(self, leader: Leadership | None) -> Iterator[Address]:
        """Yield whom to ask for a leader, or to tell of one: the leader, its line, the job's first nodes."""
        found: dict[str, Address] = {}
        for each in (*([leader.address] if leader else ()), *self._line, *self._first):
            found.setdefault(each.host, each)
        yield from found.values()

    def _follow(self, leader: Leadership) -> Changed:
        self.leader, self.contact, self._unanswered_s = leader, None, None
        return Changed(leader)

    # what the others say

    def beat(self, beat: Beat, time_s: float, now: float) -> list[Changed]:
        """Take in a beat."""
        host = beat.sender.host
        seen = self.members.pop(host, None)
        if seen is None:
            seen = self.lost.pop(host, None) or Seen(beat.sender, time_s)
            self.next = _first((*(each for each in self.next if each.host != host), beat.sender))
        seen.address, seen.heard_s, seen.ahead_s = beat.sender, time_s, beat.time_s - now
        self.members[host] = seen
        self._silent_since.pop(host, None)
        self._convince(beat)
        if len(self.members) > MOST_NODES:
            del self.members[next(iter(self.members))]
        return self._hear(beat.leader, beat.sender, now)

    def reply(self, reply: Reply, now: float) -> list[Changed]:
        """Take in the reply to a beat of ours."""
        self._silent_since.pop(reply.sender.host, None)
        if self.contact is not None and reply.sender.host == self.contact.host:
            self._unanswered_s = None
        changed = self._hear(reply.leader, reply.sender, now)
        if self.leader is not None and reply.sender.host == self.leader.host:
            self._line, self.nodes = reply.line, reply.nodes
        self._convince(reply)
        return changed

    def _convince(self, said: Beat | Reply) -> None:
        """Take in that somebody follows us, who need not be told any more."""
        if self._unconvinced and said.leader is not None and said.leader.host == self.me.host:
            self._unconvinced = deque(each for each in self._unconvinced if each.host != said.sender.host)

    def _hear(self, other: Leadership | None, sender: Address, now: float) -> list[Changed]:
        """Take in whom `sender` follows, or that it leads."""
        own = self.leader
        if other is None or other.host == self.me.host:  # it has not heard of what we know
            return []
        self._term = max(self._term, other.term)
        if self.is_leading and own is not None and own.is_heard and not other.is_heard:
            if other.term < own.term:
                return []
            return [self.lead(now, "rank 0 speaks to this node")]
        return [self._follow(other)] if self._is_better(other, own, sender) else []

    def _is_better(self, other: Leadership, own: Leadership | None, sender: Address) -> bool:
        """Return whether `other`, of which `sender` speaks, counts from now on: terms only grow."""
        if other.host in self._silent_since and other.host != sender.host:
            return False
        if own is None:
            return True
        is_own_there = own.is_heard and own.host not in self._silent_since
        if is_own_there and not other.is_heard:
            return False
        return (other.term, -other.address.order, own.host) > (own.term, -own.address.order, other.host)

    # what time brings

    def tick(self, time_s: float, now: float) -> list[Changed | Lost]:
        """Return what follows from who is silent at `time_s`."""
        for host, since_s in list(self._silent_since.items()):
            if time_s - since_s > _FORGIVE_S:
                del self._silent_since[host]
        if self.is_leading:
            return list(self._lost(time_s))
        if self.contact is not None and self._is_silent(time_s):
            self._silent_since[self.contact.host] = time_s
            self.contact = None
        if self.contact is None or self._should_contact_leader():
            return self._choose(now)
        return []

    def _is_silent(self, time_s: float) -> bool:
        return self._unanswered_s is not None and time_s - self._unanswered_s > LOST_S

    def _should_contact_leader(self) -> bool:
        leader = self.leader
        if leader is None:
            first = next((each for each in self._first if each.host not in self._silent_since), None)
            return first is not None and self.contact is not None and first.place < self.contact.place
        return self.contact != leader.address and leader.host not in self._silent_since

    def _choose(self, now: float) -> list[Changed | Lost]:
        """Contact the first that is not silent; when that is this node, lead if somebody did before."""
        found = next((each for each in self._known(self.leader) if each.host not in self._silent_since), None)
        if found is None or found.host == self.me.host:
            self.contact, lost = None, self.leader
            if found is None or lost is None:
                return []
            self.lead(now, f"node {lost.host}, which led, is lost", is_heard=False)
            assert self.leader is not None  # noqa: S101
            return [Changed(self.leader, is_taken_over=True)]
        self.contact, self._unanswered_s, self._next_s = found, None, 0.0
        return []

    def _lost(self, time_s: float) -> Iterator[Lost]:
        limit_s = max(LOST_S, 3 * self.beat_s(len(self.members) + 1))
        while self.members:
            host, seen = next(iter(self.members.items()))
            if time_s - seen.heard_s <= limit_s:
                return
            self.lost[host] = self.members.pop(host)
            self._unconvinced.append(seen.address)
            if any(each.host == host for each in self.next):
                self.next = _first(each.address for each in self.members.values())
            yield Lost(host)

    def due(self, time_s: float) -> Address | None:
        """Return whom to send a beat to at `time_s`, once for each time that one is due."""
        if time_s < self._next_s:
            return None
        if self.is_leading:
            self._next_s = time_s + _CONVINCE_S
            if not self._unconvinced:
                return None
            self._unconvinced.rotate(-1)
            return self._unconvinced[-1]
        is_in_line = any(each.host == self.me.host for each in self._line)
        self._next_s = time_s + (BEAT_S if is_in_line else self.beat_s(self.nodes))
        if self.contact is not None and self._unanswered_s is None:
            self._unanswered_s = time_s
        return self.contact

    def hurry(self) -> None:
        """Let the next beat be due now."""
        self._next_s = 0.0

    @property
    def next_s(self) -> float:
        """When :meth:`due` or :meth:`tick` may have something to do."""
        return self._next_s if self._unanswered_s is None else min(self._next_s, self._unanswered_s + LOST_S)

    @staticmethod
    def beat_s(nodes: int) -> float:
        """Return the seconds between two beats of one of so many nodes."""
        return max(BEAT_S, nodes / _BEATS_PER_S)


def _first(nodes: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(nsmallest(LINE, nodes, key=lambda each: each.place))
