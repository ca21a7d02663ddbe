"""Where every second of a job went: each second since its start lies in exactly one bucket.

The ledger keeps a cursor, the time up to which everything is accounted for. An event that reaches past it
claims the time it covers; what nobody claimed between two events is background (start-up before the first
step, recovery between two runs, other). An event that arrives late may still claim background, but never
what another event has claimed: the order of precedence is the order of arrival, and the buckets always sum to
the wall time.
"""

from collections import deque

import msgspec

from .events import (
    GoodputEvent,
    JobEnded,
    JobStarted,
    OutputCompleted,
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


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a ledger at one moment; `buckets` sums to `wall_s`."""

    wall_s: float
    buckets: dict[str, float]
    steps: int = 0
    checkpoints: int = 0
    runs: int = 0

    @property
    def goodput(self) -> float:
        """Productive time as a share of the wall time, 0 to 1."""
        return self.buckets[PRODUCTIVE] / self.wall_s if self.wall_s > 0 else 0.0


class Ledger:
    """Accounts for one job over all its runs. Times come with the events; there is no clock here."""

    def __init__(self) -> None:
        self._buckets = dict.fromkeys(BUCKETS, 0.0)
        self._start_s: float | None = None
        self._cursor_s = 0.0
        self._background = STARTUP
        self._gaps: deque[tuple[float, float, str]] = deque(maxlen=_REMEMBERED_GAPS)
        self._step_claims: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED_STEPS)
        self._run_ended_well = True
        self._fresh_run = True
        self._ended = False
        self._steps = self._checkpoints = self._runs = 0

    def handle(self, event: GoodputEvent) -> None:
        """Take one event in."""
        match event:
            case JobStarted():
                self._job_started(event.time_s)
            case JobEnded():
                self._advance(event.time_s)
                self._ended = True
                self._run_ended_well = event.exit_code in (None, 0)
            case StepCompleted():
                self._step(event)
            case OutputCompleted():
                self._output(event)
            case RestartCompleted():
                self._claim(event.start_s, event.end_s, RESTORE)
            case _:
                pass

    def charge_slowdown(self, seconds: float) -> None:
        """Move `seconds` of the steps' time to the flush that slowed them down."""
        moved_s = min(max(0.0, seconds), self._buckets[PRODUCTIVE])
        self._move(PRODUCTIVE, FLUSH_SLOWDOWN, moved_s)

    def account(self, now: float) -> Account:
        """Where the time went until `now` (until its end, when the job has ended)."""
        buckets = dict(self._buckets)
        if self._start_s is None:
            return Account(wall_s=0.0, buckets=buckets)
        tail_s = 0.0 if self._ended else max(0.0, now - self._cursor_s)
        buckets[self._background] += tail_s
        return Account(
            wall_s=self._cursor_s - self._start_s + tail_s,
            buckets=buckets,
            steps=self._steps,
            checkpoints=self._checkpoints,
            runs=self._runs,
        )

    def _job_started(self, time_s: float) -> None:
        self._runs += 1
        if self._start_s is None:
            self._start_s = self._cursor_s = time_s
        else:
            self._background = OTHER if self._ended and self._run_ended_well else RECOVERY
            self._advance(time_s)
        self._background = STARTUP
        self._ended = False
        self._run_ended_well = False
        self._fresh_run = True

    def _step(self, step: StepCompleted) -> None:
        self._steps += 1
        if self._fresh_run:
            self._waste_from(step.step)
            self._fresh_run = False
        self._step_claims.append((step.step, self._claim(step.start_s, step.end_s, PRODUCTIVE)))
        self._background = OTHER

    def _waste_from(self, step: int) -> None:
        """A run begins again at `step`: what earlier runs computed from there on was for nothing."""
        while self._step_claims and self._step_claims[-1][0] >= step:
            _, claimed_s = self._step_claims.pop()
            self._move(PRODUCTIVE, WASTED_PROGRESS, min(claimed_s, self._buckets[PRODUCTIVE]))

    def _output(self, output: OutputCompleted) -> None:
        self._checkpoints += output.checkpoint and output.valid
        claimed_s = self._claim(output.start_s, output.end_s, CHECKPOINT_OTHER)
        parts = {
            CHECKPOINT_WRITE: output.write_s,
            CHECKPOINT_ENCODE: output.encode_s,
            CHECKPOINT_FLUSH: output.flush_s,
            CHECKPOINT_WAIT: output.wait_s,
        }
        # each part is the slowest rank's, so that together they may exceed what was felt
        scale = min(1.0, claimed_s / total) if (total := sum(parts.values())) > 0 else 0.0
        for bucket, seconds in parts.items():
            self._move(CHECKPOINT_OTHER, bucket, seconds * scale)

    def _claim(self, start_s: float, end_s: float, bucket: str) -> float:
        """Give [start_s, end_s) to `bucket` as far as no event has it yet; returns the seconds given."""
        if self._start_s is None:
            self._start_s = self._cursor_s = start_s
        start_s = max(start_s, self._start_s)
        if end_s <= start_s:
            return 0.0
        claimed_s = self._claim_gaps(start_s, min(end_s, self._cursor_s), bucket)
        if end_s > self._cursor_s:
            self._advance(start_s)
            fresh_s = end_s - self._cursor_s
            self._buckets[bucket] += fresh_s
            self._cursor_s = end_s
            claimed_s += fresh_s
        return claimed_s

    def _claim_gaps(self, start_s: float, end_s: float, bucket: str) -> float:
        claimed_s = 0.0
        kept: list[tuple[float, float, str]] = []
        for gap_start_s, gap_end_s, background in self._gaps:
            low_s, high_s = max(start_s, gap_start_s), min(end_s, gap_end_s)
            if high_s <= low_s:
                kept.append((gap_start_s, gap_end_s, background))
                continue
            self._move(background, bucket, high_s - low_s)
            claimed_s += high_s - low_s
            kept += [(a, b, background) for a, b in ((gap_start_s, low_s), (high_s, gap_end_s)) if b > a]
        self._gaps = deque(kept, maxlen=_REMEMBERED_GAPS)
        return claimed_s

    def _advance(self, to_s: float) -> None:
        """Account for the time up to `to_s` as background, to be claimed by an event that comes late."""
        if self._start_s is not None and to_s > self._cursor_s:
            self._buckets[self._background] += to_s - self._cursor_s
            self._gaps.append((self._cursor_s, to_s, self._background))
            self._cursor_s = to_s

    def _move(self, source: str, target: str, seconds: float) -> None:
        self._buckets[source] -= seconds
        self._buckets[target] += seconds
