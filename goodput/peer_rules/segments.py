"""What a job's segments come to, as columns, by the rules of ml-goodput-measurement 0.2.3."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .types import BadputTimes, BadputType
from .walk import Segment, Walk


def spent(walk: Walk) -> tuple[float, BadputTimes, int, int]:
    """Productive seconds, badput, the last step that counts and the last one recorded.

    Badput is in the order in which the peer comes to it.
    """
    badput_s: BadputTimes = {}
    customs = Customs(walk.customs)
    productive_s = 0.0
    for number, segment in enumerate(walk.segments):
        if walk.loaded_after == number:
            badput_s[BadputType.DATA_LOADING_SYNC] = walk.sync_loading_s
        productive_s += _close(segment, customs, badput_s)[0]
        if segment.recovery_s is not None:
            _add(badput_s, BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, segment.recovery_s)
    if walk.loaded_after is not None:
        badput_s[BadputType.DATA_LOADING_SYNC] = walk.sync_loading_s
    save_s = _mean_by_name(walk.saves)
    badput_s |= {
        BadputType.TPU_INITIALIZATION: walk.paired_s.get("device_init", 0.0),
        BadputType.TRAINING_PREP: walk.paired_s.get("training_prep", 0.0),
        BadputType.DATA_LOADING_ASYNC: walk.loading_s - walk.sync_loading_s + walk.async_loading_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: save_s,
        BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: _mean_by_name(walk.restores),
    }
    if not walk.steps:
        return 0.0, badput_s, 0, 0
    latest = int(np.argmax(np.array(walk.steps)))
    last_step = walk.steps[latest]
    segment_s, max_step = _close(Segment(walk.steps, walk.times_s, last_step), customs, badput_s)
    productive_s += segment_s
    if walk.job_end_s is not None:
        productive_s += walk.job_end_s - walk.times_s[latest]
        max_step = last_step
    return productive_s - save_s, badput_s, max_step, last_step


class Customs:
    """Custom events as columns: each takes its time from the step it lies wholly inside of."""

    def __init__(self, customs: Sequence[tuple[float, float, str]]) -> None:
        self.start_s = np.array([custom[0] for custom in customs], dtype=float)
        self.end_s = np.array([custom[1] for custom in customs], dtype=float)
        self.names = sorted({custom[2] for custom in customs})
        numbers = {name: number for number, name in enumerate(self.names)}
        self.name_numbers = np.array([numbers[custom[2]] for custom in customs], dtype=int)
        self._by_start = np.argsort(self.start_s, kind="stable")
        self._sorted_start_s = self.start_s[self._by_start]

    def within(
        self, times_s: npt.NDArray[np.float64], counted: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.float64], dict[str, float]]:
        """Seconds in each step that is `counted` (shape ``len(times_s) - 1``), and by name, as first met."""
        steps, customs = self._pairs(times_s)
        steps, customs = steps[counted[steps]], customs[counted[steps]]
        spent_s = self.end_s[customs] - self.start_s[customs]
        by_step_s = np.bincount(steps, weights=spent_s, minlength=len(counted))
        by_name_s = np.bincount(self.name_numbers[customs], weights=spent_s, minlength=len(self.names))
        met = self.name_numbers[customs[np.lexsort((customs, steps))]]
        return np.asarray(by_step_s, dtype=float), {
            self.names[number]: float(by_name_s[number]) for number in dict.fromkeys(met.tolist())
        }

    def _pairs(self, times_s: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Which step (by position) holds which custom event."""
        if np.all(times_s[1:] >= times_s[:-1]):
            # only those that begin within these steps, or many disruptions would cost their product
            first, last = np.searchsorted(self._sorted_start_s, (times_s[0], times_s[-1]))
            customs = np.sort(self._by_start[first:last])
            steps = np.searchsorted(times_s, self.start_s[customs], side="right") - 1
            inside = self.end_s[customs] <= times_s[steps + 1]
            return steps[inside], customs[inside]
        # steps that run backwards may hold an event more than once
        held = [
            np.flatnonzero((times_s[:-1] <= start_s) & (end_s <= times_s[1:]))
            for start_s, end_s in zip(self.start_s, self.end_s, strict=True)
        ]
        none = np.empty(0, dtype=np.intp)
        return np.concatenate([none, *held]), np.repeat(np.arange(len(held)), [len(found) for found in held])


def _close(segment: Segment, customs: Customs, badput_s: BadputTimes) -> tuple[float, int]:
    """The steps between two disruptions: returns productive seconds and the last step that counts.

    A step lasts until the next step number begins; where a number is missing, nothing counts. What lies past
    the step the work went on at was wasted. The first step's excess over the mean of the others is start-up.
    Work that went on at step 0 has no segment before it.
    """
    if segment.resumed_at == 0:
        return 0.0, 0
    # copies: an array whose memory is looked at cannot grow
    steps = np.array(segment.steps, dtype=np.int64)
    times_s = np.array(segment.times_s, dtype=np.float64)
    spans_s = np.diff(times_s)
    kept = steps[1:] <= segment.resumed_at
    counted = kept & (np.diff(steps) == 1)
    wasted_s = _sum(spans_s[~kept])
    if not counted.any():
        _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
        return 0.0, 0
    in_customs_s, by_name_s = customs.within(times_s, counted)
    took_s = np.maximum(0.0, spans_s - in_customs_s)[counted]
    all_s = _sum(took_s)
    first = steps[:-1][counted] == steps.min()
    first_s, others = float(took_s[first].sum()), int((~first).sum())
    startup_s = max(0.0, first_s - (all_s - first_s) / others) if others else 0.0
    if others:
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    _add(badput_s, BadputType.WASTED_PROGRESS_FROM_DISRUPTION, wasted_s)
    custom_s = badput_s.setdefault(BadputType.CUSTOM_BADPUT_EVENTS, {})
    if isinstance(custom_s, dict):
        for name, spent_s in by_name_s.items():
            custom_s[name] = custom_s.get(name, 0.0) + spent_s
    if not others:  # there, a segment of one step is told in another order
        _add(badput_s, BadputType.PROGRAM_STARTUP, startup_s)
    return all_s - startup_s if others else first_s, int(steps[:-1][counted][-1])


def _add(badput_s: BadputTimes, badput: BadputType, seconds: float) -> None:
    before_s = badput_s.get(badput, 0.0)
    if not isinstance(before_s, dict):
        badput_s[badput] = before_s + seconds


def _mean_by_name(durations_s: dict[str, list[float]]) -> float:
    """Sum over checkpoints; what several writers say of the same one is averaged."""
    return sum((sum(told_s) / len(told_s) for told_s in durations_s.values()), 0.0)


def _sum(seconds: npt.NDArray[np.float64]) -> float:
    """The sum from first to last, so that the last bit, too, is what the peer has.

    It decides whether a job that did nothing but train has more productive time than time.
    """
    return float(np.cumsum(seconds)[-1]) if len(seconds) else 0.0
