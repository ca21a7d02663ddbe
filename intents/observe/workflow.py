"""Intent 11 of the LLNL study: whether the allocation is shared by several applications, and when it ends."""

from collections import Counter

import msgspec

from ...units import count_text
from ...units import rounded_duration_text as _time
from ..events import AllocationObserved, NodeObserved, TraceDigest
from ..intent import Evidence, Intent

_MOST_PROCESSES, _MOST_HOSTS, _MOST_NAMES = 65_536, 4096, 64
_MANY = 2
"""Traced processes for each rank: more of them are applications of their own."""


class Workflow(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The applications of the allocation, as far as they were seen.

    `steps` are the scheduler's, `programs` the names of the job's processes, `processes` counts those that
    were traced on the node where they are most beside its `ranks`. `longest_step_s` is of the application's
    recent steps: after so long at most it asks SCR again. `left_s` is until the end of the allocation.
    """

    title, number = "workflow", 11

    evidence: Evidence = Evidence()
    scheduler: str = ""
    steps: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    processes: int = 0
    ranks: int = 0
    runs: int = 0
    left_s: float | None = None
    longest_step_s: float = 0.0

    @property
    def is_one(self) -> bool:
        """True when there is more than one application, one after the other or side by side."""
        is_many = self.ranks > 0 and self.processes > _MANY * self.ranks
        return len(self.steps) > 1 or len(self.programs) > 1 or is_many

    def _text(self) -> str:
        found = []
        if self.steps:
            found.append(f"{count_text(len(self.steps), 'step')} of {self.scheduler}")
        if self.programs:
            found.append(f"programs {', '.join(self.programs)}")
        if self.processes and self.ranks:
            processes = count_text(self.processes, "process", "processes")
            found.append(f"{processes} traced beside {count_text(self.ranks, 'rank')} of a node")
        if self.left_s is not None:
            found.append(f"the allocation ends in {_time(self.left_s)}")
        seen = "; ".join(found) or "no allocation, and no process was seen yet"
        return f"{'a workflow' if self.is_one else 'one application'}: {seen}"


class WorkflowObserver:
    """Collects the names and numbers of processes and runs; bounded."""

    def __init__(self) -> None:
        self._programs: set[str] = set()
        self.processes: set[tuple[str, int]] = set()
        """(host, pid) of those that were traced."""
        self._traced: Counter[str] = Counter()
        """Processes by host."""
        self._ranks: Counter[str] = Counter()
        self._runs = self._looks = 0
        self._looked_s: tuple[float, ...] = ()
        """When the node was looked at first and last (epoch seconds)."""
        self._steps_s = (0.0, 0.0)
        self._count = 0

    def add_node(self, node: NodeObserved, now: float) -> None:
        """Take in one look at the node."""
        self._looks += 1
        self._looked_s = (*self._looked_s[:1], now)
        if node.host in self._ranks or len(self._ranks) < _MOST_HOSTS:
            self._ranks[node.host] = max(self._ranks[node.host], len(node.processes))
        for use in node.processes:
            if use.name and len(self._programs) < _MOST_NAMES:
                self._programs.add(use.name)

    def add_digest(self, digest: TraceDigest) -> None:
        """Take in the processes of a stretch of trace."""
        for each in digest.processes:
            if each not in self.processes and len(self.processes) < _MOST_PROCESSES:
                self.processes.add(each)
                self._traced[each[0]] += 1

    def add_step(self, seconds: float) -> None:
        """Take in one step of the application: of the last hundred or two the longest is remembered."""
        self._count += 1
        before, here = self._steps_s
        self._steps_s = (here, seconds) if self._count % 100 == 0 else (before, max(here, seconds))

    def begin_run(self) -> None:
        """Take in that a run of the job begins."""
        self._runs += 1

    def observe(self, allocation: AllocationObserved | None, now: float) -> Workflow:
        """Return the intent at `now` (epoch seconds)."""
        found = allocation or AllocationObserved(scheduler="")
        source = f"{found.scheduler} and the node" if allocation else "the node"
        times_s = (*self._looked_s, found.time_s) if allocation else self._looked_s or (0.0,)
        ranks = {host: ranks for host, ranks in self._ranks.items() if ranks}
        host = max(ranks, key=lambda each: self._traced[each] / ranks[each], default="")
        return Workflow(
            evidence=Evidence(
                self._looks + (allocation is not None), max(times_s) - min(times_s), max(times_s), source
            ),
            scheduler=found.scheduler,
            steps=found.steps,
            programs=tuple(sorted(self._programs)),
            processes=self._traced[host],
            ranks=ranks.get(host, 0),
            runs=self._runs,
            left_s=max(0.0, found.end_s - now) if found.end_s else None,
            longest_step_s=max(self._steps_s),
        )
