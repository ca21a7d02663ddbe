"""Find the runs of a job: each begins with a launch, whose ranks may all report their start.

Times within the ledger are whole nanoseconds, so that sums are exact. Loads no numpy.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, TypeVar

from ..events import JobEnded, JobStarted
from ..job_events import JobEvents

NEVER = 1 << 62
NS = 1_000_000_000
"""Nanoseconds in a second."""

Writer = TypeVar("Writer", str, int)
"""A writer's name, or its number; one without a name is false."""


def to_ns(seconds: float) -> int:
    """Return whole nanoseconds."""
    return round(seconds * NS)


def number_of(text: str) -> int:
    """Return a number below 2**60, not 0, that stands for `text`: in every process the same."""
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 4 | 1


def launches(
    starts: Iterable[tuple[int, Writer]], ends: Sequence[int], steps: Callable[[], Any]
) -> list[tuple[int, set[Writer]]]:
    """Return when the runs began that the `starts` of writers begin, and whose starts are named, in order.

    A start joins the run before it if its writer is named and has not started in that run, and if since that
    run began no step began and no end was reported (begins of `steps`, and `ends`, are in order). Any other
    one begins a run.
    """
    starts = sorted(starts)
    begun: Any = steps() if any(writer for _, writer in starts) else ()
    made: list[tuple[int, set[Writer]]] = []
    until = 0
    for time, writer in starts:
        if made and writer and writer not in made[-1][1]:
            begin: int = made[-1][0]
            step: int = bisect_left(begun, begin)
            end: int = bisect_right(ends, begin)
            until = until or min([*begun[step : step + 1], *ends[end : end + 1]], default=NEVER)
            if until >= time:
                made[-1][1].add(writer)
                continue
        made.append((time, {writer} if writer else set()))
        until = 0
    return made


def run_starts(events: JobEvents) -> list[float]:
    """Return when the runs of a job began (epoch seconds), in order, as in the account."""
    starts = [each for each in events.others if isinstance(each, JobStarted) and isfinite(each.time_s)]
    ended = [each.time_s for each in events.others if isinstance(each, JobEnded) and isfinite(each.time_s)]

    def steps() -> list[int]:
        return sorted(to_ns(time_s) for each in events.steps for time_s in each.starts_s if isfinite(time_s))

    moments = {to_ns(each.time_s): each.time_s for each in starts}
    begun = {(to_ns(each.time_s), each.writer) for each in starts}
    return [moments[time] for time, _ in launches(begun, sorted(map(to_ns, ended)), steps)]
