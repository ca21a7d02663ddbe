"""The share of busy cores that a process beside the application takes.

Where Linux schedules by session (autogroup; sched(7)), cores are shared out between sessions first: a nice
value of a process, or SCHED_IDLE, counts within its session only. Each rank has a session of its own under
MPICH, and so have the daemon and the forwarder. A session's nice value may be raised and lowered again
without privileges; within 100 ms there is one change a node, for all who have none.
"""

import errno
import os
from pathlib import Path

NICE = 10
"""A tenth of a core that one rank keeps busy: a decision, 5 to 20 ms of it, takes 50 to 200 ms there."""
LEAST_INTERVAL_S = 0.5
"""Where checkpoints are closer together a decision would come too late for the next one."""


class CoreShare:
    """This process's share of busy cores: a tenth, unless checkpoints are close together."""

    def __init__(self) -> None:
        self._nice = 0

    def tick(self, interval_s: float = 0.0) -> None:
        """Give way to the application while checkpoints are far enough apart.

        `interval_s` is 0 where that is not known.
        """
        is_close = 0 < interval_s < LEAST_INTERVAL_S
        nice = 0 if is_close else NICE
        if nice != self._nice and _set_nice(os.getpid(), nice):
            self._nice = nice


def take_cores(pid: int) -> None:
    """Give the session that `pid` leads its full share again: somebody waits for what it does."""
    _set_nice(pid, 0)


def _set_nice(pid: int, nice: int) -> bool:
    """Set the nice value of the session that `pid` leads; return whether it need not be tried again."""
    try:
        if os.getsid(pid) == pid:  # else this would be a shell's nice value, or the application's
            Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True
