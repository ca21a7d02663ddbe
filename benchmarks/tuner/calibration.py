"""Whether the belief is as sure as it may be: what it says of the change it likes best, against the truth.

Each job takes `CHECKPOINTS` checkpoints under its user's own settings; then the change that the tuner would
try if no budget limited it is compared with what it really costs. A belief is calibrated when of the changes
that it calls more expensive with probability p the share p is more expensive.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from scrtune.intents.events import TuningSwitched
from scrtune.intents.pipeline import Pipeline

from .drive import Run, case

CHECKPOINTS = 3
_BINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
HEADING = (
    "believed probability to be more expensive",
    "jobs",
    "believed",
    "true",
    "cost to own: believed, true",
)


class Said(msgspec.Struct, frozen=True):
    """What is believed of a change of settings, and what it really costs, to the user's own settings."""

    p_more_expensive: float
    believed: float
    true: float


def said(scenario: str, start: str, seed: int) -> Said | None:
    """Return what is said of one job; None when nothing is proposed."""
    made = case(scenario, start, seed, 4 * CHECKPOINTS)  # the machine changes later, where it does
    pipeline = Pipeline()
    pipeline.handle(TuningSwitched(on=False), 0.0)
    run = Run(made, pipeline)
    for noise in made.noise[:CHECKPOINTS]:
        run.checkpoint(noise)
    tuner = pipeline.tuner
    proposals = tuner.proposals(pipeline.situation) if tuner else ()
    if not proposals or tuner is None or tuner.belief is None:
        return None
    changes = proposals[0].changes
    index = tuner.belief.index({**tuner.settings, **changes})
    ratios = tuner.belief.totals[index] / tuner.belief.totals[0]
    changed = {**made.own, **{name: value for name, value in changes.items() if name in made.own}}
    true = made.truth.cost_s(changed) / made.truth.cost_s(made.own)
    return Said(float(np.mean(ratios > 1)), float(np.median(ratios)), true)


def cells(found: Sequence[Said]) -> Iterator[list[str]]:
    """Return the rows of the table."""
    for low, high in pairwise(_BINS):
        some = [each for each in found if low <= each.p_more_expensive < high]
        if some:
            believed, true = (np.mean([getattr(each, of) for each in some]) for of in ("believed", "true"))
            is_more = np.mean([each.true > 1 for each in some])
            p_more_expensive = np.mean([each.p_more_expensive for each in some])
            shares = (f"{p_more_expensive:.1%}", f"{is_more:.1%}")
            yield [f"{low} to {high}", str(len(some)), *shares, f"{believed:.2f}, {true:.2f}"]
