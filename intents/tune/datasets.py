"""Which datasets of a run have begun, ended, and reached the prefix directory: SCR numbers its outputs."""

import msgspec

from ...goodput.events import OF_THE_ENGINE, FlushCompleted


class Datasets(msgspec.Struct):
    """Numbers of datasets, 0: none. Another run of the job may begin anew with 1."""

    ended: int = 0
    """The newest whose output has ended."""
    begun: int = 0
    """The output in which SCR noticed the end of a flush: no decision reaches it any more."""
    flushed: int = 0
    """The newest in the prefix directory."""
    within_budget: int = 0
    """The newest that had ended while anything was left of the trial budget."""

    def output(self, dataset: int, *, is_flushed: bool) -> None:
        """Take in that an output ended, which `is_flushed` if it went past the cache."""
        self.ended = dataset
        if is_flushed:
            self.flushed = dataset

    def flush(self, flush: FlushCompleted) -> None:
        """Take in that a flush ended."""
        if flush.valid:
            self.flushed = max(self.flushed, flush.dataset)
        if flush.asynchronous and flush.source != OF_THE_ENGINE:
            self.begun = max(self.begun, self.ended + 1)  # SCR notices it in a call of the next output

    @property
    def newest(self) -> int:
        """The newest one, even if it has only begun."""
        return max(self.ended, self.begun)

    @property
    def is_newest_flushed(self) -> bool:
        """True when the newest one, even one that has only begun, is in the prefix directory.

        Then a re-init before the next output that a decision reaches forces no flush.
        """
        return self.newest <= self.flushed

    @property
    def is_last_flushed(self) -> bool:
        """True when the one that ended last is in the prefix directory."""
        return self.ended <= self.flushed
