"""What can happen to a job's time. All times are epoch seconds on the clock of the writer.

The names follow SCR: an *output* is what lies between ``SCR_Start_output`` and ``SCR_Complete_output``; a
*dataset* is the number SCR gives it; a *flush* copies a dataset from the cache to the prefix directory.
Fields may be added with defaults; none is ever renamed or removed (`docs/wire.md`).
"""

import msgspec


class JobStarted(msgspec.Struct, frozen=True, tag="job_started", kw_only=True):
    """The application's ranks are up. `writer` is who says so: several of one launch may."""

    time_s: float
    ranks: int = 1
    nodes: int = 1
    writer: str = ""


class JobEnded(msgspec.Struct, frozen=True, tag="job_ended", kw_only=True):
    """The application ended by itself; a run without this event was cut off. `writer` is who says so."""

    time_s: float
    exit_code: int | None = None
    writer: str = ""


class StepStarted(msgspec.Struct, frozen=True, tag="step_started", kw_only=True, omit_defaults=True):
    """A step of the main loop begins; it lasts until its `writer`'s next one. Steps may be sparse."""

    step: int
    time_s: float
    writer: str = ""


class StepCompleted(msgspec.Struct, frozen=True, tag="step_completed", kw_only=True, omit_defaults=True):
    """One step of the application's main loop, checkpoints not included."""

    step: int
    start_s: float
    end_s: float
    writer: str = ""


class OutputStarted(msgspec.Struct, frozen=True, tag="output_started", kw_only=True):
    """``SCR_Start_output`` returned on all ranks, under the settings of decision `generation`."""

    dataset: int
    name: str
    time_s: float
    generation: int = 0
    checkpoint: bool = True


class OutputCompleted(msgspec.Struct, frozen=True, tag="output_completed", kw_only=True):
    """One output, as the application felt it: blocked from `start_s` to `end_s` (the slowest rank counts).

    `write_s`, `encode_s`, `flush_s` and `wait_s` split the blocking time: the application's own writes, the
    redundancy encoding, the part of the flush that blocked, and waiting for an earlier flush. `apply_s` is
    what putting new settings in force took before the output began: it is part of the blocking time, and a
    cost of tuning, not of the settings. `flush_due` says that a :class:`FlushCompleted` for this dataset
    follows (it has its own, true, duration). `shared_files` says whether the files of this output would meet
    in SCR's cache: ranks of several nodes registered the same one, or files of one node have the same base
    name. None: not known, or the application caches by itself. `due`: SCR_Need_checkpoint had
    just asked for it. `observed` calls of rank 0's writes were
    traced, which took `observe_s` longer for it: no part of `write_s`. From the end of the output before to
    `start_s` rank 0's thread ran for `cpu_s` and waited for a core for `run_delay_s`; both 0: not known.
    """

    dataset: int
    name: str
    start_s: float
    end_s: float
    generation: int = 0
    checkpoint: bool = True
    valid: bool = True
    bytes: int = 0
    files: int = 0
    write_s: float = 0.0
    encode_s: float = 0.0
    flush_s: float = 0.0
    wait_s: float = 0.0
    flush_due: bool = False
    apply_s: float = 0.0
    shared_files: bool | None = None
    observed: int = 0
    observe_s: float = 0.0
    due: bool = False
    cpu_s: float = 0.0
    run_delay_s: float = 0.0

    @property
    def blocking_s(self) -> float:
        """Seconds the application was blocked."""
        return max(0.0, self.end_s - self.start_s)


OF_THE_ENGINE = "engine"
"""The source of flushes whose end is told before that of the next output, at the latest."""


