"""What the rules look at, and what they answer with."""

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
"""What the rules read and change, as SCR has it when nobody sets it; the SCRTUNE_ levers at rest mean AXL's
own number of threads and their inherited mask. A job's settings lie over these, so that every value that a
rule changes has one to go back to."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at: the intents, and the settings in force."""

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
    """Why the job must not be moved to the cache (:mod:`..observe.shared_files`); empty when it may."""

    def integer(self, name: str) -> int:
        """A parameter's value in force as a number; SCR's default when it is none."""
        return number(self.settings, name)

    @property
    def cached(self) -> bool:
        """Whether datasets go through the cache at all (SCR's default is that they do not)."""
        return self.integer("SCR_CACHE_BYPASS") == 0

    @property
    def asynchronous(self) -> bool:
        """Whether flushes run beside the computation; of type SYNC they block all the same."""
        return self.integer("SCR_FLUSH_ASYNC") == 1 and self.settings.get("SCR_FLUSH_TYPE") != "SYNC"

    @property
    def felt_flush_s(self) -> float:
        """Seconds of each checkpoint that a faster flush could save."""
        flush = self.intents.flush
        return flush.wait_s if self.asynchronous else flush.blocked_on_flush_s

    @property
    def ranks_per_node(self) -> int:
        """Ranks on this node: those that were seen here, else the job's ranks over its nodes, rounded up.

        One host may stand for several nodes (the embedded engine's simulated ones): its cores and its memory
        serve them all.
        """
        redundancy = self.intents.redundancy
        seen = min(self.intents.affinity.processes, redundancy.ranks)
        return seen or -(-redundancy.ranks // redundancy.nodes)

    @property
    def files_per_rank(self) -> int:
        """Files that one rank has in a checkpoint, at least 1."""
        return max(1, self.intents.flush.files // self.intents.redundancy.ranks)

    @property
    def flush_threads(self) -> int:
        """Threads that flush a rank's files now: the lever's value, else what AXL does by itself."""
        if self.settings.get("SCR_FLUSH_TYPE") == "SYNC":
            return 1
        by_itself = min(max(1, len(self.intents.affinity.cpus)), MAX_FLUSH_THREADS)
        return min(self.integer("SCRTUNE_FLUSH_THREADS") or by_itself, self.files_per_rank)


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of settings with everything that justifies it.

    `expected_gain_s` is seconds per checkpoint. A `required` change follows from what the user declared, and
    is made whatever it costs.
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
        """Names this change and no other: rule and values."""
        return f"{self.rule}: {changes_text(self.changes)}"

    def beyond(self, settings: Values) -> "Proposal":
        """Itself, without the values that are in force already."""
        changes = {name: value for name, value in self.changes.items() if settings.get(name) != value}
        return msgspec.structs.replace(self, changes=changes)


Rule = Callable[[Situation], Proposal | None]


def number(settings: Values, name: str) -> int:
    """A parameter's value as a number; SCR's default when `settings` holds none."""
    value = settings.get(name, DEFAULTS[name])
    if isinstance(value, str) or not isfinite(value):
        value = DEFAULTS[name]
    return int(value)


def flush_every(settings: Values) -> int:
    """Return the number of checkpoints from one flush to the next."""
    is_cached = number(settings, "SCR_CACHE_BYPASS") == 0
    return max(1, number(settings, "SCR_FLUSH")) if is_cached else 1


def changes_text(changes: Values) -> str:
    """``NAME=value NAME=value``, sorted."""
    return " ".join(f"{name}={value}" for name, value in sorted(changes.items()))
