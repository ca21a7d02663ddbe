"""DFTracer's gate for the embedded engine: libscrtune.so opens it while the application writes an output."""

import ctypes
import os
from typing import NamedTuple

from ..libscr.library import libscrtune_path
from .environment import OBSERVE


class TracedCalls(NamedTuple):
    """The calls of this process that were traced in an output, and the seconds that this added."""

    calls: int = 0
    cost_s: float = 0.0


class TraceGate:
    """Traces outputs, where scrtune has started DFTracer in this process; does nothing elsewhere.

    `prefix` is SCR's prefix directory. On a real libscr the library does all this within SCR's calls.
    """

    def __init__(self, prefix: str) -> None:
        path = libscrtune_path() if os.environ.get(OBSERVE) else None
        self._library = ctypes.CDLL(os.fspath(path)) if path is not None else None
        if self._library is not None:
            self._library.scrtune_observe_close.restype = ctypes.c_size_t
            self._library.scrtune_observe_begin(os.fsencode(prefix))

    def open(self) -> None:
        """Trace from here on, unless observation has ended."""
        if self._library is not None:
            self._library.scrtune_observe_open()

    def close(self) -> TracedCalls:
        """Trace no more; return what was traced since :meth:`open`."""
        if self._library is None:
            return TracedCalls()
        cost_s = ctypes.c_double()
        calls = self._library.scrtune_observe_close(ctypes.byref(cost_s))
        return TracedCalls(calls, cost_s.value)

    def deliver(self) -> None:
        """Write what was traced to where the forwarder reads it."""
        if self._library is not None:
            self._library.scrtune_observe_deliver()
