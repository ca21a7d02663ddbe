"""What is found out once a job on rank 0's node: the rates of the cache, and what the prefix is on.

Each is a script in an interpreter of its own that loads no packages: ranks may wait for the daemon's thread.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from ...intents.events import SettingsObserved, StorageProbed, StorageTargetsObserved
from . import measure, targets
from .side_process import SideProcess

RanksOf = Callable[[SettingsObserved], int]
Probed = TypeVar("Probed", bound=StorageProbed | StorageTargetsObserved)

LIMIT_S = 10.0
"""On a node whose CPUs are all busy a probe takes up to two seconds, most of which it waits."""


class ProbeProcess(Generic[Probed]):
    """A `script` that writes fields of its `result`."""

    def __init__(self, host: str, script: str, result: type[Probed], limit_s: float = LIMIT_S) -> None:
        self._host, self._script, self._result = host, script, result
        self._process = SideProcess(limit_s)

    @property
    def is_running(self) -> bool:
        """Return whether its result is still to be taken."""
        return self._process.is_running

    def start(self, directory: str, now: float, *more: str) -> Probed | None:
        """Begin to look at `directory`; return a result, of the time `now`, if it cannot."""
        if not Path(directory).is_absolute():
            return self._of(now, problem=f"{directory}: not an absolute path")
        # as a file, not as a module of the package: that would be imported, with msgspec and what it needs
        command = [sys.executable, "-I", "-S", self._script, directory, *more]
        try:
            self._process.start(command, time.monotonic())
        except (OSError, ValueError) as error:
            return self._of(now, problem=f"{directory}: {error}")
        return None

    def take(self, now: float) -> Probed | None:
        """Return the result, of the time `now`, when the process has ended or its time is over."""
        if (taken := self._process.take(time.monotonic())) is None:
            return None
        text, code = taken
        pairs = [entry.partition("=")[::2] for entry in text.split("\0")[:-1]]
        problems = [value for name, value in pairs if name == "problem"]
        if code is None:
            problems.append(f"it had not ended after {self._process.limit_s:g} s")
        elif code:
            problems.append(f"it ended with {code}")
        return self._of(now, **{**dict(pairs), "problem": "; ".join(problems)})

    def close(self) -> None:
        """End the process if it still runs. Its file has no name: it goes with the process."""
        self._process.close()

    def _of(self, now: float, **fields: str) -> Probed:
        return msgspec.convert({**fields, "host": self._host, "time_s": now}, self._result, strict=False)


class Probes:
    """Two processes, each started where its result is not known yet."""

    def __init__(self, host: str) -> None:
        self._rates = ProbeProcess(host, measure.__file__, StorageProbed)
        self._targets = ProbeProcess(host, targets.__file__, StorageTargetsObserved)

    @property
    def is_running(self) -> bool:
        """Return whether a result is still to be taken."""
        return self._rates.is_running or self._targets.is_running

    def start(
        self,
        job: SettingsObserved,
        now: float,
        ranks: Callable[[SettingsObserved], int] | None,
        *,
        prefix: bool,
    ) -> Iterator[StorageProbed | StorageTargetsObserved]:
        """Begin to measure the cache, which so many `ranks` use (None: not), and to look at the `prefix`.

        Yields a result, of `now`, where that fails.
        """
        if job.cache and ranks and (failed := self._rates.start(job.cache, now, str(ranks(job)))):
            yield failed
        if job.prefix and prefix and (lost := self._targets.start(job.prefix, now)):
            yield lost

    def take(self, now: float) -> Iterator[StorageProbed | StorageTargetsObserved]:
        """Yield the results that are there, of the time `now`."""
        yield from filter(None, (self._rates.take(now), self._targets.take(now)))

    def close(self) -> None:
        """End what still runs."""
        self._rates.close()
        self._targets.close()
