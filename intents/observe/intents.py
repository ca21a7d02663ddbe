"""All intents of a job, and the observers that they come from."""

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import OutputCompleted
from ..events import NodeObserved, SettingsObserved, StorageTargetsObserved, TraceDigest, Values
from ..intent import Intent
from .affinity import AffinityObserver, CoreAffinity
from .buffers import BufferObserver, BufferSizes
from .flush import FlushBehaviour, FlushObserver
from .output_sizes import OutputSizeObserver, OutputSizes
from .redundancy import Redundancy
from .redundancy import observe as observe_redundancy
from .storage import StorageTargets
from .storage import observe as observe_targets


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of the job's I/O, one field for each intent."""

    affinity: CoreAffinity = CoreAffinity()
    buffers: BufferSizes = BufferSizes()
    redundancy: Redundancy = Redundancy()
    flush: FlushBehaviour = FlushBehaviour()
    storage: StorageTargets = StorageTargets()
    outputs: OutputSizes = OutputSizes()

    def named(self) -> dict[str, Intent]:
        """Return the intents by the names that `scrtune explain` shows."""
        return {
            "core affinity": self.affinity,
            "buffer sizes": self.buffers,
            "redundancy scheme": self.redundancy,
            "flush": self.flush,
            "storage targets": self.storage,
            "output sizes": self.outputs,
        }


class Observers:
    """The observers of one job. A new intent has its observer here and its field in :class:`Intents`."""

    def __init__(self) -> None:
        self._affinity = AffinityObserver()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()
        self._outputs = OutputSizeObserver()
        self.targets: StorageTargetsObserved | None = None

    def add_node(self, node: NodeObserved, now: float) -> None:
        """Take in one look at the node."""
        self._affinity.add(node, now)

    def add_digest(self, digest: TraceDigest) -> None:
        """Take in a stretch of trace."""
        self._buffers.add(digest)
        self._outputs.add(digest)

    def add_targets(self, found: StorageTargetsObserved) -> None:
        """Take in what the prefix directory is on."""
        self.targets = found

    def add_output(self, output: OutputCompleted) -> None:
        """Take in an output as the application told it."""
        self._buffers.add_output(output)
        self._outputs.add_output(output)

    def add_cost(self, cost: CheckpointCost, settings: Values) -> None:
        """Take in a checkpoint that ran under `settings`."""
        self._flush.add(cost, _key(settings))

    def observe(self, job: SettingsObserved | None, settings: Values) -> Intents:
        """Return the intents of `job` under `settings`."""
        scheme = str(settings["SCR_COPY_TYPE"]) if job else None
        return Intents(
            affinity=self._affinity.observe(),
            buffers=self._buffers.observe(job.nodes if job else 1),
            redundancy=observe_redundancy(job, scheme),
            flush=self._flush.observe(_key(settings)),
            storage=observe_targets(self.targets),
            outputs=self._outputs.observe(),
        )


def _key(settings: Values) -> str:
    return repr(sorted(settings.items()))
