"""What jobs that have ended left on this host: run directories, and what of their caches nobody needs."""

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...client.embedded.leftovers import Leftovers
from ...client.paths import JobPaths
from ...daemon.journal.records import JournalError, JournalReader
from ...daemon.lock import AlreadyRunningError, Lock
from ...intents.events import SettingsObserved
from .find import is_running, jobs

_ENGINE = "embedded"
_SILENT_S = 3600.0
"""A daemon that was killed is started again; one that is not heard of for so long is not."""


@dataclass(frozen=True)
class EndedJob:
    """A job without a daemon; `ended_s` is when it was last heard of (epoch seconds).

    `cache` is that of the embedded engine, None where the job had another or a job that runs has it now.
    """

    paths: JobPaths
    ended_s: float
    cache: Leftovers | None

    @property
    def run_bytes(self) -> int:
        """What the run directory occupies, with DFTracer's files."""
        return sum(map(_occupied, {self.paths.root, self.paths.trace_directory}))

    @property
    def cache_bytes(self) -> int:
        """What of the cache may go occupies."""
        return sum(map(_occupied, self.cache.removable())) if self.cache else 0

    def remove(self) -> bool:
        """Delete what is left of it; returns False where a daemon has it again. Raises OSError.

        Only files that stand in the run directory itself go: nobody's directory within.
        """
        try:
            lock = Lock(self.paths.lock)
        except AlreadyRunningError:
            return False
        try:
            if self.cache:
                self.cache.remove()
            shutil.rmtree(self.paths.trace_directory, ignore_errors=True)
            for path in self.paths.root.iterdir():
                if path.is_symlink() or not path.is_dir():
                    path.unlink(missing_ok=True)
        finally:
            lock.close()
        root = self.paths.root
        for directory in (self.paths.trace_directory.parent, root / "trace", root, root.parent):
            with suppress(OSError):  # something is left, as of the job's other nodes
                directory.rmdir()
        return True


def ended_jobs(before_s: float) -> Iterator[EndedJob]:
    """Yield the jobs of this user on this host that were last heard of before `before_s` (epoch seconds)."""
    every = [*jobs()]
    running = {paths for paths in every if is_running(paths)}
    in_use = {found.cache for paths in running if (found := _cache(paths))}
    for paths in every:
        heard_s = _heard_s(paths)
        is_over = paths.last_status.exists() or heard_s < time.time() - _SILENT_S
        if paths not in running and is_over and heard_s < before_s:
            found = _cache(paths)
            yield EndedJob(paths, heard_s, None if found is None or found.cache in in_use else found)


def forget_ended(paths: JobPaths, keep_s: float) -> None:
    """Remove what jobs left that ended `keep_s` seconds ago or more, other than that of `paths`."""
    for job in ended_jobs(time.time() - keep_s):
        with suppress(OSError):  # it is tried again at the end of the next job
            if job.paths != paths:
                job.remove()


def _heard_s(paths: JobPaths) -> float:
    times_s = []
    for path in (paths.journal, paths.lock):
        with suppress(OSError):
            times_s.append(path.stat().st_mtime)
    return max(times_s, default=0.0)


def _cache(paths: JobPaths) -> Leftovers | None:
    """Return cache and prefix directory of the embedded engine, as the job's first run said them."""
    with suppress(OSError, JournalError):
        for _, event in JournalReader(paths.journal):
            if isinstance(event, SettingsObserved):
                is_ours = event.engine == _ENGINE and event.cache and event.prefix
                return Leftovers(Path(event.cache), Path(event.prefix)) if is_ours else None
    return None


def _occupied(path: Path) -> int:
    """Return the bytes on disk below `path`, which may go away meanwhile."""
    occupied = 0
    for each in path.rglob("*"):
        with suppress(OSError):
            occupied += 512 * each.lstat().st_blocks
    return occupied
