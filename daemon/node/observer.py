"""The node as psutil sees it: the job's ranks, their masks and CPU use, memory, room in the cache."""

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil
from msgspec import structs

from ...client.paths import JobPaths
from ...intents.events import NodeObserved, ProcessUse, SettingsObserved
from .machine import Machine

_MAX_PROCESSES = 1024  # of one job on one node: each costs a few system calls
_MAX_THREADS = 4096  # of all of them: a system call each
_LIBSCR = re.compile(r"/libscr(?!tune)[^/\n]*\.so")


class NodeObserver:
    """Observes the node now and then; CPU use is measured from one observation to the next."""

    def __init__(self, host: str, machine: Machine | None = None) -> None:
        self._host = host
        self._machine = machine or Machine()
        self._processes: dict[int, psutil.Process] = {}

    def look(self, pids: Iterable[int], cache: str = "") -> NodeObserved:
        """Return one observation of the processes `pids`, with the free bytes where `cache` is.

        A process is in it from its second observation on, until it has ended.
        """
        wanted = sorted(set(pids))[:_MAX_PROCESSES]
        for gone in self._processes.keys() - set(wanted):
            del self._processes[gone]
        uses = tuple(use for pid in wanted if (use := self._use(pid)) is not None)
        # the CPUs the job may use: ours (an allocation's cpuset binds us too) and those of its processes
        cpus = {*os.sched_getaffinity(0), *(cpu for use in uses for cpu in use.cpus)}
        limits = self._machine.limits()
        memory_bytes = int(psutil.virtual_memory().available)
        if limits.memory_bytes is not None:
            memory_bytes = min(memory_bytes, limits.memory_bytes)
        return NodeObserved(
            host=self._host,
            cpus=tuple(sorted(cpus)),
            processes=_with_threads(uses, len(cpus)),
            memory_available_bytes=memory_bytes,
            dirty_limit_bytes=self._machine.dirty_limit_bytes(memory_bytes),
            cache_free_bytes=_free_bytes(cache),
            siblings=self._machine.siblings,
            numa=self._machine.numa,
            core_limit=limits.cores,
            is_virtual=self._machine.is_virtual,
            link_bytes_per_s=self._machine.link_bytes_per_s,
            time_s=time.time(),
        )

    def _use(self, pid: int) -> ProcessUse | None:
        try:
            process = self._processes.get(pid)
            known = process is not None and process.is_running()  # else its pid is another process's by now
            if process is None or not known:
                process = self._processes[pid] = psutil.Process(pid)
            cores_used = process.cpu_percent(None) / 100
            cpus, name = tuple(sorted(process.cpu_affinity())), process.name()
        except (psutil.Error, OSError, ValueError, OverflowError):  # the last two: a number that is no pid
            self._processes.pop(pid, None)
            return None
        return ProcessUse(pid=pid, cpus=cpus, cores_used=cores_used, name=name) if known else None


class JobNode:
    """This node, with the ranks of a job on it: as the application names them, else as the system shows."""

    def __init__(self, paths: JobPaths) -> None:
        self._paths, self._node = paths, NodeObserver(paths.host)
        self._job: SettingsObserved | None = None
        self._found: list[int] = []

    def pids(self, job: SettingsObserved) -> list[int]:
        """Return the process ids that `job` names on this node; if it names none, the processes with libscr.

        These are searched for until some are found, once for each run: SCR_Init has returned on all by then.
        """
        if job.processes:
            return [pid for host, pid in job.processes if host == self._paths.host]
        if job is not self._job or not self._found:
            self._job = job
            self._found = sorted(each.pid for each in psutil.process_iter() if self._is_rank(each))
        return self._found

    def look(self, job: SettingsObserved) -> NodeObserved:
        """Return one observation."""
        return self._node.look(self.pids(job), job.cache)

    def ranks(self, job: SettingsObserved) -> int:
        """Return how many ranks are here; where none is found, the mean of all nodes."""
        return len(self.pids(job)) or -(-job.ranks // max(1, job.nodes))

    def _is_rank(self, process: psutil.Process) -> bool:
        """Return whether it was started with this job's variables and has mapped libscr."""
        own = {"SCRTUNE_JOB_ID": self._paths.job_id, "SCRTUNE_EVENTS_FILE": str(self._paths.library_events)}
        try:
            if not own.items() <= process.environ().items():
                return False
            maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
        except (psutil.Error, OSError):  # it has ended, or is somebody else's
            return False
        return _LIBSCR.search(maps) is not None


def _with_threads(uses: tuple[ProcessUse, ...], cpus: int) -> tuple[ProcessUse, ...]:
    """Return `uses` with the CPUs that other threads are bound to, on a node that has so many."""
    left, found = _MAX_THREADS, []
    for use in uses:
        masks = _thread_masks(use.pid, left)
        left -= len(masks)
        bound = {cpu for mask in masks if len(mask) < cpus for cpu in mask}
        found.append(structs.replace(use, thread_cpus=tuple(sorted(bound - {*use.cpus}))))
    return tuple(found)


def _thread_masks(pid: int, most: int) -> list[set[int]]:
    """Return the affinity masks of the process's threads, as many as may be asked for."""
    masks = []
    with suppress(OSError, ValueError):  # it has ended
        for tid in islice(os.listdir(f"/proc/{pid}/task"), max(0, most)):  # noqa: PTH208 - names are enough
            with suppress(OSError):  # the thread has
                masks.append(os.sched_getaffinity(int(tid)))
    return masks


def _free_bytes(directory: str) -> int:
    """Return the free bytes where `directory` is, or will be; 0 when that is not known."""
    for place in (Path(directory), *Path(directory).parents) if directory else ():
        try:
            return int(psutil.disk_usage(str(place)).free)
        except FileNotFoundError:
            continue
        except (OSError, ValueError):  # the last one: a name that no file can have
            return 0
    return 0
