"""All intents of a job, and the observers that they come from."""

import msgspec
from msgspec.structs import replace

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import GoodputEvent, OutputCompleted, StepCompleted
from ...goodput.interval.failures import Failures
from ..declared import Declared
from ..events import AllocationObserved, MetricObserved, NodeObserved, SettingsObserved, TraceDigest, Values
from ..intent import Intent
from ..settings import is_cached
from .affinity import AffinityObserver, CoreAffinity
from .buffers import BufferObserver, BufferSizes
from .checkpoint_rate import CheckpointRate, CheckpointRateObserver
from .checkpoints_required import CheckpointsRequired
from .checkpoints_required import observe as observe_checkpoints_required
from .divergence import Divergence, DivergenceObserver
from .flush import FlushBehaviour, FlushObserver
from .kept_checkpoints import KeptCheckpoints
from .redundancy import Redundancy
from .redundancy import observe as observe_redundancy
from .workflow import Workflow, WorkflowObserver

_NONE = Failures()


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of the job's I/O, one field for each intent."""

    affinity: CoreAffinity = CoreAffinity()
    buffers: BufferSizes = BufferSizes()
    redundancy: Redundancy = Redundancy()
    flush: FlushBehaviour = FlushBehaviour()
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
            "checkpoints required": self.checkpoints,
            "checkpoint rate": self.rate,
            "workflow": self.workflow,
            "divergence": self.divergence,
        }


class Observers:
    """The observers of one job. A new intent has its observer here and its field in :class:`Intents`."""

    def __init__(self) -> None:
        self._affinity = AffinityObserver()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._rate = CheckpointRateObserver()
        self._workflow = WorkflowObserver()
        self._divergence = DivergenceObserver()
        self._kept = KeptCheckpoints()
        self._taken = 0

    def add_node(self, node: NodeObserved, now: float) -> None:
        """Take in one look at the node."""
        self._affinity.add(node, now)
        self._workflow.add_node(node)

    def add_digest(self, digest: TraceDigest) -> None:
        """Take in a stretch of trace."""
        self._buffers.add(digest)
        self._workflow.add_digest(digest)

    def begin_run(self) -> None:
        """Take in that a run of the job begins."""
        self._workflow.begin_run()
        self._divergence.begin_run()

    def add_event(self, event: GoodputEvent, settings: Values) -> None:
        """Take in what happened to the job under `settings`."""
        self._kept.add(event, is_cached=is_cached(settings))
        match event:
            case StepCompleted():
                self._workflow.add_step(event.end_s - event.start_s)
            case OutputCompleted():
                self._buffers.add_output(event)
                self._taken += event.checkpoint and event.valid

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
        failures: Failures = _NONE,
        allocation: AllocationObserved | None = None,
        *,
        now: float = 0.0,
    ) -> Intents:
        """Return the intents of `job` under `settings`."""
        scheme = str(settings["SCR_COPY_TYPE"]) if job else None
        declared = job.declared if job else Declared()
        divergence = self._divergence.observe(declared.metric)
        keeps = settings.get("SCR_PREFIX_SIZE", 0)
        back_to = self._kept.newest(divergence.good_s, keeps if isinstance(keeps, int) else 0)
        return Intents(
            affinity=self._affinity.observe(),
            buffers=self._buffers.observe(job.nodes if job else 1),
            redundancy=observe_redundancy(job, scheme),
            flush=self._flush.observe(_key(settings)),
            checkpoints=observe_checkpoints_required(
                declared, self._taken, failures.observed_s, allocation, now
            ),
            rate=self._rate.observe(failures),
            divergence=replace(divergence, back_to=back_to if divergence.sign else ""),
            workflow=self._workflow.observe(allocation, now),
        )


def _key(settings: Values) -> str:
    return repr(sorted(settings.items()))
