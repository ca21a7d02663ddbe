"""The rules of ml-goodput-measurement 0.2.3 over our events: the policy ``compat``.

The numbers are that library's, its faults included (`docs/goodput-compat.md` lists them): who compares must
get what was got before. Events are taken in their order of arrival, as there, or of their times where that is
all that is known; the writer of an event does not matter. They become columns (:mod:`.table`), which the
rules are worked out over (:mod:`.columns`).
"""

from collections.abc import Iterable

import msgspec

from ...events import GoodputEvent
from ..goodput_utils import BadputTimes, BadputType


class CompatError(ValueError):
    """These events have no goodput by the peer's rules; the text says what is wrong with them."""


class CompatAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer's rules make of a job. Times in seconds.

    `badput_s` need not sum to what `total_s` has left beside `productive_s`: ``DATA_LOADING_ASYNC`` overlaps
    with steps, and ``OTHER`` is never below 0. `max_productive_step` is the last step that counts,
    `last_step` the last one that was recorded. `excluded_s` is no part of the total.
    """

    total_s: float
    productive_s: float
    badput_s: BadputTimes
    max_productive_step: int = 0
    last_step: int = 0
    disruptions: int = 0
    elastic: bool = False
    excluded_s: float = 0.0

    @property
    def goodput_percent(self) -> float:
        """Productive time as percent of the total."""
        return self.productive_s / self.total_s * 100

    def breakdown(self) -> BadputTimes:
        """Return badput as percent of the total; what takes the whole of it counts as 0, as it does there."""
        percent: BadputTimes = {}
        for badput in BadputType:
            if badput.name.startswith("ELASTIC") and not self.elastic:
                continue
            spent_s = self.badput_s.get(badput, {} if badput is BadputType.CUSTOM_BADPUT_EVENTS else 0.0)
            if isinstance(spent_s, dict):
                percent[badput] = {name: self._percent(part_s) for name, part_s in spent_s.items()}
            else:
                percent[badput] = self._percent(spent_s)
        return percent

    def _percent(self, spent_s: float) -> float:
        return spent_s / self.total_s * 100 if 0 < spent_s < self.total_s else 0.0


def compat_account(events: Iterable[GoodputEvent], now: float, *, elastic: bool = False) -> CompatAccount:
    """Account for a job until its last end, or until `now` (epoch seconds) if it never ended.

    The clock starts at the first :class:`~.events.JobStarted`. With `elastic`, the waits and
    re-initialisations of an elastic job are badput of their own. Raises :class:`CompatError` where the peer
    raises ``ValueError``: no start of the job, no time at all, or more productive time than time.
    """
    from .columns import account_of  # noqa: PLC0415 - numpy: who never asks shall not pay for it
    from .table import rows_of  # noqa: PLC0415

    return account_of(rows_of(events), now, elastic=elastic)


def compat_window(
    events: Iterable[GoodputEvent], start_s: float, end_s: float, *, elastic: bool = False
) -> CompatAccount:
    """Account for the events after `start_s` and up to `end_s` (epoch seconds) as if they were a job's all.

    The total is the time from the first of these events to the last one, not the window's length. Raises
    :class:`CompatError` if there are no two moments, or more productive time than that.
    """
    from .columns import window_of  # noqa: PLC0415
    from .table import rows_of  # noqa: PLC0415

    return window_of(rows_of(events, (start_s, end_s)), elastic=elastic)
