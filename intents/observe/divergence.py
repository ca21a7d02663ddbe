"""Intent 12, the study's next step 3: whether a metric diverges, such as the loss of a training.

Three signs, none of which depends on the metric's unit. A value that is no finite number is one by itself. A
*jump* lies so far above the last values that it is none of them (robust z-score: median and median absolute
deviation). A *rise* is sustained: the medians of blocks of values grow, one after the other, and the last is
far above the lowest of the job. Only growth counts: of what shall not fall, report the negative.

What is not finite, or jumped, is not among the values that later ones are compared with. A metric that comes
back has recovered.
"""

from collections import deque
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

import msgspec

from ..events import MetricObserved, TextEnum
from ..intent import Evidence, EvidenceWindow, Intent

WINDOW, BLOCK, GROWING = 64, 8, 4
"""Values that one is compared with; values of a block; blocks in a row that grow."""
_LEAST = 16
"""Values before one can be far from them."""
_JUMP = 12.0
"""Robust standard deviations above the median: noise with heavy tails reaches 6 or 8 now and then."""
_RISE = 4.0
"""Robust standard deviations of a value, between the lowest block and the last."""
_CALM = 3
"""Usual values in a row after which a metric has recovered."""
_MAD_TO_SD, _DIFFERENCE_TO_SD = 1.4826, 1 / 0.954
"""A normal distribution's standard deviation over the median absolute deviation, and over the median absolute
difference of two values."""
_LEAST_SD = 1e-3
"""Of the median: a metric that hardly scatters diverges by more than that."""
_MOST_METRICS = 16


class Sign(TextEnum):
    """By what a metric diverges."""

    NOT_FINITE = "is no finite number"
    JUMP = "jumped"
    RISE = "rises"


