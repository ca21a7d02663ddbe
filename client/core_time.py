"""How long a thread ran and how long it waited for a core, as Linux counts (schedstat).

An application that computes shows by it what a flush takes from its steps, even where none is without one.
"""

import os
import time
from threading import get_native_id
from typing import NamedTuple


class CoreTime(NamedTuple):
    """Seconds in which a thread ran, and in which it was ready to run and waited for a core."""

    cpu_s: float = 0.0
    run_delay_s: float = 0.0


class CoreTimer:
    """Measures the calling thread from one moment to another. Where Linux does not tell nothing is known."""

    def __init__(self) -> None:
        self._begun: tuple[int, CoreTime] | None = None

    def begin(self) -> None:
        """Measure from now on."""
        now = _of_this_thread()
        self._begun = now and (get_native_id(), now)

    def end(self) -> CoreTime:
        """Return the times since :meth:`begin`, once; zeros where they are not known."""
        begun, self._begun = self._begun, None
        if begun is None or begun[0] != get_native_id() or (now := _of_this_thread()) is None:
            return CoreTime()
        return CoreTime(*(after - before for before, after in zip(begun[1], now, strict=True)))


def _of_this_thread() -> CoreTime | None:
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # the first is as old as the last tick of the kernel's; 0 where it does not count (sched_info_on)
        ran_ns, waited_ns, _ = map(int, os.read(file, 128).split())
        return CoreTime(time.thread_time(), waited_ns / 1e9) if ran_ns else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
