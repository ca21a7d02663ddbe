"""The input of levers, guard rails and the chooser: what is known of the job now."""

from functools import cached_property
from math import log1p

import msgspec

from ...goodput.interval.failure_rate import Posterior, posterior, typical
from ...goodput.interval.failures import Failures
from ..events import AllocationObserved, NodeObserved, SettingsObserved, StorageProbed, Values
from ..mutability import RunMutability
from ..observe.faults.redundancy import effective
from ..observe.intents import Intents
from ..settings import DEFAULTS, changes_text, is_cached, number
from ..tune.knowledge import Knowledge
from .durability import Rails, rails

_REINIT_S = 0.3
"""Of a re-init where it is not known what SCR_Init took."""
_REINIT_INITS, _REINIT_MORE_S = 2.0, 0.01
"""It is more than SCR_Init. Measured with 2 and 4 ranks on 2 cores: quiet, 2 to 7 ms after an SCR_Init of 1
to 12; beside two busy processes 3 ms after 2 to 3, or 140 to 380 ms after 70 to 235."""
_MEMORY = "/dev/shm"  # noqa: S108 - SCR's default of its cache (scr_conf.h), no temporary file of ours
MAX_FLUSH_THREADS = 16  # AXL's own cap (axl_pthread.c:26)
_MOST_AHEAD = 200
_FEWEST = 4
"""Checkpoints that a young job is taken to have had: 15 are expected of it then."""


class Held(msgspec.Struct, frozen=True):
    """The cache as it was observed last with datasets in it: `checkpoints` so far, under `settings`.

    Each checkpoint of the job had `checkpoint_bytes`.
    """

    checkpoints: int
    settings: Values
    free_bytes: int
    checkpoint_bytes: int


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
    held: Held | None = None
    obeyed: int = 0
    """The last ones in a row that were taken because SCR_Need_checkpoint said so."""
    probe: StorageProbed | None = None
    allocation: AllocationObserved | None = None
    recalled: Knowledge | None = None
    failures: Failures = Failures()
    felt_s: float = 0.0
    """Believed seconds that a checkpoint takes; 0: not known, or not before a trial has ended."""
    reinit_s: float = 0.0
    """Mean seconds of a re-init of SCR as measured; 0 before there was one."""
    why_no_cache: str = ""
    """Why the job must not be moved to the cache (:mod:`..observe.io.shared_files`), or empty."""
    why_no_bypass: str = ""
    """Why it must not be moved out of it, or empty."""

    @cached_property
    def rails(self) -> Rails:
        """What may never be traded for speed."""
        return rails(self.job, self.own)

    @cached_property
    def failure_rate(self) -> Posterior:
        """What is believed of the job's failures, after those seen."""
        survives_node = self.scheme(self.settings) != "SINGLE"
        return posterior(self.failures, typical(self.intents.redundancy.nodes, survives_node=survives_node))

    @cached_property
    def mtbf_s(self) -> float:
        """Mean seconds between failures, by the mean rate."""
        return self.failure_rate.mtbf_s

    @property
    def remaining(self) -> int:
        """Checkpoints that are expected to come, 200 at most.

        Without such knowledge more than n are to come after a job's first m with probability m / (m + n)
        (Gott 1993, Nature 363, 315). A gain is expected over the mean of that, not over its median m.
        """
        required = self.intents.checkpoints
        known = required.still_to_come(self.intents.flush.interval_s)
        most = _MOST_AHEAD if known is None else min(known, _MOST_AHEAD)
        if known is not None and required.is_length_declared:
            return most
        so_far = max(_FEWEST, self.checkpoints)
        return int(so_far * log1p(most / so_far))

    @property
    def reinit_prior_s(self) -> float:
        """Seconds of a re-init until one was measured, but for the flush that it may force."""
        init_s = self.job.init_s if self.job else 0.0
        return _REINIT_INITS * init_s + _REINIT_MORE_S if init_s > 0 else _REINIT_S

    def own_number(self, name: str) -> int:
        """Return the user's own value of a parameter as a number."""
        return number(self.own, name)

    @property
    def cached(self) -> bool:
        """True when datasets go through the cache now."""
        return is_cached(self.settings)

    def scheme(self, settings: Values) -> str:
        """Return the scheme that SCR uses on the job's nodes under `settings`."""
        return effective(str(settings.get("SCR_COPY_TYPE", "XOR")), self.intents.redundancy.nodes)

    def encodes(self, settings: Values) -> bool:
        """Return whether redundancy is computed under `settings`."""
        return is_cached(settings) and self.scheme(settings) != "SINGLE"

    @property
    def memory_bytes(self) -> int:
        """Available memory of a node; 0: not known."""
        return self.node.memory_available_bytes if self.node else 0

    @property
    def cache_free_bytes(self) -> int:
        """Free bytes of the cache; of one in memory at most those of the node's memory. 0: not known."""
        if self.node is None:
            return 0
        free_bytes = self.node.cache_free_bytes
        if self.held is not None:  # what was held counts as held, though it may have been evicted since
            free_bytes = min(free_bytes, self.held.free_bytes)
        is_bounded = self.caches_in_memory and self.memory_bytes > 0
        return min(free_bytes, self.memory_bytes) if is_bounded else free_bytes

    @property
    def cache_base(self) -> str:
        """Directory below which SCR's cache lies, without a slash at its end."""
        return str(self.job.settings.get("SCR_CACHE_BASE", _MEMORY) if self.job else _MEMORY).rstrip("/")

    @property
    def caches_in_memory(self) -> bool:
        """True when SCR's cache is in the node's memory, as it is by default."""
        return self.job is not None and self.job.cache.startswith(_MEMORY)

    @property
    def caches_on_device(self) -> bool:
        """True when SCR's cache is known to be elsewhere."""
        return self.job is not None and bool(self.job.cache) and not self.caches_in_memory

    @property
    def ranks_per_node(self) -> int:
        """Ranks on this node: those that were seen here, else the job's ranks over its nodes, rounded up.

        One host may stand for several nodes (simulated by the embedded engine) and serve them all.
        """
        redundancy = self.intents.redundancy
        seen = min(self.intents.affinity.processes, redundancy.ranks)
        return seen or -(-redundancy.ranks // redundancy.nodes)

    def node_bytes(self, checkpoint_bytes: int | None = None) -> float:
        """Return this node's part of a checkpoint of the job, by its ranks; of the last one by default."""
        of_job = self.intents.flush.checkpoint_bytes if checkpoint_bytes is None else checkpoint_bytes
        return of_job * self.ranks_per_node / self.intents.redundancy.ranks

    @property
    def files_per_rank(self) -> int:
        """Files of one rank in a checkpoint, at least 1."""
        return max(1, self.intents.flush.files // self.intents.redundancy.ranks)

    @property
    def copies_of_rank(self) -> int:
        """Files of one rank that a flush can copy at once, each with a buffer of its own."""
        return min(self.files_per_rank, MAX_FLUSH_THREADS)

    @property
    def copies_of_node(self) -> int:
        """The same of all ranks of a node."""
        return self.ranks_per_node * self.copies_of_rank


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
