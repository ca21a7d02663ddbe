"""The events: the input of :class:`scrtune.intents.pipeline.Pipeline`, one tagged union.

Everything here can be sent over the wire, written to the journal and read back (`docs/wire.md`).
"""

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from ..goodput.events import GoodputEvent
from .declared import Declared
from .tune.knowledge import Knowledge

Value = int | float | str
"""One SCR parameter's value: bool as 0 or 1, sizes in bytes, enumerations and paths as SCR spells them."""

Values = dict[str, Value]
"""SCR parameter name -> value. A name that starts with ``SCRTUNE_`` is a lever that SCR has no name for."""

LARGEST_COUNT = 2**32
"""Lines or events that one message can speak of: more than any node writes between two of them."""

Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Name = Annotated[str, Meta(max_length=1024)]
"""A host, a sender, a reason. Beyond these bounds a message has none of our events."""


class TextEnum(str, Enum):
    """A closed set of words. A member prints, hashes and travels as its value, and equals it.

    Events keep `str` where a foreign sender or an old journal may have another word.
    """

    __hash__ = str.__hash__
    __str__ = str.__str__


class ValueSource(TextEnum):
    """The layer that the value of a parameter came from, the strongest first."""

    EDITED = "edited"
    """Within the pipeline only: the user edited the config file while the job ran."""
    UNSAFE_CACHE = "unsafe cache"
    """Nobody's choice: the engine bypasses a cache directory that is not the user's alone."""
    ENVIRONMENT = "environment"
    USER_CONFIG = "user config"
    SCR_CONFIG = "SCR_Config"
    SYSTEM_CONFIG = "system config"
    TRACE = "recorded trace"
    """Of a job that is over: what its trace shows, where nobody says it."""
    DEFAULT = "default"


class Tier(TextEnum):
    """The storage that a file lies in."""

    CACHE = "cache"
    PREFIX = "prefix"
    SCR = "scr"
    """SCR's own files, in the cache or the prefix directory."""
    OTHER = "other"


class Content(TextEnum):
    """What a file of a checkpoint holds, as far as its name says (:func:`.trace.digest.content_of`)."""

    OPTIMIZER = "optimizer"
    LAYER = "layer"
    MODEL = "model"
    OTHER = "other"


class Operation(TextEnum):
    """The kind of a call on a file."""

    READ = "read"
    WRITE = "write"
    SYNC = "sync"
    METADATA = "metadata"


class Durability(TextEnum):
    """When a checkpoint must be on the prefix directory, as the user declares it."""

    STRICT = "strict"
    """When ``SCR_Complete_output`` returns."""
    NEXT = "next"
    """Before the next output begins: at most one checkpoint is at risk."""


class SettingsObserved(msgspec.Struct, frozen=True, tag="settings_observed", kw_only=True):
    """A run of the job begins: its shape, and its own settings before anything was tuned.

    `sources` gives the :class:`ValueSource` of each parameter. `floor` is the failure that the user wants to
    survive (:mod:`scrtune.intents.observe.faults.redundancy`), or empty when they declared none. `durability`
    is a :class:`Durability`, or empty. `interval` is ``auto`` where the user leaves the interval to
    scrtune, else it is theirs. `override` lets the tuner change what the environment sets; without
    `tuning` it changes nothing, and without `recommend` it proposes nothing either. `processes` are the
    (host, pid) of the ranks. `mutability` gives the :class:`scrtune.intents.mutability.Mutability` of each
    parameter in this job's SCR. Empty: all that may be tuned is live.

    `advised` are values that the run began with and that scrtune had left in the config file in an earlier
    job; `settings` has the user's own instead. The daemon separates the two. `observe_budget` is the share of
    the job's time that observing may cost. `init_s` is what this run's SCR_Init took, as far as a re-init
    takes that again; 0: not known. `declared` is what else the user said.
    """

    settings: Values
    sources: dict[str, str] = {}
    engine: str = ""
    ranks: int = 1
    nodes: int = 1
    prefix: str = ""
    cache: str = ""
    floor: str = ""
    durability: str = ""
    interval: str = ""
    override: bool = False
    tuning: bool = True
    recommend: bool = True
    processes: tuple[tuple[str, int], ...] = ()
    mutability: dict[str, str] = {}
    advised: Values = {}
    observe_budget: float = 0.01
    init_s: float = 0.0
    declared: Declared = Declared()

    def is_given(self, name: str) -> bool:
        """Return whether anybody set `name`: its value is not SCR's default."""
        return self.sources.get(name, ValueSource.DEFAULT) != ValueSource.DEFAULT


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The accesses of one kind in one tier, within one digest, to files of one content.

    `tier` is a :class:`Tier`, `op` an :class:`Operation`, `content` a :class:`Content`. `sizes` counts
    accesses by their exact size in bytes.
    """

    tier: str
    op: str
    count: int
    bytes: int
    duration_s: float
    start_s: float
    end_s: float
    sizes: dict[int, int] = {}
    content: str = Content.OTHER


class SpanKind(TextEnum):
    """What a span of the checkpoint category does."""

    SAVE = "save"
    LOAD = "load"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One traced call that saves or loads a checkpoint, such as DLIO's ``save_checkpoint``.

    It may lie within another one. `kind` is a :class:`SpanKind`. `epoch` and `step` are what the application
    said, None where it said nothing.
    """

    name: str
    start_s: float
    end_s: float
    pid: int
    tid: int = 0
    kind: str = SpanKind.SAVE
    epoch: int | None = None
    step: int | None = None


