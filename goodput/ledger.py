"""Where every second of a job went: each second since its start lies in exactly one bucket.

The ledger keeps a cursor, the time up to which everything is accounted for. An event that reaches past it
claims the time it covers; what nobody claimed between two events is background (start-up before the first
step, recovery between two runs, other). An event that arrives late may still claim background, but never
what another event has claimed: the order of precedence is the order of arrival, and the buckets always sum to
the wall time. Inside, time is whole nanoseconds: sums are exact, in any order.
"""

import msgspec

from .events import (
    GoodputEvent,
    JobEnded,
    JobHalted,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    Recovered,
    RestartCompleted,
    StepCompleted,
)

PRODUCTIVE = "productive"
STARTUP = "startup"
CHECKPOINT_WRITE = "checkpoint_write"
CHECKPOINT_ENCODE = "checkpoint_encode"
CHECKPOINT_FLUSH = "checkpoint_flush"
CHECKPOINT_WAIT = "checkpoint_wait"
CHECKPOINT_OTHER = "checkpoint_other"
FLUSH_SLOWDOWN = "flush_slowdown"
RESTORE = "restore"
WASTED_PROGRESS = "wasted_progress"
RECOVERY = "recovery"
OTHER = "other"

BUCKETS = (
    PRODUCTIVE,
    STARTUP,
    CHECKPOINT_WRITE,
    CHECKPOINT_ENCODE,
    CHECKPOINT_FLUSH,
    CHECKPOINT_WAIT,
    CHECKPOINT_OTHER,
    FLUSH_SLOWDOWN,
    RESTORE,
    WASTED_PROGRESS,
    RECOVERY,
    OTHER,
)

