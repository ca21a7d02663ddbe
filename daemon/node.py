"""The node as psutil sees it: cores, the application's masks and use, memory, room in the cache."""

from collections.abc import Iterable
from pathlib import Path

import psutil

from ..intents.events import NodeObserved, ProcessUse

_MAX_PROCESSES = 1024  # of one job on one node: each costs a few system calls


class NodeObserver:
    """Looks at the node now and then; use is measured from one look to the next."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._processes: dict[int, psutil.Process] = {}
        psutil.cpu_percent(None)  # the first call only sets psutil's own mark

    def look(self, pids: Iterable[int], cache: str = "") -> NodeObserved:
        """One look. `pids` are the application's processes, `cache` the directory that datasets go to.

        A process is in it from its second look on, until it has gone.
        """
        wanted = sorted(set(pids))[:_MAX_PROCESSES]
        for gone in self._processes.keys() - set(wanted):
            del self._processes[gone]
        uses = tuple(use for pid in wanted if (use := self._use(pid)) is not None)
        return NodeObserved(
            host=self._host,
            cpus=self._allowed(uses),
            processes=uses,
            cores_busy=psutil.cpu_percent(None) / 100 * (psutil.cpu_count() or 1),
            memory_available_bytes=int(psutil.virtual_memory().available),
            cache_free_bytes=_free_bytes(cache),
        )

    def _allowed(self, uses: Iterable[ProcessUse]) -> tuple[int, ...]:
        """The CPUs the job may use: ours (an allocation's cpuset binds us too) and those of its processes."""
        return tuple(sorted({*psutil.Process().cpu_affinity(), *(cpu for use in uses for cpu in use.cpus)}))

    def _use(self, pid: int) -> ProcessUse | None:
        try:
            process = self._processes.get(pid)
            known = process is not None and process.is_running()  # else its pid is another process's by now
            if process is None or not known:
                process = self._processes[pid] = psutil.Process(pid)
            cores_used = process.cpu_percent(None) / 100
            cpus = tuple(sorted(process.cpu_affinity()))
        except (psutil.Error, OSError, ValueError, OverflowError):  # the last two: a number that is no pid
            self._processes.pop(pid, None)
            return None
        return ProcessUse(pid=pid, cpus=cpus, cores_used=cores_used) if known else None


def _free_bytes(directory: str) -> int:
    """What is free where `directory` is, or will be; 0 when that is not known."""
    if not directory:
        return 0
    for place in (Path(directory), *Path(directory).parents):
        try:
            return int(psutil.disk_usage(str(place)).free)
        except FileNotFoundError:
            continue
        except OSError:
            return 0
    return 0
