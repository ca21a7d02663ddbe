"""Intent 1 of the study: process-core mapping. Which cores the node has, and which the application uses."""

from collections import deque

import msgspec

from ..events import NodeObserved
from ..intent import Evidence

_REMEMBERED = 30


class CoreAffinity(msgspec.Struct, frozen=True, kw_only=True):
    """The cores of the node that rank 0 runs on, and what the application leaves of them.

    `unbound` are the CPUs in no application process's mask: threads that inherit a mask never get there by
    themselves. `spare_cores` is what is left of all cores after the application's measured use.
    """

    evidence: Evidence = Evidence()
    cpus: tuple[int, ...] = ()
    processes: int = 0
    bound: bool = False
    unbound: tuple[int, ...] = ()
    used_cores: float = 0.0
    spare_cores: float = 0.0

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.cpus:
            return "the node has not been looked at yet"
        masks = f"bound, {len(self.unbound)} cores in no mask" if self.bound else "not bound"
        return (
            f"{len(self.cpus)} cores; {self.processes} application processes keep {self.used_cores:.2f} busy"
            f" ({masks}); {self.spare_cores:.2f} spare"
        )


class AffinityObserver:
    """Collects looks at the node; the application's use is averaged over the last ones."""

    def __init__(self) -> None:
        self._looks: deque[tuple[NodeObserved, float]] = deque(maxlen=_REMEMBERED)

    def add(self, node: NodeObserved, now: float) -> None:
        """Take one look in. A look that saw no application process says nothing about it."""
        if node.processes:
            self._looks.append((node, now))

    def observe(self) -> CoreAffinity:
        """The intent as it stands."""
        if not self._looks:
            return CoreAffinity()
        latest, now = self._looks[-1]
        used = [sum(process.cores_used for process in node.processes) for node, _ in self._looks]
        used_cores = sum(used) / len(used)
        masks = {cpu for process in latest.processes for cpu in process.cpus}
        return CoreAffinity(
            evidence=Evidence(count=len(self._looks), window_s=now - self._looks[0][1], source=latest.source),
            cpus=latest.cpus,
            processes=len(latest.processes),
            bound=any(len(process.cpus) < len(latest.cpus) for process in latest.processes),
            unbound=tuple(cpu for cpu in latest.cpus if cpu not in masks),
            used_cores=used_cores,
            spare_cores=max(0.0, len(latest.cpus) - used_cores),
        )