class Divergence(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """A metric as it was last, and by what it diverges (`sign` None: it does not).

    It was usual up to `good_step`, at `good_s` (epoch seconds; minus infinity: never): what was written later
    may have what made it diverge. `usual` is the median of the values before. `back_to` is the newest
    checkpoint of that time that the prefix directory still has, empty when there is none.
    """

    title, number = "divergence", 12

    evidence: Evidence = Evidence()
    metric: str = ""
    value: float | None = None
    usual: float = 0.0
    sign: Sign | None = None
    step: int = 0
    good_step: int = 0
    good_s: float = -inf
    back_to: str = ""

    def _text(self) -> str:
        if not self.evidence.count:
            return f"{self.metric} was not reported yet" if self.metric else "no metric was reported"
        value = "" if self.value is None else f" {self.value:.4g}"
        if self.sign is None:
            return f"{self.metric} is{value} at step {self.step}, and does not diverge"
        usual = f"it was usual ({self.usual:.4g}) up to step {self.good_step}"
        since = usual if self.good_s > -inf else "it never was usual"
        back = f"; the last checkpoint of that time is {self.back_to}" if self.back_to else ""
        return f"{self.metric} {self.sign}:{value or ' it was not finite'} at step {self.step}; {since}{back}"


class _Good(NamedTuple):
    """The last usual value."""

    step: int = 0
    time_s: float = -inf


class _MetricBlock(NamedTuple):
    """The median of a block of values, and its end."""

    median: float
    end: _Good


class MetricObserver:
    """The values of one metric; of fixed size."""

    def __init__(self, name: str) -> None:
        self.seen = Divergence(metric=name)
        self._count, self._window = 0, EvidenceWindow()
        self._usual: deque[float] = deque(maxlen=WINDOW)
        self._good = _Good()
        self._values: list[float] = []
        """Of the block that is under way."""
        self._blocks: deque[_MetricBlock] = deque(maxlen=GROWING + 1)
        self._lowest = inf
        self._sign: Sign | None = None
        self._good_before = _Good()
        self._limit, self._calm = inf, 0
        """Below which a rise has ended; usual values in a row."""

    def begin_run(self) -> None:
        """The job goes on from a checkpoint: what was usual before stays so."""
        self._values.clear()
        self._blocks.clear()
        self._sign, self._calm = None, 0
        self.seen = msgspec.structs.replace(self.seen, sign=None)

    def add(self, event: MetricObserved) -> None:
        """Take in one value."""
        self._count += 1
        self._window.add(event.time_s, event.time_s)
        value, good = event.value, self._good
        sign = Sign.NOT_FINITE if value is None else Sign.JUMP if self._is_jump(value) else None
        if value is not None and sign is None:
            rising = self._add_usual(value, _Good(event.step, event.time_s))
            if rising is not None:
                sign, good = Sign.RISE, rising
        self._conclude(sign, good)
        until = self._good_before if self._sign else self._good
        self.seen = Divergence(
            evidence=self._window.evidence(self._count, "the recorder"),
            metric=event.name,
            value=value,
            usual=median(self._usual) if self._usual else 0.0,
            sign=self._sign,
            step=event.step,
            good_step=until.step,
            good_s=until.time_s,
        )

    def _conclude(self, sign: Sign | None, good: _Good) -> None:
        """A divergence begins with its first sign, and ends with some usual values, or below its limit."""
        if self._sign is None:
            self._sign, self._good_before, self._calm = sign, good, 0
            return
        self._calm = self._calm + 1 if sign is None else 0
        if self._sign is Sign.RISE and sign is None:
            has_ended = bool(self._blocks) and self._blocks[-1].median <= self._limit
        else:
            has_ended = self._calm >= _CALM
        if has_ended:
            self._sign = None
        elif sign is Sign.NOT_FINITE:
            self._sign = sign

    def _is_jump(self, value: float) -> bool:
        if len(self._usual) < _LEAST:
            return False
        middle = median(self._usual)
        deviation = median(abs(each - middle) for each in self._usual)
        sd = max(_MAD_TO_SD * deviation, _LEAST_SD * abs(middle))
        return sd > 0 and value - middle > _JUMP * sd

    def _add_usual(self, value: float, here: _Good) -> _Good | None:
        """Take in a usual value; return the last one before a sustained rise, where that is under way."""
        self._usual.append(value)
        self._values.append(value)
        self._good = here
        if len(self._values) < BLOCK:
            return None
        block = _MetricBlock(median(self._values), here)
        self._values.clear()
        self._blocks.append(block)
        self._lowest = min(self._lowest, block.median)
        if self._sign is Sign.RISE:
            return self._good_before if block.median > self._limit else None
        differences = [abs(after - before) for before, after in pairwise(self._usual)]
        sd = max(_DIFFERENCE_TO_SD * median(differences), _LEAST_SD * abs(self._lowest))
        is_growing = all(before.median < after.median for before, after in pairwise(self._blocks))
        if len(self._blocks) <= GROWING or not is_growing or block.median - self._lowest <= _RISE * sd:
            return None
        self._limit = self._lowest + _RISE * sd
        return self._blocks[0].end


class DivergenceObserver:
    """Watches the metrics that the application reports: the first sixteen, and the declared one."""

    def __init__(self) -> None:
        self._metrics: dict[str, MetricObserver] = {}

    def add(self, event: MetricObserved, declared: str) -> bool:
        """Take in a value; return whether a divergence began or ended.

        Of other metrics than the `declared` one there may be too many.
        """
        if event.name not in self._metrics and len(self._metrics) >= _MOST_METRICS and event.name != declared:
            return False
        metric = self._metrics.setdefault(event.name, MetricObserver(event.name))
        diverged = metric.seen.sign is not None
        metric.add(event)
        return diverged != (metric.seen.sign is not None) and event.name == (declared or event.name)

    def begin_run(self) -> None:
        """Take in that a run of the job begins."""
        for each in self._metrics.values():
            each.begin_run()

    def observe(self, declared: str) -> Divergence:
        """Return the intent for the `declared` metric; without one that which diverges, or the last."""
        if declared:
            metric = self._metrics.get(declared)
            return metric.seen if metric else Divergence(metric=declared)
        found = [each.seen for each in self._metrics.values()]
        return max(found, key=lambda each: (each.sign is not None, each.evidence.end_s), default=Divergence())
