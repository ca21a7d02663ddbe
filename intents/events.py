"""What can happen: the input of :class:`scrtune.intents.pipeline.Pipeline`, one tagged union.

Everything here can be sent over the wire, written to the journal and read back (`docs/wire.md`).
"""

import msgspec

from ..goodput.events import GoodputEvent

Value = int | float | str
"""One SCR parameter's value: bool as 0 or 1, sizes in bytes, enumerations and paths as SCR spells them."""

Values = dict[str, Value]
"""SCR parameter name -> value. A name that starts with ``SCRTUNE_`` is a lever that SCR has no name for."""


EDITED = "edited"
"""The source of a value that the user gave by editing the config file while scrtune kept it."""


class SettingsObserved(msgspec.Struct, frozen=True, tag="settings_observed", kw_only=True):
    """What the application runs under: its own settings, before anything was tuned.

    `sources` gives for each parameter the layer it came from: ``environment``, ``user config``,
    ``SCR_Config``, ``system config`` or ``default``; within the pipeline also :data:`EDITED`. `floor` is the
    failure the user wants to survive (:mod:`scrtune.intents.observe.redundancy`), or empty when they declared
    none. `override` lets the tuner change what the environment sets; without `tuning` it only watches.
    `processes` are the (host, pid) of the ranks. `mutability` says of each parameter how this job's SCR can
    change it: ``live``, ``live on rank 0``, ``re-init``, ``launch`` or ``inert``. Empty: all that may be
    tuned is live (the embedded engine).

    `advised` are values that the run began with and that scrtune had left in the config file in an earlier
    job; `settings` has the user's own instead. The daemon tells them apart.
    """

    settings: Values
    sources: dict[str, str] = {}
    engine: str = ""
    ranks: int = 1
    nodes: int = 1
    prefix: str = ""
    cache: str = ""
    floor: str = ""
    override: bool = False
    tuning: bool = True
    processes: tuple[tuple[str, int], ...] = ()
    mutability: dict[str, str] = {}
    advised: Values = {}


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The accesses of one kind in one tier, within one digest.

    `tier` is ``cache``, ``prefix``, ``scr`` (SCR's own files in either) or ``other``; `op` is ``read``,
    ``write``, ``sync`` or ``metadata``. `sizes` counts accesses by their exact size in bytes, `seconds` sums
    their durations by the same key. `busy` is the number of threads seen.
    """

    tier: str
    op: str
    count: int
    bytes: int
    duration_s: float
    start_s: float
    end_s: float
    threads: int = 1
    sizes: dict[int, int] = {}
    seconds: dict[int, float] = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One traced call of the application's checkpoint category, such as DLIO's ``save_checkpoint``."""

    name: str
    start_s: float
    end_s: float
    pid: int


class TraceDigest(msgspec.Struct, frozen=True, tag="trace_digest", kw_only=True):
    """What a stretch of DFTracer lines says, small enough for the journal.

    `lines` counts what arrived (brackets and empty lines aside), `events` what was an event, `metadata` what
    explained one, `dropped` the rest by reason. `unresolved` counts accesses whose file hash no line of the
    job had explained when they were given up as tier ``other``.
    """

    lines: int = 0
    events: int = 0
    metadata: int = 0
    dropped: dict[str, int] = {}
    unresolved: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    accesses: tuple[Access, ...] = ()
    checkpoints: tuple[Span, ...] = ()
    processes: tuple[tuple[str, int], ...] = ()
    """(host, pid) of every process that wrote a line."""
    generations: dict[int, int] = {}
    """Lines by generation of the format (`docs/traces.md`)."""


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the application on this node: its affinity mask and how many cores it kept busy."""

    pid: int
    cpus: tuple[int, ...]
    cores_used: float = 0.0


class NodeObserved(msgspec.Struct, frozen=True, tag="node_observed", kw_only=True):
    """This node, as psutil saw it over the last interval."""

    host: str
    cpus: tuple[int, ...]
    processes: tuple[ProcessUse, ...] = ()
    cores_busy: float = 0.0
    """Cores kept busy by everything on the node, the application included."""
    memory_available_bytes: int = 0
    cache_free_bytes: int = 0
    source: str = "psutil"


class EventsLost(msgspec.Struct, frozen=True, tag="events_lost", kw_only=True):
    """A sender's bounded queue overflowed, or its messages never arrived."""

    source: str
    count: int


class UserEdited(msgspec.Struct, frozen=True, tag="user_edited", kw_only=True):
    """The user edited the config file that scrtune rewrites; what they wrote wins.

    `changes` are the values they gave, `removed` the parameters whose lines they deleted. `refused` says for
    each line that is no value of its parameter what is wrong with it.
    """

    changes: Values = {}
    removed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class TuningSwitched(msgspec.Struct, frozen=True, tag="tuning_switched", kw_only=True):
    """The user said ``scrtune off`` (their own settings come back, nothing is tried) or ``scrtune on``."""

    on: bool


class ApplyRefused(msgspec.Struct, frozen=True, tag="apply_refused", kw_only=True):
    """The ranks refused the decision of `generation`, all of them, for the reason `why`.

    Nothing of it was applied: what was in force before still is. But `in_force` has values that they went
    back to although they had applied it before: it turned out to be unsafe.
    """

    generation: int
    why: str
    in_force: Values = {}


Event = (
    GoodputEvent
    | SettingsObserved
    | TraceDigest
    | NodeObserved
    | EventsLost
    | UserEdited
    | TuningSwitched
    | ApplyRefused
)
