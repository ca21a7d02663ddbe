"""What it takes to make a change while the job runs, and whether its gain pays for that.

Some parameters change only when SCR is finalized and initialised again, between two outputs. Sources:
measured on SCR 3.1.0, 4 to 10 ms at 2 to 4 ranks, 29 ms with all that is around it; SCR_Finalize flushes the
latest checkpoint when SCR_FLUSH > 0, and waits for a flush under way (scr.c). How many checkpoints are still
to come nobody knows: as many as there were is the median estimate without any other knowledge (Gott 1993,
Nature 363, 315; "Lindy").
"""

from math import ceil

from ..events import Values
from ..observe.sketches import Recent
from ..rules.mutability import Reach
from ..rules.situation import Proposal, Situation
from .trial import MOST_SWITCHES

REINIT_PRIOR_S = 0.03
_REMEMBERED = 8


class Switches:
    """What the last re-inits of SCR took, the flushes that they forced included."""

    def __init__(self) -> None:
        self._reinits = Recent(_REMEMBERED)

    def add(self, before: Values, after: Values, apply_s: float, reach: Reach) -> None:
        """Going from `before` to `after` took `apply_s` seconds."""
        changed = {name for name, value in after.items() if before.get(name) != value}
        if apply_s > 0 and any(map(reach.needs_reinit, changed)):
            self._reinits.add(apply_s)

    @property
    def reinit_s(self) -> float:
        """Their mean; 0 before there was one."""
        return self._reinits.mean


def reinit_s(now: Situation) -> float:
    """Seconds that one re-init is expected to take: as measured, at least the prior and its forced flush."""
    return max(now.reinit_s, REINIT_PRIOR_S + _forced_flush_s(now))


def too_dear(proposal: Proposal, now: Situation) -> str | None:
    """Why the re-inits that a trial of `proposal` takes do not pay yet, and when they will; or None."""
    names = sorted(filter(now.reach.needs_reinit, proposal.changes))
    if not names or only_at_launch(proposal, now):
        return None
    once_s = reinit_s(now)
    trial_s = MOST_SWITCHES * once_s
    gain_s = proposal.expected_gain_s
    what = f"{', '.join(names)}: a trial takes up to {MOST_SWITCHES} re-inits of SCR, {once_s:.3f} s each"
    if gain_s * now.checkpoints < trial_s:
        when = f"but will from checkpoint {ceil(trial_s / gain_s)} on" if gain_s > 0 else "and never will"
        return (
            f"{what}; {gain_s:.3f} s a checkpoint does not pay for that yet, {when}"
            f" (as many are taken to come as there were: {now.checkpoints}); a launch has it for nothing"
        )
    if now.trial_budget_s < 2 * once_s:
        left_s = max(0.0, now.trial_budget_s)
        return f"{what}; trying may cost {left_s:.3f} s in all now, more with each checkpoint"
    return None


def only_at_launch(proposal: Proposal, now: Situation) -> str | None:
    """Why `proposal` waits for the next launch of the job; None when this run can have it."""
    names = sorted(filter(now.reach.is_fixed, proposal.changes))
    if not names:
        return None
    what = ", ".join(names)
    return f"{what}: only a launch can change it now; the next run of the job begins with it, on trial"


def _forced_flush_s(now: Situation) -> float:
    """The flush that a re-init forces, beside the one that it waits for.

    Settings change when the last flush is known to have ended (:class:`.flush.FlushCycles`):
    the latest checkpoint is flushed then, unless flushes outlast the interval. What is written past the cache
    needs no flush.
    """
    flush = now.intents.flush
    if not now.cached or now.integer("SCR_FLUSH") <= 0 or not now.asynchronous:
        return 0.0
    between_s = max(0.0, flush.interval_s - flush.blocking_s)
    return flush.flush_s if flush.flush_s > between_s else 0.0