class FlushCompleted(msgspec.Struct, frozen=True, tag="flush_completed", kw_only=True):
    """A dataset reached the prefix directory: from any rank's first byte to the last rank's last.

    `source` measured it: ``engine`` copied it; ``scr`` logged it, as late as a call noticed; ``libscrtune``
    saw the last copy end. The threads that copied rank 0's files ran for `cpu_s` together, and waited for a
    core for `run_delay_s`; both 0: not known.
    """

    dataset: int
    start_s: float
    end_s: float
    generation: int = 0
    asynchronous: bool = False
    bytes: int = 0
    threads: int = 1
    valid: bool = True
    source: str = OF_THE_ENGINE
    cpu_s: float = 0.0
    run_delay_s: float = 0.0

    @property
    def flush_s(self) -> float:
        """Seconds from the first byte to the last."""
        return max(0.0, self.end_s - self.start_s)


class RestartCompleted(msgspec.Struct, frozen=True, tag="restart_completed", kw_only=True):
    """A restart was read: `source` is ``cache``, ``rebuild`` (cache, after a rebuild) or ``prefix``."""

    dataset: int
    name: str
    start_s: float
    end_s: float
    source: str = "cache"
    valid: bool = True


class JobHalted(msgspec.Struct, frozen=True, tag="job_halted", kw_only=True):
    """SCR is to end the job, by ``scr_halt`` or near the end of its time; `reason` is SCR's word."""

    time_s: float
    reason: str = ""


class NodeFailed(msgspec.Struct, frozen=True, tag="node_failed", kw_only=True):
    """SCR's scripts found a node that no longer answers."""

    time_s: float
    node: str = ""


class Recovered(msgspec.Struct, frozen=True, tag="recovered", kw_only=True):
    """A dataset was brought back: ``rebuild`` (redundancy), ``fetch`` (prefix), ``scavenge`` (caches)."""

    kind: str
    dataset: int
    start_s: float
    end_s: float
    valid: bool = True


class Interval(msgspec.Struct, frozen=True, tag="interval", kw_only=True):
    """A stretch of time of one of :data:`INTERVAL_KINDS`; `name` is the user's own of a ``custom`` one."""

    kind: str
    start_s: float
    end_s: float
    name: str = ""
    writer: str = ""


class IntervalStarted(msgspec.Struct, frozen=True, tag="interval_started", kw_only=True):
    """An interval begins; it ends with its writer's next step, or start of it, or last word, at latest."""

    kind: str
    time_s: float
    name: str = ""
    writer: str = ""


class IntervalEnded(msgspec.Struct, frozen=True, tag="interval_ended", kw_only=True):
    """The latest interval of that kind, name and writer ends."""

    kind: str
    time_s: float
    name: str = ""
    writer: str = ""


class SlicesObserved(msgspec.Struct, frozen=True, tag="slices_observed", kw_only=True):
    """How many slices (groups of accelerators) of an elastic job work, are asked for, and could be had."""

    time_s: float
    active: int
    total: int
    available: int = 0


class JobQueued(msgspec.Struct, frozen=True, tag="job_queued", kw_only=True):
    """The job (or its next run) was handed to the resource manager and waits for its allocation."""

    time_s: float


class AllocationEnded(msgspec.Struct, frozen=True, tag="allocation_ended", kw_only=True):
    """The allocation came to its end as planned: what follows is no recovery from a failure."""

    time_s: float


INTERVAL_KINDS = (
    "device_init",
    "training_prep",
    "startup",
    "data_loading",
    "data_loading_async",
    "checkpoint_save",
    "checkpoint_restore",
    "custom",
    "elastic_scale_up",
    "elastic_slice_down",
    "elastic_reinit",
    "queue_wait",
    "recovery",
)
"""What an :class:`Interval` can be for; `docs/goodput.md` says what each counts as."""


GoodputEvent = (
    JobStarted
    | JobEnded
    | StepStarted
    | StepCompleted
    | OutputStarted
    | OutputCompleted
    | FlushCompleted
    | RestartCompleted
    | JobHalted
    | NodeFailed
    | Recovered
    | Interval
    | IntervalStarted
    | IntervalEnded
    | SlicesObserved
    | JobQueued
    | AllocationEnded
)
