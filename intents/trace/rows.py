"""Accesses summed up for a study: by tier and class of file, thread and class of size, in bins of time."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..events import Operation
from .digest import AccessSum, AccessTable, FileKey, Group, Thread, Tiers

BIN_NS = 1_000_000_000
"""The narrowest bin. All are that times a power of two."""
MAX_ROWS = 8192
"""Rows of a table; with more, its bins become wider."""
MAX_BIN_NS = BIN_NS << 30
NO_SIZE = -1
MAX_CLASSES = 4096
"""Classes of files; further ones are :data:`REST`."""
REST = "(other files)"
UNNAMED = "(no name)"

_WORD_ENDS, _WORD_BEGINS = r"(?![^\W_])", r"(?<![^\W_])"
_HEXADECIMAL = rf"{_WORD_BEGINS}(?=[a-f]*\d)[0-9a-f]{{6,}}{_WORD_ENDS}"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEMPORARY = rf"(?<={_WORD_BEGINS}tmp)[a-z0-9_]{{8}}{_WORD_ENDS}"  # by Python's tempfile
_OF_ONE_FILE = re.compile(rf"{_UUID}|{_HEXADECIMAL}|{_TEMPORARY}|\d+|-+", re.IGNORECASE)


def size_class(size: int | None) -> int:
    """Return the bits of `size`, so that sizes in one class differ by less than two times; -1 for None."""
    return NO_SIZE if size is None else size.bit_length()


def file_class(path: str) -> str:
    """Return the name of a file without what tells it from others of its kind.

    Those are digits and dashes, and random parts of temporary names: ``layer.pt`` of ``layer-0-1-600-0.pt``
    and of ``layer-3f2a9b1c.pt``.
    """
    return _OF_ONE_FILE.sub("", path.rstrip("/").rpartition("/")[2]) or UNNAMED


class FileClasses:
    """The place of a path: its tier and the class of its name, as in ``cache/layer.pt``.

    SCR's own files count for the tier that they lie in, as in ``cache/.scr/filemap_``.
    """

    def __init__(self, tiers: Mapping[str, str]) -> None:
        self._tiers = Tiers(tiers)
        self._known: set[str] = set()

    def of(self, path: str) -> str:
        """Return the place of `path`."""
        name = file_class(path)
        if len(self._known) < MAX_CLASSES:
            self._known.add(name)
        tier, is_scr = self._tiers.find(path)
        return f"{tier}/{'.scr/' if is_scr else ''}{name if name in self._known else REST}"


class RowKey(NamedTuple):
    """What the accesses of a row have in common."""

    place: str
    """Or the hash of a file that no line explained."""
    op: str
    pid: int
    tid: int
    size: int
    bin: int
    """When they began, in units of :data:`BIN_NS`; that of the beginning of the bin."""


class Amount(NamedTuple):
    """What the accesses of a row are in all."""

    calls: int
    bytes: int
    duration_ns: int
    start_ns: int
    end_ns: int

    def plus(self, other: "Amount") -> "Amount":
        """Return both together."""
        return Amount(
            self.calls + other.calls,
            self.bytes + other.bytes,
            self.duration_ns + other.duration_ns,
            min(self.start_ns, other.start_ns),
            max(self.end_ns, other.end_ns),
        )


class RowGroup(Group):
    """Accesses of one place and operation, in the bins of a `table`."""

    __slots__ = ("rows", "table")

    def __init__(self, table: "RowTable") -> None:
        super().__init__()
        self.table = table
        self.rows: dict[tuple[Thread, int, int], Amount] = {}

    def add(self, found: AccessSum) -> None:
        """Add accesses; those that were summed up elsewhere were so in bins that are not wider."""
        amount = Amount(found.calls, found.bytes, found.duration_ns, found.start_ns, found.end_ns)
        self._add((found.thread, size_class(found.size), found.start_ns // self.table.bin_ns), amount)

    def merge(self, other: Group) -> None:
        """Add all of `other`."""
        if isinstance(other, RowGroup):
            for key, amount in other.rows.items():
                self._add(key, amount)

    def _add(self, key: tuple[Thread, int, int], amount: Amount) -> None:
        known = self.rows.get(key)
        self.rows[key] = amount if known is None else known.plus(amount)
        self.count += amount.calls

    def coarsen(self) -> None:
        """Join two bins each."""
        rows, self.rows, self.count = self.rows, {}, 0
        for (thread, size, number), amount in rows.items():
            self._add((thread, size, number // 2), amount)

    @property
    def size(self) -> int:
        """Number of rows."""
        return 1 + len(self.rows)


class RowTable(AccessTable):
    """All accesses of a trace. What no line explains stays with its hash: another trace may explain it."""

    def __init__(self) -> None:
        super().__init__(lambda: RowGroup(self))
        self.bin_ns = BIN_NS
        self._unexplained: dict[tuple[FileKey, Operation], Group] = {}

    def take(self) -> tuple[tuple[()], int]:
        """Return nothing: the rows stay here."""
        return (), 0

    def _give_up(self, file: FileKey, op: Operation, group: Group) -> None:
        self._unexplained.setdefault((file, op), RowGroup(self)).merge(group)

    def coarsen(self) -> bool:
        """Make bins wider if there are too many rows. Return whether that was done."""
        groups = [*self._waiting.values(), *self._settled.values(), *self._unexplained.values()]
        if sum(group.size for group in groups) <= MAX_ROWS or self.bin_ns > MAX_BIN_NS:
            return False
        self.bin_ns *= 2
        for group in groups:
            if isinstance(group, RowGroup):
                group.coarsen()
        return True

    def take_rows(self) -> Iterator[tuple[RowKey, Amount, bool]]:
        """Yield each row of what is settled, and whether its place is known; they are no longer here."""
        for known, groups in ((True, self._settled), (False, self._unexplained)):
            for (place, op), group in groups.items():
                if isinstance(group, RowGroup):
                    for ((pid, tid), size, number), amount in group.rows.items():
                        start = number * (self.bin_ns // BIN_NS)
                        key = RowKey(str(place), op.value, pid or 0, tid or 0, size, start)
                        yield key, amount, known
            groups.clear()
