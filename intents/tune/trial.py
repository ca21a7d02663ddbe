"""One trial of a change, the flushes beside it, and why it ends before its costs are complete."""

import msgspec

from ...goodput.events import FlushCompleted, OutputCompleted
from ..events import Values
from ..rules.situation import Proposal
from ..settings import is_asynchronous
from .belief.belief import Belief
from .choice.chooser import OWN


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
    after: int
    """The last dataset of other settings."""
    looks: int = 0
    lost_s: float = 0.0
    """Seconds that its checkpoints took beyond the user's own settings, expected rework aside."""
    since_launch: bool = False
    others_until_s: float = 0.0
    """When the last flush of other settings had ended."""
    has_flushed: bool = False

    def took_s(self, output: OutputCompleted) -> float:
        """Take in an output that begins a flush; return the seconds that it took.

        Without those of applying and observing, and without waiting for flushes of other settings.
        """
        waits_from_s = max(output.start_s, self.others_until_s)
        waited_s = max(0.0, output.start_s + output.wait_s - waits_from_s) if self.has_flushed else 0.0
        self.has_flushed = True
        took_s = output.end_s - output.start_s - output.apply_s - output.observe_s
        return took_s - output.wait_s + waited_s

    def flushed(self, flush: FlushCompleted) -> None:
        """Take in that a flush ended."""
        if flush.dataset <= self.after:
            self.others_until_s = flush.end_s


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
    lost_s = trial.took_s(output) - share * float(belief.felt[OWN].mean())
    return f"one output lost {lost_s:.3f} s against your own settings" if lost_s > most_s else ""
