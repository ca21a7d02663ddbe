"""Intent 1 of the LLNL study: process-core mapping, the node's cores and their use by the application."""

from collections import deque

import msgspec

from ...units import count_text
from ..events import NodeObserved
from ..intent import Evidence

_REMEMBERED = 30


class CoreAffinity(msgspec.Struct, frozen=True, kw_only=True):
    """The cores of the node that rank 0 runs on, and those that the application leaves idle.

    `unbound` are the CPUs in no application process's mask: threads that inherit a mask never run there by
    themselves. `spare_cores` are all cores less the application's measured use.
    """

    evidence: Evidence = Evidence()
    cpus: tuple[int, ...] = ()
    processes: int = 0
    bound: bool = False
    unbound: tuple[int, ...] = ()
    used_cores: float = 0.0
    spare_cores: float = 0.0
    mask_cores: int = 0
    """CPUs in the smallest mask of an application process."""

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.cpus:
            return "the node was not observed yet"
        masks = f"bound, {count_text(len(self.unbound), 'core')} in no mask" if self.bound else "not bound"
        return (
            f"{count_text(len(self.cpus), 'core')}; {self.used_cores:.2f} used by"
            f" {self.processes} application {'process' if self.processes == 1 else 'processes'} ({masks});"
            f" {self.spare_cores:.2f} spare"
        )


class AffinityObserver:
    """Collects observations of the node; the application's use is the mean of the last ones."""

    def __init__(self) -> None:
        self._observed: deque[tuple[NodeObserved, float]] = deque(maxlen=_REMEMBERED)

    def add(self, node: NodeObserved, now: float) -> None:
        """Take in one observation. Without an application process it says nothing about the application."""
        if node.processes:
            self._observed.append((node, now))

    def observe(self) -> CoreAffinity:
        """Return the intent."""
        if not self._observed:
            return CoreAffinity()
        latest, now = self._observed[-1]
        used = [sum(process.cores_used for process in node.processes) for node, _ in self._observed]
        used_cores = sum(used) / len(used)
        masks = {cpu for process in latest.processes for cpu in process.cpus}
        return CoreAffinity(
            evidence=Evidence(
                count=len(self._observed),
                window_s=now - self._observed[0][1],
                end_s=now,
                source=latest.source,
            ),
            cpus=latest.cpus,
            processes=len(latest.processes),
            bound=any(len(process.cpus) < len(latest.cpus) for process in latest.processes),
            unbound=tuple(cpu for cpu in latest.cpus if cpu not in masks),
            used_cores=used_cores,
            mask_cores=min(len(process.cpus) for process in latest.processes),
            spare_cores=max(0.0, len(latest.cpus) - used_cores),
        )
