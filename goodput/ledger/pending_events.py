"""Buffer of events that a ledger has not processed yet, in columns: adding one costs next to nothing."""

from array import array
from typing import NamedTuple

STARTS, ENDS = 1, 2

WHOLE = -1
"""The kind of the stream of what a writer tells whole: when, with the number of a step that began then."""
NO_STEP = -(1 << 62)
"""The number where no step began."""

STEP_LIMIT = 1 << 61
"""Numbers of steps lie within it; any other one is none."""
NS = 1_000_000_000
"""Nanoseconds in a second."""


class Limits(NamedTuple):
    """How much a ledger looks at in one piece; it changes what an account costs, and not what it says.

    `reach` is the exception, see :mod:`..runs.pairing`.
    """

    block: int = 2048
    """Claims that are summed together."""
    unsettled: int = 32
    unsettled_of_many: int = 8
    """The last tokens of a stream may still get company: what they stand for is worked out anew each time."""
    unsettled_whole: int = 256
    """Of what is told whole nothing is worked out but where steps go back."""
    reach: int = 32
    """So many starts and ends may lie within an interval: a later end belongs to another one."""
    anew: int = 4096
    """With more news than that everything is worked out anew."""


LIMITS = Limits()


Key = tuple[str, int, str]
"""A stream's writer, kind and name."""


def to_ns(seconds: float) -> int:
    """Whole nanoseconds."""
    return round(seconds * NS)


class Stream:
    """What one writer tells of its steps, or of intervals of one kind and name, start by start.

    A token is a time (epoch seconds) and a step's number, or STARTS or ENDS. `kind` is the code of the
    interval, or that of a step, or `WHOLE`. The first `settled` tokens stand for something for good; what
    comes before `settled_until` (nanoseconds) changes that.
    """

    __slots__ = ("kind", "name", "settled", "settled_until", "sorted_to", "times", "values", "writer")

    def __init__(self, writer: str, kind: int, name: str = "") -> None:
        self.writer, self.kind, self.name = writer, kind, name
        self.times, self.values = array("d"), array("q")
        self.sorted_to = self.settled = 0
        self.settled_until = -(1 << 62)

    @property
    def key(self) -> Key:
        """What it is known by."""
        return self.writer, self.kind, self.name


class PendingEvents:
    """Claims with both ends (`step` is far below 0 for what is no step), and single moments, in nanoseconds.

    `points` say that the job was alive. `starts` are those of runs, and say who tells; `restarts` say where a
    run went back to a checkpoint. `ends` say whether they were bad ones, and who tells; `marks` are what
    unclaimed time is from then on.
    """

    __slots__ = ("end", "ends", "halts", "kind", "marks", "points", "restarts", "start", "starts", "step")

    def __init__(self) -> None:
        self.start, self.end, self.step, self.kind = array("q"), array("q"), array("q"), array("i")
        self.points = array("q")
        self.starts: list[tuple[int, str]] = []
        self.restarts: list[int] = []
        self.ends: list[tuple[int, bool, str]] = []
        self.halts: list[int] = []
        self.marks: list[tuple[int, int]] = []

    def __len__(self) -> int:
        moments = (self.starts, self.restarts, self.ends, self.halts, self.marks)
        return len(self.start) + len(self.points) + sum(len(each) for each in moments)
