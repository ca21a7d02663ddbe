"""What can happen to a job's time. All times are epoch seconds on the clock of the writer.

The names follow SCR: an *output* is what lies between ``SCR_Start_output`` and ``SCR_Complete_output``; a
*dataset* is the number SCR gives it; a *flush* copies a dataset from the cache to the prefix directory.
Fields may be added with defaults; none is ever renamed or removed (`docs/wire.md`).
"""

import msgspec


class JobStarted(msgspec.Struct, frozen=True, tag="job_started", kw_only=True):
    """The application's ranks are up (one such event for each run of a job)."""

    time_s: float
    ranks: int = 1
    nodes: int = 1


class JobEnded(msgspec.Struct, frozen=True, tag="job_ended", kw_only=True):
    """The application ended by itself; a run without this event was cut off."""

    time_s: float
    exit_code: int | None = None


class StepCompleted(msgspec.Struct, frozen=True, tag="step_completed", kw_only=True):
    """One step of the application's main loop, checkpoints not included."""

    step: int
    start_s: float
    end_s: float


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
    follows (it has its own, true, duration).
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

    @property
    def blocking_s(self) -> float:
        """Seconds the application was blocked."""
        return max(0.0, self.end_s - self.start_s)


class FlushCompleted(msgspec.Struct, frozen=True, tag="flush_completed", kw_only=True):
    """A dataset reached the prefix directory: from any rank's first byte to the last rank's last.

    `source` says who measured it: ``engine`` copied the bytes itself; ``scr`` logged it, an asynchronous
    flush only when a later call noticed its end; ``dftracer`` corrected that end.
    """

    dataset: int
    start_s: float
    end_s: float
    generation: int = 0
    asynchronous: bool = False
    bytes: int = 0
    threads: int = 1
    valid: bool = True
    source: str = "engine"

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
    """SCR was told to end the job, by ``scr_halt`` or near the end of its time; `reason` is SCR's word."""

    time_s: float
    reason: str = ""


class NodeFailed(msgspec.Struct, frozen=True, tag="node_failed", kw_only=True):
    """SCR's scripts found a node that no longer answers."""

    time_s: float
    node: str = ""


class Recovered(msgspec.Struct, frozen=True, tag="recovered", kw_only=True):
    """A dataset was brought back before a restart.

    `kind` is ``rebuild`` (from the redundancy in the caches), ``fetch`` (from the prefix directory) or
    ``scavenge`` (copied from the caches to the prefix directory after a failure).
    """

    kind: str
    dataset: int
    start_s: float
    end_s: float
    valid: bool = True


GoodputEvent = (
    JobStarted
    | JobEnded
    | StepCompleted
    | OutputStarted
    | OutputCompleted
    | FlushCompleted
    | RestartCompleted
    | JobHalted
    | NodeFailed
    | Recovered
)
