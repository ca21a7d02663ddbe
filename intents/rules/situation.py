"""The input of the rules, and their output."""

from collections.abc import Callable
from math import inf, isfinite

import msgspec

from ..events import NodeObserved, SettingsObserved, Values
from ..mutability import RunMutability
from ..observe.intents import Intents

MAX_FLUSH_THREADS = 16  # AXL's own cap (axl_pthread.c:26)
REINIT_PRIOR_S = 0.03

DEFAULTS: Values = {
    "SCR_CACHE_BYPASS": 1,
    "SCR_CACHE_SIZE": 1,
    "SCR_COPY_TYPE": "XOR",
    "SCR_FILE_BUF_SIZE": 32 * 1024**2,
    "SCR_FLUSH": 10,
    "SCR_FLUSH_ASYNC": 0,
    "SCR_FLUSH_TYPE": "SYNC",
    "SCR_FLUSH_WIDTH": 256,
    "SCR_MPI_BUF_SIZE": 1024**2,
    "SCR_SET_SIZE": 8,
    "SCRTUNE_FLUSH_CPUS": "",
    "SCRTUNE_FLUSH_THREADS": 0,
}
"""The parameters that rules read and change, with SCR's defaults; those of the SCRTUNE_ levers mean AXL's own
number of threads and their inherited mask. A job's settings are laid over these, so that every change can be
reverted."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The intents, the active settings, and what may be changed."""

    intents: Intents
    settings: Values
    job: SettingsObserved | None = None
    node: NodeObserved | None = None
    mutability: RunMutability = RunMutability()
    checkpoints: int = 0
    """Of the job so far."""
    reinit_s: float = 0.0
    """Mean seconds of a re-init of SCR as measured; 0 before there was one."""
    reinit_prior_s: float = REINIT_PRIOR_S
    """Seconds that a re-init is taken to last at least, but for the flush that it may force."""
    trial_budget_s: float = inf
    """Seconds that trials may still cost."""
    why_no_cache: str = ""
    """Why the job must not be moved to the cache (:mod:`..observe.shared_files`), or empty."""

    def integer(self, name: str) -> int:
        """Return the active value of a parameter as a number; SCR's default when it is none."""
        return number(self.settings, name)

    @property
    def cached(self) -> bool:
        """True when datasets go through the cache (by SCR's default they do not)."""
        return self.integer("SCR_CACHE_BYPASS") == 0

    @property
    def asynchronous(self) -> bool:
        """True when flushes run beside the computation; those of type SYNC block in any case."""
        return self.integer("SCR_FLUSH_ASYNC") == 1 and self.settings.get("SCR_FLUSH_TYPE") != "SYNC"

    @property
    def felt_flush_s(self) -> float:
        """Seconds of each checkpoint that a faster flush could save."""
        flush = self.intents.flush
        return flush.wait_s if self.asynchronous else flush.blocked_on_flush_s

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

    @property
    def flush_threads(self) -> int:
        """Threads that flush a rank's files now: the lever's value, else AXL's own number."""
        if self.settings.get("SCR_FLUSH_TYPE") == "SYNC":
            return 1
        axl_threads = min(max(1, len(self.intents.affinity.cpus)), MAX_FLUSH_THREADS)
        return min(self.integer("SCRTUNE_FLUSH_THREADS") or axl_threads, self.files_per_rank)


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

    def beyond(self, settings: Values) -> "Proposal":
        """Return a copy without the values that `settings` has already."""
        changes = {name: value for name, value in self.changes.items() if settings.get(name) != value}
        return msgspec.structs.replace(self, changes=changes)


Rule = Callable[[Situation], Proposal | None]


def number(settings: Values, name: str) -> int:
    """Return a parameter's value as a number; SCR's default when `settings` has none."""
    value = settings.get(name, DEFAULTS[name])
    if isinstance(value, str) or not isfinite(value):
        value = DEFAULTS[name]
    return int(value)


def flush_every(settings: Values) -> int:
    """Return the number of checkpoints from one flush to the next."""
    is_cached = number(settings, "SCR_CACHE_BYPASS") == 0
    return max(1, number(settings, "SCR_FLUSH")) if is_cached else 1


def changes_text(changes: Values) -> str:
    """Return ``NAME=value NAME=value``, sorted."""
    return " ".join(f"{name}={value}" for name, value in sorted(changes.items()))
