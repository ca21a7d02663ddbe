"""Intent 1 of the LLNL study: process-core mapping, the node's cores and their use by the application."""

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ...units import count_text
from ..events import NodeObserved
from ..intent import Evidence, Intent

_REMEMBERED = 30

if TYPE_CHECKING:
    Floats: TypeAlias = array[float]
else:
    Floats = array  # which takes no parameter at run time before Python 3.12


class CoreAffinity(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The cores of a node, and those that the application leaves idle.

    Of several nodes it is the worst case (:mod:`.nodes`).

    Linux's CPUs are `cpus`; those that are hyperthreads of one core are one of the `cores`. `unbound` are the
    CPUs of `idle_cores`, no CPU of which is in a mask of the application's processes or bound threads:
    threads that inherit a mask never run there by themselves. `spare_cores` are all cores, or as many as the
    cgroup lets the job use at once (`core_limit`, 0: all), less the application's measured use. That has the
    time in outputs, too, where ranks wait: with the share of the time between them in which rank 0's thread
    ran or waited for a core (`busy_share`, 0: not known) it is at least as many cores for each process.
    """

    title, number = "core affinity", 1
    unseen = "the node was not observed yet"

    evidence: Evidence = Evidence()
    cpus: tuple[int, ...] = ()
    cores: int = 0
    core_limit: float = 0.0
    numa_nodes: int = 1
    processes: int = 0
    bound: bool = False
    unbound: tuple[int, ...] = ()
    idle_cores: int = 0
    used_cores: float = 0.0
    spare_cores: float = 0.0
    mask_cores: int = 0
    """Cores in the smallest mask of an application process."""
    busy_share: float = 0.0
    nodes: int = 1
    host: str = ""
    """The node with the fewest spare cores, where several were observed."""
    others_spare_cores: float = 0.0
    """The median of the others'."""

    def _text(self) -> str:
        masks = f"bound, {count_text(self.idle_cores, 'core')} in no mask" if self.bound else "not bound"
        if self.busy_share:
            masks += f"; rank 0 wants a core {self.busy_share:.0%} of the time between outputs"
        return (
            f"{self._machine()}; {self.used_cores:.2f} used by"
            f" {self.processes} application {'process' if self.processes == 1 else 'processes'} ({masks});"
            f" {self.spare_cores:.2f} spare{self._others()}"
        )

    def _machine(self) -> str:
        more = (
            count_text(len(self.cpus), "hyperthread") if self.cores < len(self.cpus) else "",
            f"{self.numa_nodes} NUMA nodes" if self.numa_nodes > 1 else "",
            f"of which the cgroup allows {self.core_limit:g}" if 0 < self.core_limit < self.cores else "",
        )
        return ", ".join(filter(None, (count_text(self.cores, "core"), *more)))

    def _others(self) -> str:
        if self.nodes == 1:
            return ""
        return f" on node {self.host}, {self.others_spare_cores:.2f} on the others (their median)"

    def wanted(self, busy_share: float) -> "CoreAffinity":
        """Return the same where each process wants a core for at least `busy_share` of the time."""
        used_cores = max(self.used_cores, busy_share * self.processes)
        return msgspec.structs.replace(
            self,
            busy_share=busy_share,
            used_cores=used_cores,
            spare_cores=max(0.0, self.spare_cores - (used_cores - self.used_cores)),
        )


class AffinityObserver(msgspec.Struct):
    """Collects observations of one node; the application's use is the mean of the last ones."""

    found: CoreAffinity = CoreAffinity()
    used: Floats = msgspec.field(default_factory=lambda: Floats("d"))
    times_s: Floats = msgspec.field(default_factory=lambda: Floats("d"))

    def add(self, node: NodeObserved, now: float) -> None:
        """Take in one observation. Without an application process it says nothing about the application."""
        if not node.processes:
            return
        self.used.append(sum(process.cores_used for process in node.processes))
        self.times_s.append(now)
        del self.used[:-_REMEMBERED], self.times_s[:-_REMEMBERED]
        used_cores = sum(self.used) / len(self.used)
        core_of = {cpu: min(group) for group in node.siblings for cpu in group}

        def cores(cpus: Iterable[int]) -> set[int]:
            """Return the cores of `cpus`; a CPU of which nothing is known is a core."""
            return {core_of.get(cpu, cpu) for cpu in cpus}

        busy = cores(cpu for process in node.processes for cpu in (*process.cpus, *process.thread_cpus))
        unbound = tuple(cpu for cpu in node.cpus if core_of.get(cpu, cpu) not in busy)
        total = len(cores(node.cpus))
        self.found = CoreAffinity(
            evidence=Evidence(len(self.used), now - self.times_s[0], now, node.source),
            cpus=node.cpus,
            cores=total,
            core_limit=node.core_limit,
            numa_nodes=max(1, len(node.numa)),
            processes=len(node.processes),
            bound=any(len(process.cpus) < len(node.cpus) for process in node.processes),
            unbound=unbound,
            idle_cores=len(cores(unbound)),
            used_cores=used_cores,
            mask_cores=min(len(cores(process.cpus)) for process in node.processes),
            spare_cores=max(0.0, min(total, node.core_limit or total) - used_cores),
        )
