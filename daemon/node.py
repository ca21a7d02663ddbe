"""The node as psutil sees it: cores, the application's masks and use, memory, room in the cache."""

from collections.abc import Iterable

import psutil

from ..intents.events import NodeObserved, ProcessUse


class NodeObserver:
    """Looks at the node now and then; use is measured from one look to the next."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._processes: dict[int, psutil.Process] = {}
        psutil.cpu_percent(None)  # the first call only sets psutil's own mark

    def look(self, pids: Iterable[int], cache: str = "") -> NodeObserved:
        """One look. `pids` are the application's processes, `cache` the directory that datasets go to."""
        wanted = set(pids)
        for gone in self._processes.keys() - wanted:
            del self._processes[gone]
        uses = tuple(use for pid in sorted(wanted) if (use := self._use(pid)) is not None)
        cpus = self._allowed(uses)
        return NodeObserved(
            host=self._host,
            cpus=cpus,
            processes=uses,
            cores_busy=psutil.cpu_percent(None) / 100 * len(cpus),
            memory_available_bytes=int(psutil.virtual_memory().available),
            cache_free_bytes=_free_bytes(cache),
        )

    def _allowed(self, uses: Iterable[ProcessUse]) -> tuple[int, ...]:
        """The CPUs the job may use: ours (an allocation's cpuset binds us too) and those of its processes."""
        return tuple(sorted({*psutil.Process().cpu_affinity(), *(cpu for use in uses for cpu in use.cpus)}))

    def _use(self, pid: int) -> ProcessUse | None:
        try:
            known = pid in self._processes
            process = self._processes.setdefault(pid, psutil.Process(pid))
            cores_used = process.cpu_percent(None) / 100
            cpus = tuple(sorted(process.cpu_affinity()))
        except psutil.Error:
            self._processes.pop(pid, None)
            return None
        return ProcessUse(pid=pid, cpus=cpus, cores_used=cores_used) if known else None


def _free_bytes(directory: str) -> int:
    if not directory:
        return 0
    try:
        return int(psutil.disk_usage(directory).free)
    except OSError:
        return 0
