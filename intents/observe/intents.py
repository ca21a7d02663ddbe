"""All intents of a job, and the observers that they come from."""

import msgspec
from msgspec.structs import replace

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import GoodputEvent, OutputCompleted, RestartCompleted, StepCompleted
from ...goodput.interval.failures import FailureWatch
from ..declared import Declared
from ..events import (
    AllocationObserved,
    MetricObserved,
    NodeLeft,
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
from . import checkpoints_required
from .affinity import CoreAffinity
from .checkpoint_rate import CheckpointRate, CheckpointRateObserver
from .checkpoints_required import CheckpointsRequired
from .divergence import Divergence, DivergenceObserver
from .faults import fault_model, fault_tolerance, redundancy
from .faults.clean_start import CleanStart, CleanStartObserver
from .faults.fault_model import FaultModel
from .faults.fault_tolerance import FaultTolerance
from .faults.history import History, HistoryObserver
from .faults.redundancy import Redundancy
from .io import storage
from .io.buffers import BufferObserver, BufferSizes
from .io.flush import FlushBehaviour, FlushObserver
from .io.output_sizes import OutputSizeObserver, OutputSizes
from .io.storage import StorageTargets
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
        every: list[Intent] = [getattr(self, name) for name in self.__struct_fields__]
        return {each.title: each for each in every}


class Observers:
    """The observers of one job. A new intent has its observer here and its field in :class:`Intents`."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.failures = FailureWatch()
        self.workflow = WorkflowObserver()
        self.allocation: AllocationObserved | None = None
        self.targets: StorageTargetsObserved | None = None
        """What the prefix directory is on."""
        self.recalled: Knowledge | None = None
        """What earlier jobs taught."""
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._clean_start = CleanStartObserver()
        self._history = HistoryObserver()
        self._rate = CheckpointRateObserver()
        self._divergence = DivergenceObserver()
        self._taken = 0
        self._outputs = OutputSizeObserver()

    def begin_run(self, job: SettingsObserved, now: float) -> None:
        """Take in that a run of `job` begins."""
        self._clean_start.begin_run(job, now)
        self.workflow.begin_run()
        self._divergence.begin_run()

    def add_event(self, event: GoodputEvent, settings: Values) -> None:
        """Take in what happened to the job under `settings`."""
        self._history.add(event, is_cached=is_cached(settings))
        match event:
            case RestartCompleted():
                self._clean_start.add(event)
            case StepCompleted():
                self.workflow.add_step(event.end_s - event.start_s)
            case OutputCompleted():
                self.nodes.add_output(event)
                self._buffers.add_output(event)
                self._outputs.add_output(event)
                self._taken += event.checkpoint and event.valid

    def add_node(self, node: NodeObserved, now: float, *, is_cached: bool) -> bool:
        """Take in one look at a node; `is_cached` and result are those of :meth:`.nodes.Nodes.add_look`."""
        self.workflow.add_node(node, now)
        return self.nodes.add_look(node, now, is_cached=is_cached)

    def note(
        self, event: StorageProbed | StorageTargetsObserved | AllocationObserved | NodeLeft, now: float
    ) -> None:
        """Take in what is known of a node, of the storage or of the allocation."""
        match event:
            case StorageProbed():
                self.nodes.add_probe(event, now)
            case StorageTargetsObserved():
                self.targets = event
            case AllocationObserved():
                self.allocation = event
            case NodeLeft():
                self.nodes.forget(event.host)

    def add_digest(self, digest: TraceDigest, now: float) -> None:
        """Take in a stretch of trace, of whichever node: sizes of all nodes are summed."""
        self.nodes.add_digest(digest, now)
        self._buffers.add(digest)
        self._outputs.add(digest)
        self.workflow.add_digest(digest)

    def add_metric(self, metric: MetricObserved, job: SettingsObserved | None) -> bool:
        """Take in a value that the application measured; return whether a divergence began or ended."""
        return self._divergence.add(metric, job.declared.metric if job else "")

    def add_cost(self, cost: CheckpointCost, settings: Values) -> None:
        """Take in a checkpoint that ran under `settings`."""
        self._flush.add(cost, settings)
        self._rate.add(cost)

    def buffers(self, job: SettingsObserved | None) -> BufferSizes:
        """Return that intent alone."""
        return self._buffers.observe(job.nodes if job else 1, max(1, self.nodes.traced))

    def observe(self, job: SettingsObserved | None, settings: Values, now: float = 0.0) -> Intents:
        """Return the intents of `job` under `settings`, by what was observed until `now` (epoch seconds)."""
        scheme = str(settings["SCR_COPY_TYPE"])
        declared = job.declared if job else Declared()
        failures, allocation = self.failures.failures, self.allocation
        protected = redundancy.observe(job, settings)
        flush = self._flush.observe(settings)
        faults = fault_model.observe(job, scheme, failures, allocation, self.recalled)
        required = checkpoints_required.observe(declared, self._taken, failures.observed_s, allocation, now)
        return Intents(
            affinity=self.nodes.affinity,
            buffers=self.buffers(job),
            redundancy=protected,
            flush=flush,
            faults=faults,
            clean_start=self._clean_start.seen,
            tolerance=fault_tolerance.observe(faults, protected, flush, settings),
            history=self._history.observe(declared),
            storage=storage.observe(self.targets),
            outputs=self._outputs.observe(),
            checkpoints=required,
            rate=self._rate.observe(failures),
            divergence=self._diverged(declared, settings),
            workflow=self.workflow.observe(allocation, now),
        )

    def _diverged(self, declared: Declared, settings: Values) -> Divergence:
        found, keeps = self._divergence.observe(declared.metric), settings.get("SCR_PREFIX_SIZE", 0)
        if not found.sign:
            return found
        back_to = self._history.newest(found.good_s, keeps if isinstance(keeps, int) else 0)
        return replace(found, back_to=back_to)
