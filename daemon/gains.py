"""What each decision of the tuner gained: its trial, and the checkpoints taken under it since.

It is computed where it is asked for, not in the daemon, which has a job to watch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import hypot
from typing import NamedTuple

import msgspec

from ..goodput.attribution import Gain, Pair, gain
from ..goodput.checkpoint_cost import CheckpointCost
from ..intents.decisions import Decision, Verdict
from ..intents.events import Values

_OPEN_END = 2**63
_Turns = Mapping[int, Sequence[CheckpointCost]]
"""Costs by generation, in order."""


class GainView(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was tried, what became of it, and what it gained."""

    generation: int
    time_s: float
    rule: str
    changes: Values
    previous: Values
    verdict: Verdict
    gain: Gain


def gains(decisions: Sequence[Decision], costs: Sequence[CheckpointCost]) -> tuple[GainView, ...]:
    """Every trial of which anything was measured, oldest first.

    A change counts until the user's settings come back, or another one that was kept replaces it.
    """
    turns: dict[int, list[CheckpointCost]] = {}
    for cost in sorted(costs, key=lambda each: each.generation):
        turns.setdefault(cost.generation, []).append(cost)
    trials = (index for index, each in enumerate(decisions) if each.verdict is Verdict.TRIAL)
    views = (_gain_of(decisions[index], decisions[index + 1 :], turns) for index in trials)
    return tuple(view for view in views if view is not None)


class Together(NamedTuple):
    """Seconds that several changes saved so far, with the bounds of the 90 % interval."""

    total_s: float
    low_s: float
    high_s: float


def together(found: Iterable[Gain]) -> Together:
    """The sum of `found`; each was measured in a trial of its own, so that their errors are independent."""
    found = tuple(found)
    total_s = sum(each.total_s for each in found)
    return Together(
        total_s,
        total_s - hypot(*(each.total_s - each.total_low_s for each in found)),
        total_s + hypot(*(each.total_high_s - each.total_s for each in found)),
    )


def _gain_of(trial: Decision, later: Sequence[Decision], turns: _Turns) -> GainView | None:
    verdict = next((each for each in later if each.verdict in {Verdict.ACCEPTED, Verdict.REVERTED}), None)
    kept_from, kept_until = _in_force(verdict, later)
    checkpoints = sum(
        len(turn)
        for generation, turn in turns.items()
        if kept_from <= generation < kept_until or _is_candidate(generation, trial, verdict)
    )
    found = gain(tuple(_pairs(trial, verdict, turns)), checkpoints)
    if found is None:
        return None
    return GainView(
        generation=trial.generation,
        time_s=trial.time_s,
        rule=trial.rule,
        changes=trial.changes,
        previous=trial.previous,
        verdict=verdict.verdict if verdict else trial.verdict,
        gain=found,
    )


def _in_force(verdict: Decision | None, later: Sequence[Decision]) -> tuple[int, int]:
    """From which generation a change that was kept is in force, and the first without it."""
    if verdict is None or verdict.verdict is not Verdict.ACCEPTED:
        return 0, 0
    names = verdict.changes.keys()
    for each in later:
        if each.generation <= verdict.generation:
            continue
        is_users = each.verdict is Verdict.ANCHOR or (
            each.verdict is Verdict.REQUIRED and each.source == "user"
        )
        if is_users or (each.verdict is Verdict.ACCEPTED and names & each.changes.keys()):
            return verdict.generation, each.generation
    return verdict.generation, _OPEN_END


def _is_candidate(generation: int, trial: Decision, verdict: Decision | None) -> bool:
    """The settings on trial and those they may replace have the generations in turn (`Tuner`)."""
    last = _OPEN_END if verdict is None else verdict.generation
    return trial.generation <= generation <= last and (generation - trial.generation) % 2 == 0


def _pairs(trial: Decision, verdict: Decision | None, turns: _Turns) -> Iterator[Pair]:
    """The turns of a trial: as many checkpoints before it as in the first, then those in between."""
    end_s = verdict.time_s if verdict is not None else float("inf")
    for generation in (each for each in turns if _is_candidate(each, trial, verdict)):
        turn = [cost for cost in turns[generation] if cost.time_s <= end_s]
        if not turn:
            continue
        earlier = turns.get(generation - 1, ())
        if generation == trial.generation:
            earlier = [cost for each in turns if each < generation for cost in turns[each]][-len(turn) :]
        yield Pair(
            before=tuple(cost.cost_s for cost in earlier),
            after=tuple(cost.cost_s for cost in turn),
            across_runs=turn[0].interval_s == 0,  # the first of a run
        )