_REMEMBERED_GAPS = 256
_REMEMBERED_STEPS = 65_536
_NS = 1_000_000_000


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a ledger at one moment; `buckets` sums to `wall_s`. No bucket is ever negative.

    `recoveries` counts the datasets that SCR brought back, `node_failures` what its scripts said of nodes.
    """

    wall_s: float
    buckets: dict[str, float]
    steps: int = 0
    checkpoints: int = 0
    runs: int = 0
    recoveries: int = 0
    node_failures: int = 0

    @property
    def goodput(self) -> float:
        """Productive time as a share of the wall time, 0 to 1."""
        return self.buckets[PRODUCTIVE] / self.wall_s if self.wall_s > 0 else 0.0


class _Gap(msgspec.Struct, frozen=True):
    """Time that no event has claimed yet, and the background it counts as until one does."""

    start_ns: int
    end_ns: int
    background: str


class Ledger:
    """Accounts for one job over all its runs. Times come with the events; there is no clock here.

    Bounded memory: the last 256 gaps can still be claimed, and the last 65,536 steps be found wasted.
    """

    def __init__(self) -> None:
        self._buckets = dict.fromkeys(BUCKETS, 0)
        self._start_ns: int | None = None
        self._cursor_ns = 0
        self._background = STARTUP
        self._gaps: list[_Gap] = []
        self._step_claims: dict[int, int] = {}
        self._run_ended_well = True
        self._begins_anew = True
        self._ended = False
        self._halted = False
        self._steps = self._checkpoints = self._runs = 0
        self._recoveries = self._node_failures = 0

    def handle(self, event: GoodputEvent) -> None:
        """Take one event in. Its times must be finite (:func:`scrtune.goodput.sanity.defect`)."""
        match event:
            case JobStarted():
                self._job_started(_ns(event.time_s))
            case JobEnded():
                self._reach(_ns(event.time_s))
                self._ended = True
                self._run_ended_well = event.exit_code in (None, 0)
            case StepCompleted():
                self._step(event)
            case OutputCompleted():
                self._output(event)
            case RestartCompleted():
                self._claim(_ns(event.start_s), _ns(event.end_s), RESTORE)
                self._begins_anew |= event.valid  # also within a run: back to a better checkpoint
            case JobHalted():
                self._reach(_ns(event.time_s))
                self._halted = True
            case NodeFailed():
                self._node_failures += 1
                self._halted = self._run_ended_well = False
                self._between_runs()
                self._reach(_ns(event.time_s))
            case Recovered():
                self._recovered(event)
            case _:
                pass

    def charge_slowdown(self, seconds: float) -> None:
        """Move `seconds` of the steps' time to the flush that slowed them down; back, if negative."""
        moved_ns = _ns(seconds)
        if moved_ns >= 0:
            self._move(PRODUCTIVE, FLUSH_SLOWDOWN, moved_ns)
        else:
            self._move(FLUSH_SLOWDOWN, PRODUCTIVE, -moved_ns)

    def account(self, now: float) -> Account:
        """Where the time went until `now` (until its end, when the job has ended)."""
        buckets = dict(self._buckets)
        wall_ns = 0
        if self._start_ns is not None:
            tail_ns = 0 if self._ended else max(0, _ns(now) - self._cursor_ns)
            buckets[self._background] += tail_ns
            wall_ns = self._cursor_ns - self._start_ns + tail_ns
        return Account(
            wall_s=wall_ns / _NS,
            buckets={bucket: spent_ns / _NS for bucket, spent_ns in buckets.items()},
            steps=self._steps,
            checkpoints=self._checkpoints,
            runs=self._runs,
            recoveries=self._recoveries,
            node_failures=self._node_failures,
        )

    def _job_started(self, time_ns: int) -> None:
        self._between_runs()
        self._runs += 1
        self._reach(time_ns)
        self._background = STARTUP
        self._ended = self._halted = False
        self._run_ended_well = False
        self._begins_anew = True

    def _between_runs(self) -> None:
        """What nobody claims from the last event on lies between two runs, after a good end or a bad one."""
        if self._runs:
            ended_well = self._halted or (self._ended and self._run_ended_well)
            self._background = OTHER if ended_well else RECOVERY

    def _recovered(self, recovered: Recovered) -> None:
        self._recoveries += recovered.valid
        if recovered.kind == "scavenge":  # SCR's scripts do it when no run is under way
            self._between_runs()
            self._claim(_ns(recovered.start_s), _ns(recovered.end_s), RECOVERY)
        else:
            self._claim(_ns(recovered.start_s), _ns(recovered.end_s), RESTORE)

    def _step(self, step: StepCompleted) -> None:
        if self._begins_anew:
            self._waste_from(step.step)
            self._begins_anew = False
        claimed_ns = self._claim(_ns(step.start_s), _ns(step.end_s), PRODUCTIVE)
        self._steps += step.step not in self._step_claims  # several ranks may tell of the same step
        self._step_claims[step.step] = self._step_claims.get(step.step, 0) + claimed_ns
        if len(self._step_claims) > _REMEMBERED_STEPS:
            del self._step_claims[next(iter(self._step_claims))]
        self._background = OTHER

    def _waste_from(self, first: int) -> None:
        """The work goes on at step `first`: what was computed from there on before was for nothing."""
        for step in [step for step in self._step_claims if step >= first]:
            self._move(PRODUCTIVE, WASTED_PROGRESS, self._step_claims.pop(step))

    def _output(self, output: OutputCompleted) -> None:
        self._checkpoints += output.checkpoint and output.valid
        claimed_ns = self._claim(_ns(output.start_s), _ns(output.end_s), CHECKPOINT_OTHER)
        parts = {
            CHECKPOINT_WRITE: max(0, _ns(output.write_s)),
            CHECKPOINT_ENCODE: max(0, _ns(output.encode_s)),
            CHECKPOINT_FLUSH: max(0, _ns(output.flush_s)),
            CHECKPOINT_WAIT: max(0, _ns(output.wait_s)),
        }
        # each part is the slowest rank's, so that together they may exceed what was felt
        total_ns = max(sum(parts.values()), claimed_ns)
        for bucket, part_ns in parts.items():
            self._move(CHECKPOINT_OTHER, bucket, part_ns * claimed_ns // total_ns if total_ns else 0)

    def _claim(self, start_ns: int, end_ns: int, bucket: str) -> int:
        """Give [start, end) to `bucket` as far as no event has it yet; returns the nanoseconds given."""
        if end_ns <= start_ns:
            return 0
        self._reach(start_ns)
        claimed_ns = self._claim_gaps(start_ns, min(end_ns, self._cursor_ns), bucket)
        fresh_ns = max(0, end_ns - self._cursor_ns)
        self._buckets[bucket] += fresh_ns
        self._cursor_ns += fresh_ns
        return claimed_ns + fresh_ns

    def _claim_gaps(self, start_ns: int, end_ns: int, bucket: str) -> int:
        if end_ns <= start_ns:
            return 0
        claimed_ns = 0
        kept: list[_Gap] = []
        for gap in self._gaps:
            low_ns, high_ns = max(start_ns, gap.start_ns), min(end_ns, gap.end_ns)
            if high_ns <= low_ns:
                kept.append(gap)
                continue
            self._move(gap.background, bucket, high_ns - low_ns)
            claimed_ns += high_ns - low_ns
            rests = ((gap.start_ns, low_ns), (high_ns, gap.end_ns))
            kept += [_Gap(start, end, gap.background) for start, end in rests if end > start]
        self._gaps = kept[-_REMEMBERED_GAPS:]
        return claimed_ns

    def _reach(self, time_ns: int) -> None:
        """Account for the time up to `time_ns`, or back to it, as background that an event may claim."""
        if self._start_ns is None:
            self._start_ns = self._cursor_ns = time_ns
        elif time_ns < self._start_ns:
            self._buckets[STARTUP] += self._start_ns - time_ns
            self._gaps.insert(0, _Gap(time_ns, self._start_ns, STARTUP))
            self._start_ns = time_ns
        elif time_ns > self._cursor_ns:
            self._buckets[self._background] += time_ns - self._cursor_ns
            self._gaps.append(_Gap(self._cursor_ns, time_ns, self._background))
            self._cursor_ns = time_ns
        del self._gaps[:-_REMEMBERED_GAPS]

    def _move(self, source: str, target: str, ns: int) -> None:
        moved_ns = min(ns, self._buckets[source])
        self._buckets[source] -= moved_ns
        self._buckets[target] += moved_ns


def _ns(seconds: float) -> int:
    return round(seconds * _NS)
