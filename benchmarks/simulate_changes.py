"""The share of changes that are kept, by their true effect: the tuner alone, under the noise of checkpoints.

Each proposal multiplies the cost of a checkpoint by a factor that the tuner does not know.

    python benchmarks/simulate_changes.py [--jobs 1500] [--checkpoints 40]
"""

# ruff: noqa: S311 - simulated jobs need no cryptography

import argparse
import random
from collections.abc import Sequence
from math import prod
from statistics import fmean

from simulate_tuner import heading, noise, row

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.intents.mutability import RunMutability
from scrtune.intents.rules.situation import Proposal
from scrtune.intents.tune.chooser import TrialChoice
from scrtune.intents.tune.decisions import Outcome, Verdict
from scrtune.intents.tune.tuner import Tuner


def report(jobs: int, checkpoints: int) -> None:
    """Print the table."""
    print(f"{jobs} jobs of {checkpoints} checkpoints for each set of proposals, made in this order\n")
    heading("true effect on cost", "kept", "checkpoints till kept", "mean", "p99", "P(>2 % worse)")
    for effects in (
        (0.5,),
        (0.7,),
        (0.8,),
        (0.9,),
        (1.0,),
        (1.1,),
        (1.3,),
        (3.0,),
        (1.05, 1.2, 1.1),
        (3.0,) * 4,
    ):
        made = [try_changes(effects, checkpoints, seed) for seed in range(jobs)]
        ratios = sorted(ratio for ratio, _ in made)
        after = sorted(number for _, number in made if number)
        row(
            ", ".join(f"{effect:g}" for effect in effects),
            f"{len(after) / jobs:.1%}",
            str(after[len(after) // 2]) if after else "-",
            f"{fmean(ratios):.3f}",
            f"{ratios[int(0.99 * (jobs - 1))]:.3f}",
            f"{sum(ratio > 1.02 for ratio in ratios) / jobs:.1%}",
        )


def report_launches(jobs: int) -> None:
    """Print the share of kept changes that a launch made active, compared with the run before."""
    print("\nOne change, made active by a launch: six checkpoints against the last six of the run before\n")
    heading("true effect on cost", "kept")
    for effect in (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3):
        kept = sum(try_at_launch(effect, seed) for seed in range(jobs))
        row(f"{effect:g}", f"{kept / jobs:.1%}")


def try_at_launch(effect: float, seed: int) -> bool:
    """Return whether the tuner keeps a change of the next run, whose noise is independent of the last."""
    tuner = Tuner({"C": 0}, RunMutability(parameters={"C": "launch"}, found={"C": 0}))
    change = Proposal(rule="a change", intent="", changes={"C": 1}, because="", source="")
    for number, cost_s in enumerate(noise(random.Random(seed), 20)):
        take(tuner, cost_s, number)
    tuner.start(TrialChoice(None, ((Verdict.PENDING, change, "only a launch can change it"),)), 20.0)
    tuner.begin_run(RunMutability(parameters={"C": "launch"}, found={"C": 1}), 21.0)
    for number, factor in enumerate(noise(random.Random(seed + 10**6), 10), start=22):
        take(tuner, effect * factor, number)
    return any(each.verdict is Verdict.ACCEPTED for each in tuner.decisions)


def try_changes(effects: tuple[float, ...], checkpoints: int, seed: int) -> tuple[float, int]:
    """One job: its cost over that without tuning, and the checkpoint after which a change was kept (or 0)."""
    tuner, kept_after = Tuner({}), 0
    made = [
        Proposal(rule=f"change {number}", intent="", changes={f"C{number}": 1}, because="", source="")
        for number in range(len(effects))
    ]

    tuned_s = own_s = 0.0
    for number, factor in enumerate(noise(random.Random(seed), checkpoints), start=1):
        cost_s = factor * prod(
            effect for index, effect in enumerate(effects) if f"C{index}" in tuner.settings
        )
        tuned_s, own_s = tuned_s + cost_s, own_s + factor
        outcome = take(tuner, cost_s, number, made)
        if not kept_after and any(each.verdict is Verdict.ACCEPTED for each in outcome.decisions):
            kept_after = number
    return tuned_s / own_s, kept_after


def take(tuner: Tuner, cost_s: float, now: float, proposals: Sequence[Proposal] = ()) -> Outcome:
    """One checkpoint, after which the first proposal that changes something may be tried."""
    cost = CheckpointCost(dataset=int(now), generation=tuner.generation, time_s=now, blocking_s=cost_s)
    outcome = tuner.add(cost, now)
    if outcome.is_ready:
        candidates = (each for each in tuner.candidates(proposals) if each.beyond(tuner.settings).changes)
        tuner.start(TrialChoice(next(candidates, None)), now)
    return outcome


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1500, help="jobs for each set of proposals")
    parser.add_argument("--checkpoints", type=int, default=40, help="checkpoints of a job")
    options = parser.parse_args()
    report(options.jobs, options.checkpoints)
    report_launches(options.jobs)
