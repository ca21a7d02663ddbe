"""The CPUs of this node as Linux shows them: hyperthreads of a core, NUMA nodes, and the cgroup's limits."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SYS = Path("/sys")
_PROC = Path("/proc")
_MOST_CPUS = 65_536


class CgroupLimits(NamedTuple):
    """What the cgroup leaves us: CPUs at once (0: all) and bytes of memory (None: all)."""

    cores: float = 0.0
    memory_bytes: int | None = None


class Machine:
    """Reads `sys` and `proc`. What cannot be read is not known: nothing is raised."""

    def __init__(self, sys: Path = _SYS, proc: Path = _PROC) -> None:
        self._cgroups = sys / "fs/cgroup"
        self._membership = proc / "self/cgroup"
        self._cpus = sys / "devices/system/cpu"
        self.numa = tuple(sorted(_groups(sys / "devices/system/node", "node[0-9]*/cpulist")))
        """The CPUs of each NUMA node that has some."""
        cores = set(_groups(self._cpus, "cpu[0-9]*/topology/thread_siblings_list"))
        self.siblings = tuple(sorted(core for core in cores if len(core) > 1))
        """The CPUs of each core that has several hyperthreads."""
        self.is_virtual = _has_hypervisor(proc / "cpuinfo") or (sys / "hypervisor/type").is_file()

    def limits(self) -> CgroupLimits:
        """Return the tightest limits of our cgroup and of all above it, as they are now."""
        cores = (found for path in self._paths("cpu") if (found := _cores(path)) > 0)
        memory = (left for path in self._paths("memory") if (left := _memory_bytes(path)) is not None)
        return CgroupLimits(min(cores, default=0.0), min(memory, default=None))

    def _paths(self, controller: str) -> Iterator[Path]:
        """Yield the directories of our cgroup, and those above it, of version 2 and 1."""
        for line in _text(self._membership).splitlines():
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if not controllers or controller in controllers.split(","):
                top = self._cgroups / controllers.partition(",")[0] if controllers else self._cgroups
                # the parents of a relative path end with "."
                for below in (each := Path(path.lstrip("/")), *each.parents):
                    yield top / below


def _has_hypervisor(cpuinfo: Path) -> bool:
    """Return whether the flags of an x86 processor say that there is a hypervisor below it."""
    flags = next((line for line in _text(cpuinfo).splitlines() if line.startswith("flags")), "")
    return "hypervisor" in flags.split()


def _cores(cgroup: Path) -> float:
    quota, period = (*_text(cgroup / "cpu.max").split(), "", "")[:2]
    if not period:
        quota, period = _text(cgroup / "cpu.cfs_quota_us"), _text(cgroup / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else 0.0


def _memory_bytes(cgroup: Path) -> int | None:
    """Return the bytes that are left of a limit; pages of files that can be dropped are not in use."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        most, now = _text(cgroup / limit), _text(cgroup / used)
        if most.isdigit() and now.isdigit():
            return max(0, int(most) - int(now) + _droppable_bytes(cgroup))
    return None


def _droppable_bytes(cgroup: Path) -> int:
    fields = dict(line.split(" ", 1) for line in _text(cgroup / "memory.stat").splitlines() if " " in line)
    found = fields.get("inactive_file", fields.get("total_inactive_file", "0"))
    return int(found) if found.isdigit() else 0


def _groups(directory: Path, pattern: str) -> Iterator[tuple[int, ...]]:
    for path in directory.glob(pattern):
        with suppress(ValueError):
            if cpus := _parsed(_text(path)):
                yield cpus


def _parsed(text: str) -> tuple[int, ...]:
    """Return the CPUs of Linux's list form, ``0-2,5``. Raises ValueError."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus = range(int(first), int(last or first) + 1)
        found += cpus[:_MOST_CPUS]
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except (OSError, ValueError):
        return ""
