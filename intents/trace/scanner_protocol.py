"""What :class:`.TraceDecoder` expects of a scanner: a fast reader of plain lines, which leaves it the others.

:mod:`scrtune.client.capture.scanner` is the one there is; this package must not load a library.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from .digest import AccessSum
from .names import Process


class Stop(NamedTuple):
    """The end of a scan: of the `lines` scanned, and where in the data those `odd` ones lie that follow them.

    `paths` are (key, path) of files that the scanned lines explained, in their order. When `is_full`,
    everything must be taken out before the scan goes on at `end`. `pid` is that of a process to be introduced
    after the odd line.
    """

    lines: int
    odd: int
    end: int
    paths: Sequence[tuple[str, str]]
    is_full: bool
    pid: int | None


class Scanned(NamedTuple):
    """The sums since the last take.

    Each of the accesses `settled` has the place of its file; each of the `processes` that wrote a line the
    time of its events, from and to, in nanoseconds, or None.
    """

    lines: int
    events: int
    metadata: int
    generations: Mapping[int, int]
    settled: Sequence[tuple[str, AccessSum]]
    processes: Sequence[tuple[Process, tuple[int, int] | None]]


class Scanner(Protocol):
    """Sums up plain lines, of processes that were introduced to it.

    Its sums are parted by bins of time that are `bin_ns` wide, if that is not 0; a change counts after
    :meth:`clear`.
    """

    bin_ns: int

    def scan(self, data: bytes, start: int, end: int, source: str, room: int) -> Stop:
        """Scan `data[start:end]`, of `source`, to an odd line; explain at most `room` files."""

    def introduce(self, process: Process) -> bool:
        """Scan the lines of `process` from here on, as it is now. Returns False when there is no room."""

    def forget_process(self, process: Process) -> None:
        """Leave the lines of `process`, until it is introduced again."""

    def forget_places(self) -> None:
        """Ask again for the places of all files."""

    def settle(self, place_of: Callable[[str], str | None]) -> Sequence[tuple[str, AccessSum]]:
        """Settle accesses of files whose place is known (at most 65,535 places); return the others."""

    def take(self) -> Scanned:
        """Return what was scanned since the last take, when all is settled."""

    def clear(self) -> None:
        """Forget files and processes. Only after a take."""
