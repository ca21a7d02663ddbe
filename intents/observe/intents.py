"""All intents of a job, and the observers that they come from."""

import msgspec
from msgspec.structs import replace

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import GoodputEvent, OutputCompleted, RestartCompleted, StepCompleted
from ...goodput.interval.failures import Failures
from ..declared import Declared
from ..events import (
    AllocationObserved,
    MetricObserved,
    NodeObserved,
    SettingsObserved,
    StorageProbed,
    StorageTargetsObserved,
    TraceDigest,
    Values,
)
from ..intent import Intent
from ..settings import is_cached
from ..tune.knowledge import Knowledge
from .affinity import CoreAffinity
from .checkpoint_rate import CheckpointRate, CheckpointRateObserver
from .checkpoints_required import CheckpointsRequired
from .checkpoints_required import observe as observe_checkpoints_required
from .divergence import Divergence, DivergenceObserver
from .faults.clean_start import CleanStart, CleanStartObserver
from .faults.fault_model import FaultModel
from .faults.fault_model import observe as observe_faults
from .faults.fault_tolerance import FaultTolerance
from .faults.fault_tolerance import observe as observe_tolerance
from .faults.history import History, HistoryObserver
from .faults.kept_checkpoints import KeptCheckpoints
from .faults.redundancy import Redundancy
from .faults.redundancy import observe as observe_redundancy
from .io.buffers import BufferObserver, BufferSizes
from .io.flush import FlushBehaviour, FlushObserver
from .io.output_sizes import OutputSizeObserver, OutputSizes
from .io.storage import StorageTargets
from .io.storage import observe as observe_targets
from .nodes import Nodes
from .workflow import Workflow, WorkflowObserver


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
    storage: StorageTargets = StorageTargets()
    outputs: OutputSizes = OutputSizes()
    checkpoints: CheckpointsRequired = CheckpointsRequired()
    rate: CheckpointRate = CheckpointRate()
    workflow: Workflow = Workflow()
    divergence: Divergence = Divergence()

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
            "storage targets": self.storage,
            "output sizes": self.outputs,
            "checkpoints required": self.checkpoints,
            "checkpoint rate": self.rate,
            "workflow": self.workflow,
            "divergence": self.divergence,
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
    "storage targets": 7,
    "output sizes": 9,
    "checkpoints required": 8,
    "checkpoint rate": 10,
    "workflow": 11,
    "divergence": 12,
}
"""The study's number of an intent, by the name of :meth:`Intents.named`."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job at `now_s` (epoch seconds) from elsewhere than its own I/O."""

    failures: Failures = Failures()
    allocation: AllocationObserved | None = None
    recalled: Knowledge | None = None
    now_s: float = 0.0


_NOTHING = Surroundings()


class Observers:
    """The observers of one job. A new intent has its observer here and its field in :class:`Intents`."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._clean_start = CleanStartObserver()
        self._history = HistoryObserver()
        self._rate = CheckpointRateObserver()
        self._workflow = WorkflowObserver()
        self._divergence = DivergenceObserver()
        self._kept = KeptCheckpoints()
        self._taken = 0
        self._outputs = OutputSizeObserver()
        self.targets: StorageTargetsObserved | None = None
        """What the prefix directory is on."""

    def begin_run(self, job: SettingsObserved, now: float) -> None:
        """Take in that a run of `job` begins."""
        self._clean_start.begin_run(job, now)
        self._workflow.begin_run()
        self._divergence.begin_run()

    def add_event(self, event: GoodputEvent, settings: Values) -> None:
        """Take in what happened to the job under `settings`."""
        self._history.add(event, is_cached=is_cached(settings))
        self._kept.add(event, is_cached=is_cached(settings))
        match event:
            case RestartCompleted():
                self._clean_start.add(event)
            case StepCompleted():
                self._workflow.add_step(event.end_s - event.start_s)
            case OutputCompleted():
                self._buffers.add_output(event)
                self._outputs.add_output(event)
                self._taken += event.checkpoint and event.valid

    def add_node(self, node: NodeObserved, now: float, *, is_cached: bool) -> None:
        """Take in one look at a node; `is_cached` as in :meth:`.nodes.Nodes.add_look`."""
        self.nodes.add_look(node, now, is_cached=is_cached)
        self._workflow.add_node(node)

    def add_probe(self, probe: StorageProbed, now: float) -> None:
        """Take in the rates of a node's storage."""
        self.nodes.add_probe(probe, now)

    def add_digest(self, digest: TraceDigest, now: float) -> None:
        """Take in a stretch of trace, of whichever node: sizes of all nodes are summed."""
        self.nodes.add_digest(digest, now)
        self._buffers.add(digest)
        self._outputs.add(digest)
        self._workflow.add_digest(digest)

    def add_metric(self, metric: MetricObserved, job: SettingsObserved | None) -> bool:
        """Take in a value that the application measured; return whether a divergence began or ended."""
        return self._divergence.add(metric, job.declared.metric if job else "")

    def add_cost(self, cost: CheckpointCost, settings: Values) -> None:
        """Take in a checkpoint that ran under `settings`."""
        self._flush.add(cost, _key(settings))
        self._rate.add(cost)

    def observe(
        self,
        job: SettingsObserved | None,
        settings: Values,
        around: Surroundings = _NOTHING,
    ) -> Intents:
        """Return the intents of `job` under `settings`, by what was observed and what is `around` it."""
        scheme = str(settings["SCR_COPY_TYPE"])
        redundancy = observe_redundancy(job, scheme if job else None)
        flush = self._flush.observe(_key(settings))
        failures, allocation, now = around.failures, around.allocation, around.now_s
        faults = observe_faults(job, scheme, failures, allocation, around.recalled)
        declared = job.declared if job else Declared()
        divergence = self._divergence.observe(declared.metric)
        keeps = settings.get("SCR_PREFIX_SIZE", 0)
        back_to = self._kept.newest(divergence.good_s, keeps if isinstance(keeps, int) else 0)
        return Intents(
            affinity=self.nodes.affinity,
            buffers=self._buffers.observe(job.nodes if job else 1, max(1, self.nodes.traced)),
            redundancy=redundancy,
            flush=flush,
            faults=faults,
            clean_start=self._clean_start.observe(),
            tolerance=observe_tolerance(faults, redundancy, flush, settings),
            history=self._history.observe(job),
            storage=observe_targets(self.targets),
            outputs=self._outputs.observe(),
            checkpoints=observe_checkpoints_required(
                declared, self._taken, failures.observed_s, allocation, now
            ),
            rate=self._rate.observe(failures),
            divergence=replace(divergence, back_to=back_to if divergence.sign else ""),
            workflow=self._workflow.observe(allocation, now),
        )

    def flush(self, settings: Values) -> FlushBehaviour:
        """Return that intent alone, which no node's evidence is in."""
        return self._flush.observe(_key(settings))


def _key(settings: Values) -> str:
    return repr(sorted(settings.items()))
