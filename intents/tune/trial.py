"""One trial of a change, the flushes beside it, and why it ends before its costs are complete."""

import msgspec

from ...goodput.events import FlushCompleted, OutputCompleted, StepCompleted
from ..events import Values
from ..rules.situation import Proposal
from ..settings import flush_every, is_asynchronous, is_cached
from .belief.belief import Belief
from .choice.chooser import OWN

_NEARLY_ALL, _OVERDUE = 0.95, 0.05
"""Of the interval, after which the next output is due; probability that a flush takes as long as it has."""


class FlushWatch:
    """Watches the flushes of a trial, and those up to dataset `after`, which are of other settings."""

    def __init__(self, after: int = 0) -> None:
        self._after = after
        self._others_until_s = 0.0
        self._has_flushed = False
        self._since_s: float | None = None
        """Since when a flush of the trial's is under way, or several."""

    def output(self, output: OutputCompleted) -> float:
        """Take in an output of the trial that begins a flush; return the seconds that it took.

        Without those of applying and observing, and without waiting for flushes of other settings.
        """
        waits_from_s = max(output.start_s, self._others_until_s)
        waited_s = max(0.0, output.start_s + output.wait_s - waits_from_s) if self._has_flushed else 0.0
        self._has_flushed = True
        if self._since_s is None:
            self._since_s = output.end_s
        took_s = output.end_s - output.start_s - output.apply_s - output.observe_s
        return took_s - output.wait_s + waited_s

    def flushed(self, flush: FlushCompleted) -> None:
        """Take in that a flush ended."""
        if flush.dataset <= self._after:
            self._others_until_s = flush.end_s
        else:
            self._since_s = None

    def under_way_s(self, time_s: float) -> float:
        """Return how long, at `time_s`, a flush of the trial's has been under way; 0: none is."""
        return 0.0 if self._since_s is None else max(0.0, time_s - self._since_s)


class Trial(msgspec.Struct, kw_only=True):
    """The changes of `proposal` to the settings `incumbent`, since `generation`; `looks` counts checkpoints.

    A trial `since_launch` began with the launch of a run, and no other run can take it back.
    """

    generation: int
    incumbent: Values
    wanted: Values
    settings: Values
    """What of `wanted` this run can have."""
    proposal: Proposal
    looks: int = 0
    lost_s: float = 0.0
    """Seconds that its checkpoints took beyond the user's own settings, expected rework aside."""
    flushes: FlushWatch = msgspec.field(default_factory=FlushWatch)
    since_launch: bool = False


def why_too_expensive(
    trial: Trial, belief: Belief, output: OutputCompleted, share: float, most_s: float
) -> str:
    """Take in an output of `trial`; return why it ends if that lost over `most_s`, empty where it goes on.

    The output has a `share` of the usual bytes. Its cost is known when its flush ends: until then the next
    output would take as long, and the one after it where the flush ends late.
    """
    is_beside = output.flush_due and is_asynchronous(trial.settings)
    if belief.index(trial.wanted) in {None, OWN} or trial.since_launch or not is_beside:
        return ""
    lost_s = trial.flushes.output(output) - share * float(belief.felt[OWN].mean())
    return f"one output lost {lost_s:.3f} s against your own settings" if lost_s > most_s else ""


def why_overdue(trial: Trial, belief: Belief, step: StepCompleted) -> str:
    """Return why `trial`, from past the cache, ends after a step beside its flush; empty where it goes on.

    The next output waits for that flush in any case. Under the trial's settings it would begin another such
    flush, for which the one after it waits; past the cache it begins none.
    """
    if trial.since_launch or is_cached(trial.incumbent) or flush_every(trial.settings) != 1:
        return ""
    index, passed_s = belief.index(trial.wanted), trial.flushes.under_way_s(step.end_s)
    if index is None or passed_s <= _NEARLY_ALL * belief.shape.between_s:
        return ""
    is_overdue = belief.p_longer(index, passed_s) < _OVERDUE
    return f"its flush is overdue, after {passed_s:.3f} s" if is_overdue else ""
