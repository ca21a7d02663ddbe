"""The choice of the next trial: guard rails first, then whether the change pays while the job runs.

Some parameters change only when SCR is finalized and initialised again, between two outputs. Sources:
measured on SCR 3.1.0, 4 to 10 ms at 2 to 4 ranks, 29 ms with all that is around it; SCR_Finalize flushes the
latest checkpoint when SCR_FLUSH > 0, and waits for a flush under way (scr.c). The number of checkpoints still
to come is unknown: as many as there were is the median estimate without other knowledge (Gott 1993, Nature
363, 315; "Lindy").
"""

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from ..observe.shared_files import starts_past_the_cache
from ..rules.guards import veto
from ..rules.policy import proposals
from ..rules.situation import Proposal, Situation
from .decisions import Verdict
from .trial import MOST_SWITCHES

_AT_NEXT_LAUNCH = "the next run of the job begins with it, on trial"


class TrialChoice(NamedTuple):
    """The proposal to try next, if any, and those passed over, each with its verdict and the reason."""

    proposal: Proposal | None
    passed_over: tuple[tuple[Verdict, Proposal, str], ...] = ()


def permitted(now: Situation) -> tuple[Proposal, ...]:
    """Return what the rules propose and nothing stops."""
    return tuple(each for each in proposals(now) if (veto(each, now) or unprofitable(each, now)) is None)


def required(now: Situation) -> list[tuple[Proposal, str | None]]:
    """Return the proposals that the user's declaration demands, each with what stops it or None."""
    return [(each, veto(each, now)) for each in proposals(now) if each.required]


def choose(candidates: Iterable[Proposal], now: Situation) -> TrialChoice:
    """Return the first of `candidates` that changes something and that nothing stops."""
    passed_over: list[tuple[Verdict, Proposal, str]] = []
    for proposal in candidates:
        if not proposal.changes:
            continue
        if reason := veto(proposal, now):
            passed_over.append((Verdict.VETOED, proposal, reason))
        elif reason := unprofitable(proposal, now):
            passed_over.append((Verdict.VETOED, proposal, reason))
            if now.job is None or not starts_past_the_cache(proposal.changes, now.job):
                passed_over.append((Verdict.PENDING, proposal, _AT_NEXT_LAUNCH))
        elif reason := only_at_launch(proposal, now):
            passed_over.append((Verdict.PENDING, proposal, reason))
        else:
            return TrialChoice(proposal, tuple(passed_over))
    return TrialChoice(None, tuple(passed_over))


def unprofitable(proposal: Proposal, now: Situation) -> str | None:
    """Return why the re-inits of a trial of `proposal` do not pay yet, and when they will; or None."""
    names = sorted(filter(now.mutability.needs_reinit, proposal.changes))
    if not names or only_at_launch(proposal, now):
        return None
    once_s = reinit_s(now)
    trial_s = MOST_SWITCHES * once_s
    gain_s = proposal.expected_gain_s
    what = f"{', '.join(names)}: a trial takes up to {MOST_SWITCHES} re-inits of SCR, {once_s:.3f} s each"
    if gain_s * now.checkpoints < trial_s:
        when = f"but will from checkpoint {ceil(trial_s / gain_s)} on" if gain_s > 0 else "and never will"
        return (
            f"{what}; {gain_s:.3f} s a checkpoint does not pay for that yet, {when} (as many are expected"
            f" to follow as there were: {now.checkpoints}); at a launch it costs nothing"
        )
    if now.trial_budget_s < 2 * once_s:
        left_s = max(0.0, now.trial_budget_s)
        return f"{what}; the trial budget is {left_s:.3f} s now and grows with each checkpoint"
    return None


def only_at_launch(proposal: Proposal, now: Situation) -> str | None:
    """Return why `proposal` waits for the next launch of the job; None when this run can have it."""
    names = sorted(filter(now.mutability.is_fixed, proposal.changes))
    return f"{', '.join(names)}: only a launch can change it now; {_AT_NEXT_LAUNCH}" if names else None


def reinit_s(now: Situation) -> float:
    """Return the expected seconds of a re-init: as measured, at least the prior and its forced flush."""
    return max(now.reinit_s, now.reinit_prior_s + _forced_flush_s(now))


def _forced_flush_s(now: Situation) -> float:
    """Return the seconds of the flush that a re-init forces, beside the one that it waits for.

    Settings change when the last flush is known to have ended (:class:`..observe.flush.FlushCycles`): the
    latest checkpoint is flushed by then, unless flushes outlast the interval. Data written past the cache
    needs no flush.
    """
    flush = now.intents.flush
    if not now.cached or now.integer("SCR_FLUSH") <= 0 or not now.asynchronous:
        return 0.0
    between_s = max(0.0, flush.interval_s - flush.blocking_s)
    return flush.flush_s if flush.flush_s > between_s else 0.0
