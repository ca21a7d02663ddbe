"""The scanner of trace lines in libscrtune.so (native/scan/scan.c), for :class:`.TraceDecoder`."""

import ctypes
from array import array
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from struct import Struct

from ...intents.events import Operation
from ...intents.trace.calls import treatment_of
from ...intents.trace.digest import AccessSum
from ...intents.trace.names import Process
from ...intents.trace.scanner_protocol import Scanned, Scanner, Stop
from ..libscr.library import libscrtune_path

_OPERATIONS = tuple(Operation)
_NO_PLACE = 65_535
_MAX_SOURCES = 65_536
_GENERATIONS = 5

# the structures of native/scan/scan.h
_END, _ODD, _PROCESS, _CALL, _FULL = range(5)
_SUM = Struct("@IIqqQQQQQQBB6x")
_SEEN = Struct("@QQIxxxx")


class _Stop(ctypes.Structure):
    _fields_ = (
        ("lines", c_size_t),
        ("odd", c_size_t),
        ("end", c_size_t),
        ("paths", c_void_p),
        ("path_letters", c_size_t),
        ("pid", c_int64),
        ("category", c_void_p),
        ("name", c_void_p),
        ("category_length", c_uint32),
        ("name_length", c_uint32),
        ("call", c_uint32),
        ("is_metadata", c_uint8),
        ("reason", c_uint8),
    )


class _Totals(ctypes.Structure):
    _fields_ = (
        ("lines", c_uint64),
        ("events", c_uint64),
        ("metadata", c_uint64),
        ("generations", c_uint64 * _GENERATIONS),
        ("sums", c_void_p),
        ("processes", c_void_p),
        ("sum_count", c_size_t),
        ("process_count", c_size_t),
    )


_SIGNATURES: dict[str, tuple[object, ...]] = {
    "open": (c_void_p,),
    "close": (None, c_void_p),
    "lines": (None, c_void_p, c_uint32, ctypes.c_char_p, c_size_t, c_size_t, c_size_t, POINTER(_Stop)),
    "treat": (None, c_void_p, c_uint32, c_int, c_int, c_int),
    "process": (c_int32, c_void_p, c_uint32, c_int64, c_int, c_int, c_uint64),
    "forget_process": (None, c_void_p, c_uint32),
    "forget_places": (None, c_void_p),
    "waiting": (c_size_t, c_void_p, POINTER(c_void_p)),
    "settle": (c_size_t, c_void_p, ctypes.c_char_p, POINTER(c_void_p)),
    "take": (None, c_void_p, POINTER(_Totals)),
    "clear": (None, c_void_p),
}
"""Of each ``scrtune_scan_*``: what it returns, and its arguments."""


def new_scanner(bin_ns: int = 0) -> Scanner | None:
    """Return a scanner of one's own; None where libscrtune.so was not built, or cannot be loaded.

    With `bin_ns` its sums are parted by bins of time of that width, and sizes rounded down to powers of two.
    """
    path = libscrtune_path()
    if path is None:
        return None
    try:
        return NativeScanner(path, bin_ns)
    except (OSError, AttributeError, MemoryError):
        return None


