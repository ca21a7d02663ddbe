"""Files that would collide in SCR's cache, as seen while the job bypasses it.

SCR ends a job whose ranks, on several nodes, register one file of an output that goes through the cache
(scr_assign_ownership in scr.c), and files of one node that have the same base name overwrite each other
there. A job that bypasses the cache may do both.
"""

from collections import deque

from ....goodput.events import OutputCompleted
from ...events import SettingsObserved, Values

_BYPASS = "SCR_CACHE_BYPASS"
_REMEMBERED_NAMES = 64


class SharedFiles:
    """The outputs of a job so far, by kind: checkpoints, and pure outputs."""

    def __init__(self) -> None:
        self._kinds: set[bool] = set()
        self._apart: set[bool] = set()
        self._meet = self._left = False
        self._names: deque[str] = deque(maxlen=_REMEMBERED_NAMES)
        self.why_no_bypass = ""
        """Why the job must not be moved past the cache, or empty."""

    def add(self, output: OutputCompleted) -> None:
        """Take in one output."""
        self._kinds.add(output.checkpoint)
        if output.name and output.name in self._names:
            self.why_no_bypass = (
                f"{_BYPASS}=1: outputs have the same name: each would overwrite the one before"
            )
        self._names.append(output.name)
        self._meet |= output.shared_files is True
        if output.shared_files is False and output.valid:
            self._apart.add(output.checkpoint)

    def begin_run(self) -> None:
        """A new run may use the cache again."""
        self._left = False

    def left_cache(self) -> None:
        """The ranks left the cache by themselves: in this run they refuse to return to it."""
        self._left = True

    def why_no_cache(self, *, to_be_seen: bool) -> str:
        """Return why the job must not be moved to the cache, or an empty text.

        If it is `to_be_seen`, every kind of output so far must have been safe there: on a real SCR, but for
        a user who caches, whose job would have ended with the first that is not.
        """
        if self._meet:
            return f"{_BYPASS}=0: ranks share a file or a file name: in the cache these would collide"
        if self._left:
            return f"{_BYPASS}=0: the ranks left the cache, and do not return to it in this run"
        unknown = self._kinds - self._apart or (set() if self._kinds else {True})
        if to_be_seen and unknown:
            what = " and ".join(sorted(map(_word, unknown)))
            return (
                f"{_BYPASS}=0: whether ranks share files of the job's {what} is not known, and SCR ends a job"
                " that shares files in the cache"
            )
        return ""


def _word(is_checkpoint: bool) -> str:
    return "checkpoints" if is_checkpoint else "pure outputs"


def starts_past_the_cache(changes: Values, job: SettingsObserved) -> bool:
    """Return whether `changes` choose the cache for a job on a real SCR whose user bypasses it.

    No launch may begin so: only a run that begins past the cache shows with its first outputs that its files
    do not collide there.
    """
    return bool(job.mutability) and changes.get(_BYPASS) == 0 and bool(job.settings.get(_BYPASS, 1))
