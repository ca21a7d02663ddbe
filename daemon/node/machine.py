"""This node as Linux shows it: hyperthreads of a core, NUMA nodes, network links, the cgroup's limits."""

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
        self._vm = proc / "sys/vm"
        self.numa = tuple(sorted(_groups(sys / "devices/system/node", "node[0-9]*/cpulist")))
        """The CPUs of each NUMA node that has some."""
        cores = set(_groups(sys / "devices/system/cpu", "cpu[0-9]*/topology/thread_siblings_list"))
        self.siblings = tuple(sorted(core for core in cores if len(core) > 1))
        """The CPUs of each core that has several hyperthreads."""
        self.is_virtual = _has_hypervisor(proc / "cpuinfo") or (sys / "hypervisor/type").is_file()
        self.link_bytes_per_s = max([0.0, *_fabric_bits_per_s(sys), *_ethernet_bits_per_s(sys)]) / 8
        """Of the fastest link that is up; 0 where none says its rate."""

    def limits(self) -> CgroupLimits:
        """Return the tightest limits of our cgroup and of all above it, as they are now."""
        cores = (found for path in self._paths("cpu") if (found := _cores(path)) > 0)
        memory = (left for path in self._paths("memory") if (left := _memory_bytes(path)) is not None)
        return CgroupLimits(min(cores, default=0.0), min(memory, default=None))

    def dirty_limit_bytes(self, available_bytes: int) -> int:
        """Return how much of what was written may be in memory alone before Linux makes writers wait.

        0: not known. Source: Linux, mm/page-writeback.c, domain_dirty_limits() and dirty_freerun_ceiling():
        the middle between the thresholds of vm.dirty_background_ratio and vm.dirty_ratio, shares of the
        available memory, or those in bytes (Documentation/admin-guide/sysctl/vm.rst).
        """
        most, background = (
            _number(self._vm / f"{name}_bytes") or _number(self._vm / f"{name}_ratio") / 100 * available_bytes
            for name in ("dirty", "dirty_background")
        )
        return int((most + (background if background < most else most / 2)) / 2)

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


def _fabric_bits_per_s(sys: Path) -> Iterator[float]:
    """Yield the rates of active ports of InfiniBand, Omni-Path and RoCE.

    Source: Linux, Documentation/ABI/stable/sysfs-class-infiniband (``rate``: "100 Gb/sec (4X EDR)",
    ``state``: "4: ACTIVE").
    """
    for port in sys.glob("class/infiniband/*/ports/*"):
        if "ACTIVE" in _text(port / "state"):
            yield _number(port / "rate") * 1e9


def _ethernet_bits_per_s(sys: Path) -> Iterator[float]:
    """Yield the rates of Ethernet devices that are up and not virtual.

    Source: Linux, Documentation/ABI/testing/sysfs-class-net (``speed``: Mbit/s, ``device``: of no virtual
    one).
    """
    for device in sys.glob("class/net/*"):
        if _text(device / "operstate") == "up" and (device / "device").exists():
            yield _number(device / "speed") * 1e6


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


def _number(path: Path) -> float:
    """Return the number that a file begins with; 0 without one."""
    try:
        return float(_text(path).split()[0])
    except (ValueError, IndexError):
        return 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except (OSError, ValueError):
        return ""
