"""What traces hold, as a small table that adds up: threads, files and machines each make their own.

Adding is associative and commutative, so it does not matter who read what. Times are integers in nanoseconds,
and files whose hash another trace explains are told apart by it until :meth:`TraceTable.resolved`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ..intents.events import Tier
from ..intents.trace.rows import Amount, RowKey

MAX_ACTIVITY = 60_000
"""Rows of activity; when there are more, bins of time become twice as wide."""


class JobThread(NamedTuple):
    """A thread of the job."""

    host: str
    """Its name; its hash where no line explains that; empty where no line says it."""
    pid: int
    tid: int


class AccessKey(NamedTuple):
    """Accesses of one thread to files of one class, of sizes of one class (their bits; -1: not known)."""

    tier: str
    file_class: str
    operation: str
    thread: JobThread
    size: int


class ActivityKey(NamedTuple):
    """Accesses of one thread to a tier that began within one bin of time."""

    tier: str
    operation: str
    thread: JobThread
    bin: int


K = TypeVar("K")
W = TypeVar("W", AccessKey, ActivityKey)


class ThreadSpan(msgspec.Struct, frozen=True, array_like=True):
    """A traced call that saves or loads a checkpoint; it may lie within another one."""

    thread: JobThread
    start_s: float
    end_s: float
    kind: str
    name: str
    epoch: int | None = None
    step: int | None = None

    @property
    def pid(self) -> tuple[str, int]:
        """The process: a pid may be on several hosts."""
        return self.thread[:2]

    @property
    def tid(self) -> int:
        """The thread of its process."""
        return self.thread.tid

    def __lt__(self, other: "ThreadSpan") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int | float | str | JobThread, ...]:
        numbers = (-1 if number is None else number for number in (self.epoch, self.step))
        return (self.thread, self.start_s, self.end_s, self.kind, self.name, *numbers)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: lines = events + metadata + dropped + blank. `damage` says what could not be."""

    files: int = 0
    lines: int = 0
    bytes: int = 0
    blank: int = 0
    events: int = 0
    metadata: int = 0
    dropped: dict[str, int] = {}
    generations: dict[int, int] = {}
    damage: tuple[str, ...] = ()
    unread: int = 0
    """Files that were not read, or not to their end, because the reading was interrupted."""


class TraceTable(msgspec.Struct, frozen=True, kw_only=True):
    """All that a study needs of some traces.

    `activity` is of the tiers that have a directory, in bins of `bin_s` seconds. `places` and `hosts` are
    what the traces explain of hashes. `start_s` and `end_s` are epoch seconds of all events, 0 without.
    """

    accesses: dict[AccessKey, Amount] = {}
    activity: dict[ActivityKey, Amount] = {}
    bin_s: int = 1
    unexplained: dict[tuple[RowKey, str], Amount] = {}
    spans: tuple[ThreadSpan, ...] = ()
    places: dict[str, str] = {}
    hosts: dict[str, str] = {}
    processes: tuple[tuple[str, int], ...] = ()
    start_s: float = 0.0
    end_s: float = 0.0
    reading: Reading = Reading()

    def __add__(self, other: "TraceTable") -> "TraceTable":
        return add_tables((self, other))

    def resolved(self) -> "TraceTable":
        """Return the table of a whole job: with hashes explained as far as any trace explains them.

        What nobody explains is tier ``other``.
        """
        accesses = _renamed(self.accesses, self.hosts)
        activity = _renamed(self.activity, self.hosts)
        for (row, host), amount in self.unexplained.items():
            known = row._replace(place=self.places.get(row.place, Tier.OTHER.value))
            thread = _named(JobThread(host, row.pid, row.tid), self.hosts)
            add_row(accesses, activity, known, thread, amount, self.bin_s)
        spans = (msgspec.structs.replace(each, thread=_named(each.thread, self.hosts)) for each in self.spans)
        return msgspec.structs.replace(
            self,
            accesses=accesses,
            activity=activity,
            unexplained={},
            spans=tuple(sorted(spans)),
            processes=tuple(sorted({(self.hosts.get(host, host), pid) for host, pid in self.processes})),
        )


