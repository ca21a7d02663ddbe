"""The input of levers, guard rails and the chooser: what is known of the job now."""

from functools import cached_property

import msgspec

from ..events import NodeObserved, SettingsObserved, StorageProbed, Values
from ..mutability import RunMutability
from ..observe.intents import Intents
from ..settings import DEFAULTS, changes_text, is_cached, number
from ..tune.knowledge import Knowledge
from .durability import Rails, rails

REINIT_PRIOR_S = 0.3
MAX_FLUSH_THREADS = 16  # AXL's own cap (axl_pthread.c:26)


class Situation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The intents, the user's own settings, the active ones, and what may be changed."""

    intents: Intents
    own: Values = msgspec.field(default_factory=DEFAULTS.copy)
    settings: Values = msgspec.field(default_factory=DEFAULTS.copy)
    job: SettingsObserved | None = None
    node: NodeObserved | None = None
    mutability: RunMutability = RunMutability()
    start_s: float = 0.0
    """Beginning of this run of the job, epoch seconds."""
    checkpoints: int = 0
    """Of the job so far."""
    obeyed: int = 0
    """The last ones in a row that were taken because SCR_Need_checkpoint said so."""
    node_checkpoints: int = 0
    """Those in the cache when `node` was observed, its size aside."""
    probe: StorageProbed | None = None
    recalled: Knowledge | None = None
    reinit_s: float = 0.0
    """Mean seconds of a re-init of SCR as measured; 0 before there was one."""
    reinit_prior_s: float = REINIT_PRIOR_S
    """Seconds of a re-init until one was measured, but for the flush that it may force."""
    why_no_cache: str = ""
    """Why the job must not be moved to the cache (:mod:`..observe.shared_files`), or empty."""
    why_no_bypass: str = ""
    """Why it must not be moved out of it, or empty."""

    @cached_property
    def rails(self) -> Rails:
        """What may never be traded for speed."""
        return rails(self.job, self.own)

    def own_number(self, name: str) -> int:
        """Return the user's own value of a parameter as a number."""
        return number(self.own, name)

    @property
    def cached(self) -> bool:
        """True when datasets go through the cache now."""
        return is_cached(self.settings)

    @property
    def ranks_per_node(self) -> int:
        """Ranks on this node: those that were seen here, else the job's ranks over its nodes, rounded up.

        One host may stand for several nodes (simulated by the embedded engine) and serve them all.
        """
        redundancy = self.intents.redundancy
        seen = min(self.intents.affinity.processes, redundancy.ranks)
        return seen or -(-redundancy.ranks // redundancy.nodes)

    @property
    def files_per_rank(self) -> int:
        """Files of one rank in a checkpoint, at least 1."""
        return max(1, self.intents.flush.files // self.intents.redundancy.ranks)


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of settings with its justification.

    `expected_gain_s` is seconds per checkpoint. A `required` change follows from the user's declaration and
    is made at any cost.
    """

    rule: str
    intent: str
    changes: Values
    because: str
    source: str
    expected_gain_s: float = 0.0
    required: bool = False

    @property
    def key(self) -> str:
        """Rule and values, which identify the change."""
        return f"{self.rule}: {changes_text(self.changes)}"
