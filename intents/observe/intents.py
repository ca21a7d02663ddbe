"""All intents of a job, and the observers that they come from."""

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import GoodputEvent, OutputCompleted, RestartCompleted
from ...goodput.interval.failures import Failures
from ..events import (
    AllocationObserved,
    NodeObserved,
    SettingsObserved,
    StorageProbed,
    TraceDigest,
    Values,
)
from ..intent import Intent
from ..settings import is_cached
from ..tune.knowledge import Knowledge
from .affinity import CoreAffinity
from .buffers import BufferObserver, BufferSizes
from .clean_start import CleanStart, CleanStartObserver
from .fault_model import FaultModel
from .fault_model import observe as observe_faults
from .fault_tolerance import FaultTolerance
from .fault_tolerance import observe as observe_tolerance
from .flush import FlushBehaviour, FlushObserver
from .history import History, HistoryObserver
from .nodes import Nodes
from .redundancy import Redundancy
from .redundancy import observe as observe_redundancy

_NONE = Failures()


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of the job's I/O, one field for each intent."""

    affinity: CoreAffinity = CoreAffinity()
    buffers: BufferSizes = BufferSizes()
    redundancy: Redundancy = Redundancy()
    flush: FlushBehaviour = FlushBehaviour()
    faults: FaultModel = FaultModel()
    clean_start: CleanStart = CleanStart()
    tolerance: FaultTolerance = FaultTolerance()
    history: History = History()

    def named(self) -> dict[str, Intent]:
        """Return the intents by the names that `scrtune explain` shows."""
        return {
            "core affinity": self.affinity,
            "buffer sizes": self.buffers,
            "redundancy scheme": self.redundancy,
            "flush": self.flush,
            "fault model": self.faults,
            "clean start": self.clean_start,
            "fault tolerance": self.tolerance,
            "history": self.history,
        }


NUMBERS = {
    "core affinity": 1,
    "buffer sizes": 2,
    "redundancy scheme": 3,
    "fault model": 3,
    "clean start": 4,
    "fault tolerance": 5,
    "history": 6,
    "flush": 8,
}
"""The study's number of an intent, by the name of :meth:`Intents.named`."""


class Observers:
    """The observers of one job. A new intent has its observer here and its field in :class:`Intents`."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._clean_start = CleanStartObserver()
        self._history = HistoryObserver()

    def begin_run(self, job: SettingsObserved, now: float) -> None:
        """Take in that a run of `job` begins."""
        self._clean_start.begin_run(job, now)

    def add_event(self, event: GoodputEvent, settings: Values) -> None:
        """Take in what happened to the job under `settings`."""
        self._history.add(event, is_cached=is_cached(settings))
        if isinstance(event, RestartCompleted):
            self._clean_start.add(event)

    def add_node(self, node: NodeObserved, now: float, *, is_cached: bool) -> None:
        """Take in one look at a node; `is_cached` as in :meth:`.nodes.Nodes.add_look`."""
        self.nodes.add_look(node, now, is_cached=is_cached)

    def add_probe(self, probe: StorageProbed, now: float) -> None:
        """Take in the rates of a node's storage."""
        self.nodes.add_probe(probe, now)

    def add_digest(self, digest: TraceDigest, now: float) -> None:
        """Take in a stretch of trace, of whichever node: sizes of all nodes are summed."""
        self.nodes.add_digest(digest, now)
        self._buffers.add(digest)

    def add_output(self, output: OutputCompleted) -> None:
        """Take in an output as the application told it."""
        self._buffers.add_output(output)

    def add_cost(self, cost: CheckpointCost, settings: Values) -> None:
        """Take in a checkpoint that ran under `settings`."""
        self._flush.add(cost, _key(settings))

    def observe(
        self,
        job: SettingsObserved | None,
        settings: Values,
        failures: Failures = _NONE,
        allocation: AllocationObserved | None = None,
        recalled: Knowledge | None = None,
    ) -> Intents:
        """Return the intents of `job` under `settings`, after `failures` and what earlier jobs taught."""
        scheme = str(settings["SCR_COPY_TYPE"])
        redundancy = observe_redundancy(job, scheme if job else None)
        flush = self.flush(settings)
        faults = observe_faults(job, scheme, failures, allocation, recalled)
        return Intents(
            affinity=self.nodes.affinity,
            buffers=self._buffers.observe(job.nodes if job else 1, max(1, self.nodes.traced)),
            redundancy=redundancy,
            flush=flush,
            faults=faults,
            clean_start=self._clean_start.observe(),
            tolerance=observe_tolerance(faults, redundancy, flush, settings),
            history=self._history.observe(job),
        )

    def flush(self, settings: Values) -> FlushBehaviour:
        """Return that intent alone, which no node's evidence is in."""
        return self._flush.observe(_key(settings))


def _key(settings: Values) -> str:
    return repr(sorted(settings.items()))
