"""What the rules look at, and what they answer with."""

from collections.abc import Callable

import msgspec

from .affinity import CoreAffinity
from .buffers import BufferSizes
from .events import NodeObserved, Settings, SettingsObserved
from .flush import FlushBehaviour
from .intent import Intent
from .redundancy import Redundancy

MAX_FLUSH_THREADS = 16  # AXL's own cap (axl_pthread.c:26)


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the daemon knows about what the job is doing and needs."""

    affinity: CoreAffinity = CoreAffinity()
    buffers: BufferSizes = BufferSizes()
    redundancy: Redundancy = Redundancy()
    flush: FlushBehaviour = FlushBehaviour()

    def named(self) -> dict[str, Intent]:
        """By the name that `scrtune explain` shows."""
        return {
            "core affinity": self.affinity,
            "buffer sizes": self.buffers,
            "redundancy scheme": self.redundancy,
            "flush": self.flush,
        }


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at: the intents, and the settings in force."""

    intents: Intents
    settings: Settings
    job: SettingsObserved | None = None
    node: NodeObserved | None = None

    def integer(self, name: str, default: int) -> int:
        """A parameter's value in force as a number."""
        value = self.settings.get(name, default)
        return default if isinstance(value, str) else int(value)

    @property
    def cached(self) -> bool:
        """Whether datasets go through the cache at all (SCR's default is that they do not)."""
        return self.integer("SCR_CACHE_BYPASS", 1) == 0

    @property
    def ranks_per_node(self) -> int:
        """Ranks on this node, rounded up."""
        redundancy = self.intents.redundancy
        return -(-redundancy.ranks // max(1, redundancy.nodes))

    @property
    def flush_threads(self) -> int:
        """Threads that flush a rank's files now: the lever's value, else what AXL does by itself."""
        files = max(1, self.intents.flush.files // max(1, self.intents.redundancy.ranks))
        by_itself = min(max(1, len(self.intents.affinity.cpus)), files, MAX_FLUSH_THREADS)
        return self.integer("SCRTUNE_FLUSH_THREADS", 0) or by_itself


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of settings with everything that justifies it.

    `expected_gain_s` is seconds per checkpoint. A `required` change follows from what the user declared, and
    is made whatever it costs.
    """

    rule: str
    intent: str
    changes: Settings
    because: str
    source: str
    expected_gain_s: float = 0.0
    required: bool = False

    @property
    def key(self) -> str:
        """Names this change and no other: rule and values."""
        return f"{self.rule}: {changes_text(self.changes)}"


Rule = Callable[[Situation], Proposal | None]


def changes_text(changes: Settings) -> str:
    """``NAME=value NAME=value``, sorted."""
    return " ".join(f"{name}={value}" for name, value in sorted(changes.items()))