def add_row(  # noqa: PLR0913, PLR0917 - two sums, and what is added
    accesses: dict[AccessKey, Amount],
    activity: dict[ActivityKey, Amount],
    row: RowKey,
    thread: JobThread,
    amount: Amount,
    bin_s: int,
) -> None:
    """Add a row to the two sums that a table has of it."""
    tier, _, name = row.place.partition("/")
    _add(accesses, AccessKey(tier, name, row.op, thread, row.size), amount)
    if tier != Tier.OTHER.value:
        _add(activity, ActivityKey(tier, row.op, thread, row.bin // bin_s), amount)


def add_tables(tables: Iterable[TraceTable]) -> TraceTable:
    """Return the sum of `tables`."""
    given = list(tables)
    accesses: dict[AccessKey, Amount] = {}
    unexplained: dict[tuple[RowKey, str], Amount] = {}
    for table in given:
        for key, amount in table.accesses.items():
            _add(accesses, key, amount)
        for unknown, amount in table.unexplained.items():
            _add(unexplained, unknown, amount)
    bin_s, activity = _activity(given)
    return TraceTable(
        accesses=accesses,
        activity=activity,
        bin_s=bin_s,
        unexplained=unexplained,
        spans=tuple(sorted(span for table in given for span in table.spans)),
        places=_explained(table.places for table in given),
        hosts=_explained(table.hosts for table in given),
        processes=tuple(sorted({each for table in given for each in table.processes})),
        start_s=min((table.start_s for table in given if table.end_s > 0), default=0.0),
        end_s=max((table.end_s for table in given), default=0.0),
        reading=_readings([table.reading for table in given]),
    )


def _add(sums: dict[K, Amount], key: K, amount: Amount) -> None:
    known = sums.get(key)
    sums[key] = amount if known is None else known.plus(amount)


def _explained(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return names of hashes; of two for one hash the first in the alphabet holds, whoever comes first."""
    names: dict[str, str] = {}
    for part in parts:
        for key, name in part.items():
            names[key] = min(name, names.get(key, name))
    return names


def _activity(given: Sequence[TraceTable]) -> tuple[int, dict[ActivityKey, Amount]]:
    """Return the sum of activity in bins so wide that there are not too many rows."""
    bin_s = max((table.bin_s for table in given), default=1)
    while True:
        sums: dict[ActivityKey, Amount] = {}
        for table in given:
            factor = bin_s // table.bin_s
            for key, amount in table.activity.items():
                _add(sums, key._replace(bin=key.bin // factor) if factor > 1 else key, amount)
        if len(sums) <= MAX_ACTIVITY or bin_s >= 1 << 40:
            return bin_s, sums
        bin_s *= 2


def _readings(given: Sequence[Reading]) -> Reading:
    dropped, generations = Counter[str](), Counter[int]()
    for each in given:
        dropped.update(each.dropped)
        generations.update(each.generations)
    numbers = ("files", "lines", "bytes", "blank", "events", "metadata", "unread")
    return Reading(
        **{name: sum(getattr(each, name) for each in given) for name in numbers},
        dropped=dict(dropped),
        generations=dict(generations),
        damage=tuple(sorted(text for each in given for text in each.damage)),
    )


def _renamed(sums: Mapping[W, Amount], hosts: Mapping[str, str]) -> dict[W, Amount]:
    renamed: dict[W, Amount] = {}
    for key, amount in sums.items():
        is_hash = key.thread.host in hosts
        _add(renamed, key._replace(thread=_named(key.thread, hosts)) if is_hash else key, amount)
    return renamed


def _named(thread: JobThread, hosts: Mapping[str, str]) -> JobThread:
    return thread._replace(host=hosts.get(thread.host, thread.host))
