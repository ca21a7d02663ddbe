"""How long a thread ran and how long it waited for a core, as Linux counts (schedstat).

An application that computes shows by it what a flush takes from its steps, even where none is without one;
and a flush whether it is its cores or storage that it waits for.
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
        so_far, _ = _of_this_thread()  # of a thread that has just started nothing is counted yet
        self._begun = so_far and (get_native_id(), so_far)

    def end(self) -> CoreTime:
        """Return the times since :meth:`begin`, once; zeros where they are not known."""
        begun, self._begun = self._begun, None
        now, is_counted = _of_this_thread()
        if begun is None or begun[0] != get_native_id() or now is None or not is_counted:
            return CoreTime()
        return CoreTime(*(after - before for before, after in zip(begun[1], now, strict=True)))


def _of_this_thread() -> tuple[CoreTime | None, bool]:
    """Return what the calling thread took so far, and whether Linux has counted any of it."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None, False
    try:
        # the first is as old as the last tick of the kernel's; 0 where it does not count (sched_info_on)
        ran_ns, waited_ns, _ = map(int, os.read(file, 128).split())
        return CoreTime(time.thread_time(), waited_ns / 1e9), ran_ns > 0
    except (OSError, ValueError):
        return None, False
    finally:
        os.close(file)