class NativeScanner:
    """A scanner of libscrtune.so at `library`. Not for several threads at once.

    Raises :class:`OSError` when the library cannot be loaded, :class:`AttributeError` when it is older, and
    :class:`MemoryError` when there is no memory.
    """

    def __init__(self, library: Path, bin_ns: int = 0) -> None:
        loaded = ctypes.CDLL(str(library))
        for name, (returned, *arguments) in _SIGNATURES.items():
            function = getattr(loaded, f"scrtune_scan_{name}")
            function.restype, function.argtypes = returned, arguments
        self._library = loaded
        self._scan = loaded.scrtune_scan_lines
        self._handle = loaded.scrtune_scan_open()
        if self._handle is None:
            raise MemoryError(f"{library} has no memory for a scanner")
        self._stop = _Stop()
        self.bin_ns = bin_ns
        """It holds for processes that are introduced from now on."""
        self._forget()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._library.scrtune_scan_close(self._handle)

    def _forget(self) -> None:
        self._places: list[str] = []  # by the numbers that they have in sums
        self._number_of_place: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._processes: list[tuple[Process, int]] = []  # by number, with the nanoseconds of their unit then
        self._numbers: dict[tuple[str, int | None], int] = {}

    def scan(self, data: bytes, start: int, end: int, source: str, room: int) -> Stop:
        """Scan lines, as :meth:`.Scanner.scan` says."""
        stop = self._stop
        number = self._sources.setdefault(source, len(self._sources))
        lines = 0
        paths: list[tuple[str, str]] = []
        while True:
            self._scan(self._handle, number, data, start, end, room - len(paths), byref(stop))
            lines += stop.lines
            if stop.path_letters:
                listed = _listed(stop.paths, stop.path_letters)
                paths += zip(listed[::2], listed[1::2], strict=True)
            start = stop.end
            if stop.reason != _CALL:
                break
            self._treat()
        is_full = stop.reason == _FULL or number >= _MAX_SOURCES
        return Stop(lines, stop.odd, start, paths, is_full, stop.pid if stop.reason == _PROCESS else None)

    def _treat(self) -> None:
        stop = self._stop
        category, name = _text(stop.category, stop.category_length), _text(stop.name, stop.name_length)
        treatment = treatment_of(category, name, is_metadata=bool(stop.is_metadata))
        operation = _OPERATIONS.index(treatment.operation)
        self._library.scrtune_scan_treat(
            self._handle, stop.call, treatment.handling, operation, treatment.size
        )

    def introduce(self, process: Process) -> bool:
        """Scan the lines of `process`, as :meth:`.Scanner.introduce` says."""
        if process.pid is None:
            return True
        generation = -1 if process.generation is None else process.generation
        source = self._sources.setdefault(process.source, len(self._sources))
        number: int = self._library.scrtune_scan_process(
            self._handle, source, process.pid, generation, process.host is not None, self._bin_of(process)
        )
        if number < 0:
            return False
        self._processes.append((process, process.unit_ns))
        self._numbers[process.source, process.pid] = number
        return True

    def forget_process(self, process: Process) -> None:
        """Leave the lines of `process` to the decoder."""
        number = self._numbers.pop((process.source, process.pid), None)
        if number is not None:
            self._library.scrtune_scan_forget_process(self._handle, number)

    def _bin_of(self, process: Process) -> int:
        return max(1, self.bin_ns // process.unit_ns) if self.bin_ns else 0

    def forget_places(self) -> None:
        """Ask again for the places of all files."""
        self._library.scrtune_scan_forget_places(self._handle)

    def settle(self, place_of: Callable[[str], str | None]) -> list[tuple[str, AccessSum]]:
        """Settle accesses, as :meth:`.Scanner.settle` says."""
        found = c_void_p()
        letters = self._library.scrtune_scan_waiting(self._handle, byref(found))
        keys = _listed(found.value, letters)
        numbers = array("H", (self._place_number(place_of(key)) for key in keys))
        count = self._library.scrtune_scan_settle(self._handle, numbers.tobytes(), byref(found))
        return [(keys[row[1]], self._access(row)) for row in _rows(_SUM, found.value, count)]

    def _place_number(self, place: str | None) -> int:
        if place is None:
            return _NO_PLACE
        number = self._number_of_place.setdefault(place, len(self._places))
        if number == len(self._places):
            self._places.append(place)
        return number

    def take(self) -> Scanned:
        """Return what was scanned since the last take."""
        totals = _Totals()
        self._library.scrtune_scan_take(self._handle, byref(totals))
        return Scanned(
            lines=totals.lines,
            events=totals.events,
            metadata=totals.metadata,
            generations={number: count for number, count in enumerate(totals.generations) if count},
            settled=[
                (self._places[row[1]], self._access(row))
                for row in _rows(_SUM, totals.sums, totals.sum_count)
            ],
            processes=[
                self._seen(first, last, number)
                for first, last, number in _rows(_SEEN, totals.processes, totals.process_count)
            ],
        )

    def clear(self) -> None:
        """Forget files and processes."""
        self._library.scrtune_scan_clear(self._handle)
        self._forget()

    def _seen(self, first: int, last: int, number: int) -> tuple[Process, tuple[int, int] | None]:
        process, unit_ns = self._processes[number]
        return process, (first * unit_ns, last * unit_ns) if first <= last else None

    def _access(self, row: tuple[int, ...]) -> AccessSum:
        number, _, tid, size, _, count, total, duration, first, last, operation, _ = row
        process, unit_ns = self._processes[number]
        return AccessSum(
            op=_OPERATIONS[operation],
            thread=(process.pid, tid),
            size=None if size < 0 else size,
            calls=count,
            bytes=total,
            duration_ns=duration * unit_ns,
            start_ns=first * unit_ns,
            end_ns=last * unit_ns,
        )


def _text(address: int | None, length: int) -> str:
    return ctypes.string_at(address, length).decode("ascii") if address else ""


def _listed(address: int | None, length: int) -> list[str]:
    """Return texts that each have a newline behind them."""
    return _text(address, length).split("\n")[:-1] if address and length else []


def _rows(layout: Struct, address: int | None, count: int) -> list[tuple[int, ...]]:
    """Return an array of structures at `address`."""
    return list(layout.iter_unpack(ctypes.string_at(address, count * layout.size))) if address else []
