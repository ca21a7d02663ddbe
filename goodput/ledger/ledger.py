"""Where every second of a job went: each second since its first event lies in exactly one bucket.

A function of the set of events (`derivation.py`), in whole nanoseconds; `docs/goodput.md` has the
definitions.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from .. import buckets
from ..buckets import BUCKETS, FLUSH_SLOWDOWN, PRODUCTIVE, STEP_SLOWDOWN, TUNING, Codes
from ..events import GoodputEvent, JobEnded, NodeFailed, OutputCompleted, Recovered
from ..job_events import JobEvents
from .launches import NS, number_of, to_ns

if TYPE_CHECKING:
    from .derivation import Limits
    from .history import LedgerHistory

REMEMBERED = 262_144
"""How many claims a ledger keeps by default: about 25 MB."""

_SOURCES = {
    FLUSH_SLOWDOWN: (PRODUCTIVE,),
    TUNING: (
        buckets.CHECKPOINT_WAIT,
        buckets.CHECKPOINT_WRITE,
        buckets.CHECKPOINT_ENCODE,
        buckets.CHECKPOINT_FLUSH,
        buckets.CHECKPOINT_OTHER,
        FLUSH_SLOWDOWN,
    ),
}
"""From which buckets charges are taken: those that background flushes, and trials, make larger."""

CHARGED = tuple(_SOURCES)
"""What is charged: estimates over many checkpoints."""

_LOOK_EVERY = 8192
_COUNTED = 65_536


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What the time from `start_s` to `end_s` (epoch seconds) was spent on; `buckets` sums to `wall_s`."""

    start_s: float
    end_s: float
    wall_s: float
    buckets: dict[str, float]

    @property
    def goodput(self) -> float:
        """Productive time as a share of the window, 0 to 1."""
        return self.buckets[PRODUCTIVE] / self.wall_s if self.wall_s > 0 else 0.0


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a ledger at one moment; `buckets` sums to `wall_s`. No bucket is ever negative.

    `steps` counts each once. `checkpoints` are SCR's valid ones, else saves with both ends.
    `data_loading_async_s` is no bucket: it ran beside the steps. Borders between buckets may be off by
    `skew_s`, by which clocks differ.
    """

    wall_s: float
    buckets: dict[str, float]
    steps: int = 0
    checkpoints: int = 0
    runs: int = 0
    recoveries: int = 0
    node_failures: int = 0
    start_s: float = 0.0
    data_loading_async_s: float = 0.0
    skew_s: float = 0.0

    @property
    def goodput(self) -> float:
        """Productive time as a share of the wall time, 0 to 1."""
        return self.buckets[PRODUCTIVE] / self.wall_s if self.wall_s > 0 else 0.0


class Ledger:
    """Accounts for one job over all its runs. Times come with the events; there is no clock here.

    About `remembered` claims are kept (None: all), and what older ones came to is settled.
    """

    def __init__(self, remembered: int | None = REMEMBERED, limits: "Limits | None" = None) -> None:
        self._remembered, self._limits = remembered, limits
        self._codes = Codes()
        self._pending, self._unread = JobEvents(), 0
        self._history: LedgerHistory | None = None
        self._charged_ns = dict.fromkeys(CHARGED, 0)
        self._outputs, self._brought_back, self._failures = _Counted(), _Counted(), _Counted()
        self._knows_scr = False

    def handle(self, event: GoodputEvent) -> None:
        """Take one event in. Its times must be finite (:func:`scrtune.goodput.validation.defect`)."""
        self._pending.add(event)
        self._look_now_and_then(1)

    def extend(self, events: Iterable[GoodputEvent]) -> None:
        """Take many events in: the same as :meth:`handle` for each, and columns as they are."""
        if isinstance(events, JobEvents):
            self._pending.update(events)
            self._look_now_and_then(len(events))
        else:
            for event in events:
                self.handle(event)

    def charge(self, bucket: str, seconds: float) -> None:
        """Move `seconds`, or back, to `bucket` (:data:`CHARGED`): estimates, of which only the sum counts."""
        self._charged_ns[bucket] += to_ns(seconds)

    @property
    def charges(self) -> dict[str, float]:
        """What was charged so far: seconds by bucket."""
        return {bucket: charged_ns / NS for bucket, charged_ns in self._charged_ns.items()}

    @property
    def is_silent(self) -> bool:
        """Return whether there are no events but ends of runs: then no time was spent on anything."""
        others = self._pending.others
        are_ends = len(others) == self._unread and all(isinstance(each, JobEnded) for each in others)
        return self._history is None and are_ends

    def account(self, now: float, *, reference_step_s: float | None = None) -> Account:
        """Return where the time went until `now` (its end); `step_slowdown` is beyond `reference_step_s`."""
        history = self._all()
        derived = history.derived
        if derived.first > derived.last:
            return Account(wall_s=0.0, buckets=dict.fromkeys(BUCKETS, 0.0))
        end_ns = derived.end_at(to_ns(now))
        row = self._row(history, (derived.first, end_ns), end_ns, reference_step_s)
        return Account(
            wall_s=(end_ns - derived.first) / NS,
            buckets=self._named(row),
            steps=derived.steps,
            checkpoints=self._outputs.count if self._knows_scr else derived.saves()[0],
            runs=len(derived.runs),
            recoveries=self._brought_back.count,
            node_failures=self._failures.count,
            start_s=derived.first / NS,
            data_loading_async_s=row[self._codes[buckets.ASYNC_LOADING]] / NS,
            skew_s=derived.skew / NS,
        )

    def window(
        self, start_s: float, end_s: float, now: float, *, reference_step_s: float | None = None
    ) -> Window:
        """Return where the time from `start_s` to `end_s` went, as far as it lies within the job's.

        Windows that follow each other add up to the account, but for `step_slowdown`, which is of the
        window's own steps and never below 0. Charges are shared out by the time that they are taken from.
        """
        history = self._all()
        derived = history.derived
        if derived.first > derived.last:
            return Window(start_s=start_s, end_s=start_s, wall_s=0.0, buckets=dict.fromkeys(BUCKETS, 0.0))
        last_ns = derived.end_at(to_ns(now))
        begin_ns = min(max(to_ns(start_s), history.begin), last_ns)
        end_ns = min(max(to_ns(end_s), begin_ns), last_ns)
        row = self._row(history, (begin_ns, end_ns), last_ns, reference_step_s)
        return Window(
            start_s=begin_ns / NS,
            end_s=end_ns / NS,
            wall_s=(end_ns - begin_ns) / NS,
            buckets=self._named(row),
        )

    def are_wasted(self, begun_s: Sequence[float], number: Sequence[int]) -> list[bool]:
        """Return which of the steps with these numbers, begun at these times, were computed again later."""
        return self._all().are_wasted(begun_s, number)

    def _all(self) -> "LedgerHistory":
        """Return all facts."""
        from .derivation import Limits  # noqa: PLC0415 - numpy: who never asks shall not pay for it
        from .history import LedgerHistory  # noqa: PLC0415

        if self._history is None:
            self._history = LedgerHistory(self._codes, self._remembered, self._limits or Limits())
        if self._unread:
            for event in self._pending.others:
                self._count(event)
            pending, self._pending, self._unread = self._pending, JobEvents(), 0
            self._history.take(pending)
        return self._history

    def _look_now_and_then(self, more: int) -> None:
        """Events must not pile up while nobody asks."""
        self._unread += more
        if self._unread >= _LOOK_EVERY and self._remembered is not None:
            self._all()

    def _count(self, event: GoodputEvent) -> None:
        match event:
            case OutputCompleted():
                self._knows_scr = True
                if event.checkpoint and event.valid:
                    self._outputs.add((event.dataset, event.start_s, event.end_s))
            case Recovered() if event.valid:
                self._brought_back.add((event.kind, event.dataset, event.start_s, event.end_s))
            case NodeFailed():
                self._failures.add((event.node, event.time_s))

    def _row(
        self, history: "LedgerHistory", span: tuple[int, int], last_ns: int, reference_step_s: float | None
    ) -> list[int]:
        """Return nanoseconds by code within a span of the job, which lasts until `last_ns`."""
        codes, whole = self._codes, history.spent(last_ns)
        early, late = (self._with_charges(history.spent(time_ns), list(whole)) for time_ns in span)
        row = [until - before for before, until in zip(early, late, strict=True)]
        if reference_step_s is not None:
            before, until, all_made = map(history.steps_made, (*span, last_ns))
            reference_ns = to_ns(reference_step_s) * history.derived.steps
            if until - before < all_made:
                reference_ns = reference_ns * max(0, until - before) // all_made
            productive = codes[PRODUCTIVE]
            slow_ns = row[productive] - reference_ns
            _reallocate(row, list(row), codes[STEP_SLOWDOWN], [productive], slow_ns)
        return row

    def _with_charges(self, row: list[int], whole: list[int]) -> list[int]:
        """Return `row` with its share of what was charged to the `whole` job."""
        for bucket, sources in _SOURCES.items():
            codes = [self._codes[source] for source in sources]
            _reallocate(row, whole, self._codes[bucket], codes, self._charged_ns[bucket])
        return row

    def _named(self, row: list[int]) -> dict[str, float]:
        """Return seconds by bucket: all of ours, and those of the user's that have any."""
        codes = self._codes
        names = [*BUCKETS, *(name for name in codes.custom if row[codes[name]])]
        return {name: row[codes[name]] / NS for name in names}


class _Counted:
    """How many different events came; of those that come again long afterwards, it cannot say."""

    def __init__(self) -> None:
        self.count = 0
        self._recent: dict[int, None] = {}
        """Numbers, which take a fifth of the room of names and times, and leave no gaps when they go."""

    def add(self, thing: tuple[object, ...]) -> None:
        if (number := number_of(repr(thing))) in self._recent:
            return
        self.count += 1
        self._recent[number] = None
        if len(self._recent) > _COUNTED:
            del self._recent[next(iter(self._recent))]


def _reallocate(row: list[int], whole: list[int], bucket: int, sources: list[int], wanted_ns: int) -> None:
    """Move `wanted_ns` of the whole from `sources` to `bucket`, as far as they go, and of `row` its share."""
    there_ns = sum(whole[source] for source in sources)
    reallocated_ns = min(max(0, wanted_ns), there_ns)
    for source in sources:
        if part_ns := reallocated_ns * whole[source] // there_ns if there_ns else 0:
            share_ns = part_ns * row[source] // whole[source]
            row[bucket] += share_ns
            row[source] -= share_ns
            whole[bucket] += part_ns
            whole[source] -= part_ns
