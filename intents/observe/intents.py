"""All intents of a job, and the observers that they come from."""

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost
from ...goodput.events import OutputCompleted
from ..events import NodeObserved, SettingsObserved, StorageProbed, TraceDigest, Values
from ..intent import Intent
from .affinity import CoreAffinity
from .buffers import BufferObserver, BufferSizes
from .flush import FlushBehaviour, FlushObserver
from .nodes import Nodes
from .redundancy import Redundancy
from .redundancy import observe as observe_redundancy


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of the job's I/O, one field for each intent."""

    affinity: CoreAffinity = CoreAffinity()
    buffers: BufferSizes = BufferSizes()
    redundancy: Redundancy = Redundancy()
    flush: FlushBehaviour = FlushBehaviour()

    def named(self) -> dict[str, Intent]:
        """Return the intents by the names that `scrtune explain` shows."""
        return {
            "core affinity": self.affinity,
            "buffer sizes": self.buffers,
            "redundancy scheme": self.redundancy,
            "flush": self.flush,
        }


class Observers:
    """The observers of one job. A new intent has its observer here and its field in :class:`Intents`."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self._buffers = BufferObserver()
        self._flush = FlushObserver()

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

    def observe(self, job: SettingsObserved | None, settings: Values) -> Intents:
        """Return the intents of `job` under `settings`."""
        scheme = str(settings["SCR_COPY_TYPE"]) if job else None
        return Intents(
            affinity=self.nodes.affinity,
            buffers=self._buffers.observe(job.nodes if job else 1, max(1, self.nodes.traced)),
            redundancy=observe_redundancy(job, scheme),
            flush=self.flush(settings),
        )

    def flush(self, settings: Values) -> FlushBehaviour:
        """Return that intent alone, which no node's evidence is in."""
        return self._flush.observe(_key(settings))


def _key(settings: Values) -> str:
    return repr(sorted(settings.items()))
