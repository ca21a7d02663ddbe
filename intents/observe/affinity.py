"""Intent 1 of the LLNL study: process-core mapping, the node's cores and their use by the application."""

from array import array

import msgspec

from ...units import count_text
from ..events import NodeObserved
from ..intent import Evidence

_REMEMBERED = 30


class CoreAffinity(msgspec.Struct, frozen=True, kw_only=True):
    """The cores of a node, and those that the application leaves idle.

    Of several nodes it is the worst case (:mod:`.nodes`).

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
    nodes: int = 1
    host: str = ""
    """The node with the fewest spare cores, where several were observed."""
    others_spare_cores: float = 0.0
    """The median of the others'."""

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.cpus:
            return "the node was not observed yet"
        masks = f"bound, {count_text(len(self.unbound), 'core')} in no mask" if self.bound else "not bound"
        return (
            f"{count_text(len(self.cpus), 'core')}; {self.used_cores:.2f} used by"
            f" {self.processes} application {'process' if self.processes == 1 else 'processes'} ({masks});"
            f" {self.spare_cores:.2f} spare{self._others()}"
        )

    def _others(self) -> str:
        if self.nodes == 1:
            return ""
        return f" on node {self.host}, {self.others_spare_cores:.2f} on the others (their median)"


class AffinityObserver:
    """Collects observations of one node; the application's use is the mean of the last ones."""

    def __init__(self) -> None:
        self._found = CoreAffinity()
        self._used = array("d")
        self._times_s = array("d")

    def add(self, node: NodeObserved, now: float) -> None:
        """Take in one observation. Without an application process it says nothing about the application."""
        if not node.processes:
            return
        self._used.append(sum(process.cores_used for process in node.processes))
        self._times_s.append(now)
        del self._used[:-_REMEMBERED], self._times_s[:-_REMEMBERED]
        used_cores = sum(self._used) / len(self._used)
        masks = {cpu for process in node.processes for cpu in process.cpus}
        self._found = CoreAffinity(
            evidence=Evidence(
                count=len(self._used),
                window_s=self._times_s[-1] - self._times_s[0],
                end_s=self._times_s[-1],
                source=node.source,
            ),
            cpus=node.cpus,
            processes=len(node.processes),
            bound=any(len(process.cpus) < len(node.cpus) for process in node.processes),
            unbound=tuple(cpu for cpu in node.cpus if cpu not in masks),
            used_cores=used_cores,
            mask_cores=min(len(process.cpus) for process in node.processes),
            spare_cores=max(0.0, len(node.cpus) - used_cores),
        )

    def observe(self) -> CoreAffinity:
        """Return the intent."""
        return self._found