class TraceDigest(msgspec.Struct, frozen=True, tag="trace_digest", kw_only=True):
    """The summary of a stretch of DFTracer lines, small enough for the journal.

    `lines` counts what arrived (brackets and empty lines aside), `events` what was an event, `metadata` what
    explained one, `dropped` the rest by reason. `unresolved` counts accesses whose file hash no line of the
    job had explained when they were given up as tier ``other``.
    """

    lines: Count = 0
    events: Count = 0
    metadata: Count = 0
    dropped: dict[Name, Count] = {}
    unresolved: Count = 0
    start_s: float = 0.0
    end_s: float = 0.0
    accesses: tuple[Access, ...] = ()
    checkpoints: tuple[Span, ...] = ()
    processes: tuple[tuple[Name, int], ...] = ()
    """(host, pid) of every process that wrote a line."""
    generations: dict[Annotated[int, Meta(ge=0, lt=100)], Count] = {}
    """Lines by generation of the format (`docs/traces.md`)."""
    alike: Count = 1
    """Of so many processes that do the same one was traced."""


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the application on this node: its affinity mask and how many cores it kept busy.

    The mask is that of its first thread; `thread_cpus` are the CPUs in those of its other threads, as far as
    they are bound to fewer than the node has.
    """

    pid: int
    cpus: tuple[int, ...]
    cores_used: float = 0.0
    name: Name = ""
    """Of its program."""
    thread_cpus: tuple[int, ...] = ()


class NodeObserved(msgspec.Struct, frozen=True, tag="node_observed", kw_only=True):
    """This node, as psutil saw it over the last interval.

    `siblings` are the CPUs of each core that has several hyperthreads, `numa` those of each NUMA node; both
    are empty where that is not known. `core_limit` is how many CPUs the cgroup lets the job keep busy at
    once, 0 without a limit; the available memory is within the cgroup's, too. In a node that `is_virtual` the
    first use of a page of memory goes through a hypervisor. `link_bytes_per_s` is the rate of its fastest
    network link, 0 where none says it. Of what was written to files `dirty_limit_bytes` may wait in memory
    until Linux makes the writers wait; 0: not known. It was looked at until `time_s`; 0: when this was heard.
    """

    host: str
    cpus: tuple[int, ...]
    processes: tuple[ProcessUse, ...] = ()
    memory_available_bytes: int = 0
    dirty_limit_bytes: int = 0
    cache_free_bytes: int = 0
    source: str = "psutil"
    siblings: tuple[tuple[int, ...], ...] = ()
    numa: tuple[tuple[int, ...], ...] = ()
    core_limit: float = 0.0
    is_virtual: bool = False
    link_bytes_per_s: float = 0.0
    time_s: float = 0.0


class StorageProbed(msgspec.Struct, frozen=True, tag="storage_probed", kw_only=True):
    """The rates that a probe of this node measured, in bytes a second; 0: not measured, `problem` says why.

    `bytes` were written to the cache. Its rates are those of `writers` at once, the others of one process.
    `cache_sync_bytes_per_s` is that of its device, 0 in memory. The probe took `probe_s`,
    without what it waited for a CPU.
    """

    host: str
    cache_write_bytes_per_s: float = 0.0
    cache_read_bytes_per_s: float = 0.0
    cache_sync_bytes_per_s: float = 0.0
    memory_bytes_per_s: float = 0.0
    xor_bytes_per_s: float = 0.0
    writers: int = 1
    bytes: int = 0
    probe_s: float = 0.0
    time_s: float = 0.0
    problem: str = ""


class FileSystem(TextEnum):
    """The kinds of file systems that are told apart."""

    LUSTRE = "lustre"
    GPFS = "gpfs"
    BEEGFS = "beegfs"
    NFS = "nfs"
    MEMORY = "memory"
    LOCAL = "local"
    OTHER = "other"


class StorageTargetsObserved(msgspec.Struct, frozen=True, tag="storage_targets_observed", kw_only=True):
    """What the prefix directory is on; 0 and empty: not known, `problem` says why.

    `file_system` is a :class:`FileSystem`, `mount_type` what the mount calls it, `tool` what was asked.
    `targets` may hold a file's data: OSTs (those of `pool`, if the directory has one), GPFS's disks, 1 where
    there are no several. New files in the directory get `stripe_count` stripes (-1: one on each target) of
    `stripe_bytes`; where there are no stripes, that is the size of a block or of a request. A composite
    layout (Lustre's) has components: stripes that grow with a file, mirrors, compression.
    """

    host: str
    file_system: str = ""
    mount_type: str = ""
    mount: str = ""
    targets: int = 0
    stripe_count: int = 0
    stripe_bytes: int = 0
    is_composite: bool = False
    pool: str = ""
    tool: str = ""
    probe_s: float = 0.0
    time_s: float = 0.0
    problem: str = ""


class AllocationObserved(msgspec.Struct, frozen=True, tag="allocation_observed", kw_only=True):
    """The allocation that the job runs in, as its scheduler shows it at `time_s`.

    `end_s` is its time limit in epoch seconds, 0: not known. `switches` has the switch that each host hangs
    on, as far as there is a topology. `steps` are the application's steps in it so far, as far as they were
    seen: each is ``number name``.
    """

    scheduler: Name
    job: Name = ""
    end_s: float = 0.0
    hosts: tuple[Name, ...] = ()
    switches: dict[Name, Name] = {}
    steps: tuple[Name, ...] = ()
    time_s: float = 0.0


class NodeLeft(msgspec.Struct, frozen=True, tag="node_left", kw_only=True):
    """A node of the job is not heard of any more; what it had said of itself counts no longer."""

    host: Name


class LeaderChanged(msgspec.Struct, frozen=True, tag="leader_changed", kw_only=True):
    """From now on the daemon of `host` decides for all nodes, for the reason `why`; `term` counts leaders."""

    host: Name
    term: Count
    why: Name = ""


class MetricObserved(msgspec.Struct, frozen=True, tag="metric_observed", kw_only=True):
    """The application measured something that shall not grow without bounds, such as its loss.

    `value` is None where it is no finite number. `writer` is the process that says so.
    """

    name: Name
    value: float | None
    step: int
    time_s: float
    writer: Name = ""


class EventsLost(msgspec.Struct, frozen=True, tag="events_lost", kw_only=True):
    """A sender's bounded queue overflowed, or its messages never arrived."""

    source: Name
    count: Count


class UserEdited(msgspec.Struct, frozen=True, tag="user_edited", kw_only=True):
    """The user edited the config file that scrtune rewrites; their values take precedence.

    `changes` are the values they gave, `removed` the parameters whose lines they deleted. `refused` has the
    error of each line that is no value of its parameter. With `is_pin` it was no edit but ``scrtune pin``;
    `released` are the parameters of ``scrtune unpin``, which have the values from before and may be tuned.
    """

    changes: Values = {}
    removed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    is_pin: bool = False


class TuningSwitched(msgspec.Struct, frozen=True, tag="tuning_switched", kw_only=True):
    """The user ran ``scrtune off`` (their own settings come back, nothing is tried) or ``scrtune on``."""

    on: bool


class KnowledgeRecalled(msgspec.Struct, frozen=True, tag="knowledge_recalled", kw_only=True):
    """What earlier jobs of the same kind taught; it comes before the job's own settings."""

    knowledge: Knowledge


class ApplyRefused(msgspec.Struct, frozen=True, tag="apply_refused", kw_only=True):
    """All ranks refused the decision of `generation`, for the reason `why`.

    Nothing of it was applied: the settings before it stay active. `in_force` has values that the ranks
    restored although they had applied the decision before, because it turned out to be unsafe.
    """

    generation: int
    why: str
    in_force: Values = {}


Event = (
    GoodputEvent
    | SettingsObserved
    | TraceDigest
    | NodeObserved
    | StorageProbed
    | StorageTargetsObserved
    | AllocationObserved
    | NodeLeft
    | LeaderChanged
    | MetricObserved
    | EventsLost
    | UserEdited
    | TuningSwitched
    | KnowledgeRecalled
    | ApplyRefused
)
