"""What is found out once a job on rank 0's node: the rates of the cache, and what the prefix is on."""

from collections.abc import Iterator

from ...intents.events import SettingsObserved, StorageProbed, StorageTargetsObserved
from . import measure, targets
from .process import ProbeProcess


class Probes:
    """Two processes, each started where its result is not known yet."""

    def __init__(self, host: str) -> None:
        self._rates = ProbeProcess(host, measure.__file__, StorageProbed)
        self._targets = ProbeProcess(host, targets.__file__, StorageTargetsObserved)

    @property
    def is_running(self) -> bool:
        """Return whether a result is still to be taken."""
        return self._rates.is_running or self._targets.is_running

    def measure_cache(self, job: SettingsObserved, ranks: int, now: float) -> StorageProbed | None:
        """Begin to measure the cache, which `ranks` use; return a result, of `now`, if that fails."""
        return self._rates.start(job.cache, now, str(ranks)) if job.cache else None

    def find_targets(self, job: SettingsObserved, now: float) -> StorageTargetsObserved | None:
        """Begin to look at the prefix directory; return a result, of `now`, if that fails."""
        return self._targets.start(job.prefix, now) if job.prefix else None

    def take(self, now: float) -> Iterator[StorageProbed | StorageTargetsObserved]:
        """Yield the results that are there, of the time `now`."""
        if (rates := self._rates.take(now)) is not None:
            yield rates
        if (found := self._targets.take(now)) is not None:
            yield found

    def close(self) -> None:
        """End what still runs."""
        self._rates.close()
        self._targets.close()
