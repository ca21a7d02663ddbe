"""How often a job fails: what was seen, what was believed before, and how sure that makes us.

Failures come at a constant rate, `n` of them in `T` seconds, and a share of them leaves the cached
checkpoints. Both are uncertain where n is small: the rate has a Gamma distribution, shape a and time b before
anything was seen (the prior), a + n and b + T afterwards; the share has a Beta distribution, to whose
parameters the failures of either kind are added (conjugate priors: A. Gelman et al., Bayesian Data Analysis).
"""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean

import msgspec

from .events import (
    AllocationEnded,
    GoodputEvent,
    Interval,
    IntervalEnded,
    JobEnded,
    JobHalted,
    JobQueued,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    Recovered,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from .interval import IntervalError

NODE_MTBF_S = 54 * 86_400 * (16_384 / 8) / 419
"""Llama 3 (Meta 2024): 419 unexpected interruptions in 54 days on 16,384 accelerators, 8 in a
node: one in 6,335 hours of a node. Other machines fail otherwise."""
RATE_WEIGHT = 1.0
"""Failures that this counts as. With less than one a rate of 0 would be the likeliest by far; with one, what
was seen has the majority from the second failure on."""
NODE_LOSS_SHARE = 0.85
"""Share of the failures that levels cheaper than the prefix directory recovered (A. Moody et al., SC'10)."""
PROCESS_SHARE = 0.16
"""Share that plausibly ends only the process, of Llama 3's: all that a cache without redundancy survives."""
SHARE_WEIGHT = 4.0
"""Failures that either share counts as: there is less between machines than in their rates."""
_NEVER_S = 1e300
_SURELY = 1e-9


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of a job in `observed_s` seconds of running on `nodes` nodes.

    The work went on from the `cache` (or what was rebuilt there) or the `prefix` directory; of `unknown` ones
    nobody said. The restarts are mean seconds from a run's last sign of life to what was read, 0 if none was;
    `restart_s` is that of all kinds.
    """

    observed_s: float = 0.0
    cache: int = 0
    prefix: int = 0
    unknown: int = 0
    nodes: int = 1
    cache_restart_s: float = 0.0
    prefix_restart_s: float = 0.0
    restart_s: float = 0.0

    @property
    def total(self) -> int:
        """Failures of any kind."""
        return self.cache + self.prefix + self.unknown


class Prior(msgspec.Struct, frozen=True, kw_only=True):
    """What is believed before a failure was seen: an MTBF of the job, and how many failures that weighs.

    `cache_share` is the share of failures that the cache survives, with a weight of its own; `source` says
    where the MTBF is from. Raises IntervalError.
    """

    mtbf_s: float
    weight: float = RATE_WEIGHT
    cache_share: float = NODE_LOSS_SHARE
    share_weight: float = SHARE_WEIGHT
    source: str = "your own"

    def __post_init__(self) -> None:
        for name in ("mtbf_s", "weight", "share_weight"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise IntervalError(f"prior: {name} is {value}: it must be a number above 0")
        if not 0 < self.cache_share < 1:
            raise IntervalError(f"prior: cache_share is {self.cache_share}: it must lie between 0 and 1")


def typical(nodes: int, *, survives_node: bool = True) -> Prior:
    """The default prior for a job on `nodes` nodes: each fails as in Llama 3's training, independently.

    `survives_node` says whether the redundancy scheme does (not SINGLE).
    """
    if nodes < 1:
        raise IntervalError(f"nodes is {nodes}: a job has at least one")
    many = "a node that fails" if nodes == 1 else f"{nodes} nodes that fail"
    return Prior(
        mtbf_s=NODE_MTBF_S / nodes,
        cache_share=NODE_LOSS_SHARE if survives_node else PROCESS_SHARE,
        source=f"{many} as often as those of Llama 3's training, every {NODE_MTBF_S / 3600:,.0f} h each",
    )


class Posterior(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of failures (Gamma, `failures` in `time_s`) and the share that the cache survives (Beta)."""

    failures: float
    time_s: float
    cache: float
    prefix: float

    @property
    def mtbf_s(self) -> float:
        """One over the mean rate: an interval chosen for it costs least on average, to first order.

        What an interval costs is linear in the rate, so that the mean rate is the one to decide by.
        """
        return self.time_s / self.failures

    @property
    def cache_share(self) -> float:
        """The mean share of failures that the cache survives."""
        return self.cache / (self.cache + self.prefix)

    def mtbfs_s(self, probabilities: Sequence[float]) -> list[float]:
        """The MTBFs below which it lies with these probabilities, each above 0 and below 1."""
        from scipy.special import gammaincinv  # type: ignore[import-untyped] # noqa: PLC0415 - slow to load

        rates = gammaincinv(self.failures, [1 - each for each in probabilities])
        return [min(_NEVER_S, self.time_s / max(float(rate), 1 / _NEVER_S)) for rate in rates]

    def cache_shares(self, probabilities: Sequence[float]) -> list[float]:
        """The shares below which it lies with these probabilities; neither 0 nor 1."""
        from scipy.special import betaincinv  # noqa: PLC0415 - as above

        shares = betaincinv(self.cache, self.prefix, probabilities)
        return [min(1 - _SURELY, max(_SURELY, float(share))) for share in shares]


def posterior(failures: Failures, prior: Prior) -> Posterior:
    """What the prior and the failures seen come to."""
    return Posterior(
        failures=prior.weight + failures.total,
        time_s=prior.weight * prior.mtbf_s + failures.observed_s,
        cache=prior.share_weight * prior.cache_share + failures.cache,
        prefix=prior.share_weight * (1 - prior.cache_share) + failures.prefix,
    )


class FailureWatch:
    """Counts the failures of one job.

    A failure is a run that ended badly, or that another one follows without its having ended. What was
    halted, or came to the planned end of its allocation, did not fail, unless a node did. Time counts while a
    run gives signs of life. A run that broke off last is not counted: it may still run.
    """

    def __init__(self) -> None:
        self._observed_s = 0.0
        self._nodes = 1
        self._unknown = 0
        self._restarts: dict[str, list[float]] = {"cache": [], "prefix": [], "unknown": []}
        self._start_s: float | None = None
        self._last_s = 0.0
        self._ended: bool | None = None
        self._planned = self._node_failed = False
        self._failed_s: float | None = None

    def handle(self, event: GoodputEvent) -> None:
        """Take one event in; they come in the order of time, or nearly so."""
        match event:
            case JobStarted():
                self._started(event)
            case JobEnded():
                self._alive(event.time_s)
                self._ended = event.exit_code in (None, 0)
            case JobHalted() | AllocationEnded():
                self._planned = True
            case NodeFailed():
                self._node_failed = True
            case RestartCompleted():
                self._restarted(event)
            case JobQueued() | Recovered() | Interval(kind="queue_wait" | "recovery"):
                pass  # between two runs
            case Interval(kind="checkpoint_restore") | IntervalEnded(kind="checkpoint_restore"):
                self._read("unknown", _end_s(event))
            case StepStarted() | StepCompleted() | OutputCompleted():
                self._alive(_end_s(event))
                self._failed_s = None  # it goes on: what is read later is no restart after a failure
            case _:
                self._alive(_end_s(event))

    @property
    def failures(self) -> Failures:
        """What was seen so far."""
        over = self._ended is False or self._node_failed
        cache, prefix = self._restarts["cache"], self._restarts["prefix"]
        every = [*cache, *prefix, *self._restarts["unknown"]]
        return Failures(
            observed_s=self._observed_s + self._run_s,
            cache=len(cache),
            prefix=len(prefix),
            unknown=self._unknown + (over and not self._planned_end),
            nodes=self._nodes,
            cache_restart_s=fmean(cache) if cache else 0.0,
            prefix_restart_s=fmean(prefix) if prefix else 0.0,
            restart_s=fmean(every) if every else 0.0,
        )

    @property
    def _run_s(self) -> float:
        return 0.0 if self._start_s is None else self._last_s - self._start_s

    @property
    def _planned_end(self) -> bool:
        return self._planned and not self._node_failed

    def _started(self, event: JobStarted) -> None:
        if event.time_s == self._start_s:
            return  # each rank may say so
        self._nodes = max(1, event.nodes)
        if self._start_s is not None:
            self._observed_s += self._run_s
            failed = self._node_failed or not (self._planned or self._ended)
            self._unknown += failed
            self._failed_s = self._last_s if failed else None
        self._start_s = self._last_s = event.time_s
        self._ended = None
        self._planned = self._node_failed = False

    def _alive(self, time_s: float) -> None:
        if self._start_s is None:
            self._start_s = self._last_s = time_s
        self._last_s = max(self._last_s, time_s)

    def _restarted(self, restart: RestartCompleted) -> None:
        if restart.valid:
            self._read("prefix" if restart.source == "prefix" else "cache", restart.end_s)
        else:
            self._alive(restart.end_s)

    def _read(self, level: str, time_s: float) -> None:
        """A checkpoint was read at `level`: the first one after a failure is a restart."""
        self._alive(time_s)
        if self._failed_s is not None:
            self._unknown -= level != "unknown"
            self._restarts[level].append(max(0.0, time_s - self._failed_s))
            self._failed_s = None


def _end_s(event: GoodputEvent) -> float:
    return event.end_s if hasattr(event, "end_s") else event.time_s
