"""The intervals of a job that have both ends, of all its events at once."""

from collections.abc import Collection, Iterable

from ..events import GoodputEvent, Interval, IntervalEnded, IntervalStarted
from ..ledger.pending_events import ENDS, STARTS
from .starts import run_starts


def whole_intervals(events: Iterable[GoodputEvent], kinds: Collection[str] | None = None) -> list[Interval]:
    """Those that were told whole, and those of starts and ends that belong together, as in the account.

    Starts without an end, and ends without a start, are left out. Only `kinds`, where they are given.
    """
    from . import pairing  # noqa: PLC0415 - numpy: who has nothing to join shall not pay for it

    events = list(events)
    made: list[Interval] = []
    tokens: dict[tuple[str, str, str], set[tuple[float, int]]] = {}
    for event in events:
        if isinstance(event, (Interval, IntervalStarted, IntervalEnded)):
            if kinds is not None and event.kind not in kinds:
                continue
            if isinstance(event, Interval):
                made.append(event)
            else:
                token = event.time_s, STARTS if isinstance(event, IntervalStarted) else ENDS
                tokens.setdefault((event.kind, event.name, event.writer), set()).add(token)
    starts = run_starts(events) if tokens else []
    for (kind, name, writer), told in tokens.items():
        for start_s, end_s in pairing.joined(sorted(told), starts):
            made.append(Interval(kind=kind, name=name, writer=writer, start_s=start_s, end_s=end_s))
    return made
