"""Whether a job's files have places of their own in SCR's cache: seen while the job bypasses it.

SCR ends a job whose ranks, on several nodes, register one file of an output that goes through the cache
(scr_assign_ownership in scr.c), and files of one node that have the same base name overwrite each other
there. Who bypasses the cache may do both.
"""

from ...goodput.events import OutputCompleted
from ..events import SettingsObserved, Values

_BYPASS = "SCR_CACHE_BYPASS"


class SharedFiles:
    """What the outputs of a job have shown. A kind of output is a checkpoint, or not."""

    def __init__(self) -> None:
        self._kinds: set[bool] = set()
        self._apart: set[bool] = set()
        self._meet = self._left = False

    def add(self, output: OutputCompleted) -> None:
        """Take in one output."""
        self._kinds.add(output.checkpoint)
        self._meet |= output.shared_files is True
        if output.shared_files is False and output.valid:
            self._apart.add(output.checkpoint)

    def begin_run(self) -> None:
        """The ranks that would not have the cache any more are gone."""
        self._left = False

    def left_cache(self) -> None:
        """The ranks left the cache by themselves: in this run they take no decision that chooses it again."""
        self._left = True

    def why_no_cache(self, *, is_real: bool) -> str:
        """Why the job must not be moved to the cache, or ''.

        Of a real SCR (`is_real`) every kind of output that was seen must have been seen to be safe there.
        """
        if self._meet:
            return (
                f"{_BYPASS}=0: ranks share a file, or files have the same name: in the cache they would meet"
            )
        if self._left:
            return f"{_BYPASS}=0: the ranks left the cache, and do not go there again in this run"
        unknown = self._kinds - self._apart or (set() if self._kinds else {True})
        if is_real and unknown:
            what = " and ".join(sorted(map(_word, unknown)))
            return (
                f"{_BYPASS}=0: whether ranks share files of the job's {what} is not known, and SCR ends a job"
                " that does so in the cache"
            )
        return ""


def _word(is_checkpoint: bool) -> str:
    return "checkpoints" if is_checkpoint else "pure outputs"


def starts_past_the_cache(changes: Values, job: SettingsObserved) -> bool:
    """Whether `changes` choose the cache for a job on a real SCR whose own word is the prefix directory.

    No launch may begin so: only a run that begins past the cache is watched, and shows with its first outputs
    that its files do not meet there.
    """
    return bool(job.mutability) and changes.get(_BYPASS) == 0 and bool(job.settings.get(_BYPASS, 1))
