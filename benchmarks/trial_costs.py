"""The charged costs of trials and the gains of changes against the truth, in simulated jobs.

The jobs are those of `simulate_tuner.py`. The true cost of a reverted trial: of each checkpoint under its
settings, its cost less that under the settings before and the same noise. The true gain of a change: the
ratio, and the difference, of the costs of a checkpoint without noise.

    python benchmarks/trial_costs.py [--jobs 300] [--checkpoints 40]
"""

# ruff: noqa: S311 - simulated jobs need no cryptography

import argparse
import random
from collections.abc import Iterator
from math import sqrt
from statistics import fmean, stdev

from simulate_tuner import Job, Run, draw, heading, noise, row, users

from scrtune.goodput.ledger.ledger import TUNING
from scrtune.intents.events import Values
from scrtune.intents.tune.decisions import Decision, Verdict
from scrtune.intents.tune.gains import GainView, gains

_ENDS = {Verdict.ACCEPTED, Verdict.REVERTED}


class Followed(Run):
    """A run that remembers under what each checkpoint was taken: generation, settings, noise."""

    def __init__(self, job: Job, user: Values, rng: random.Random) -> None:
        self.taken: list[tuple[int, Values, float]] = []
        super().__init__(job, user, rng)

    def checkpoint(self, dataset: int, factor: float) -> None:
        """As any, and remembered."""
        advice = self.pipeline.advice
        self.taken.append((advice.generation, {**self._own, **advice.settings}, factor))
        super().checkpoint(dataset, factor)

    @property
    def true_s(self) -> float:
        """The true cost of the reverted trials, in seconds."""
        log, cost_s = list(self.pipeline.decisions), 0.0
        for index, trial in enumerate(log):
            verdict = next((each for each in log[index + 1 :] if each.verdict is not Verdict.VETOED), None)
            if trial.verdict is not Verdict.TRIAL or verdict is None or verdict.verdict is Verdict.ACCEPTED:
                continue
            for generation, settings, factor in self.taken:
                is_on = trial.generation <= generation < verdict.generation
                if is_on and trial.changes.items() <= settings.items():
                    before_s, after_s = self._true_s(trial, settings)
                    cost_s += (after_s - before_s) * factor
        return cost_s

    @property
    def held(self) -> Iterator[tuple[Verdict, bool, bool, bool]]:
        """Of each trial what became of it, and whether its 90 % intervals hold the truth.

        That is the ratio of costs, the seconds that a checkpoint saves, and those that all of them saved.
        """
        log = list(self.pipeline.decisions)
        trials = {each.generation: each for each in log if each.verdict is Verdict.TRIAL}
        under = {generation: settings for generation, settings, _ in self.taken}
        for view in gains(log, self.pipeline.costs):
            before_s, after_s = self._true_s(view, under[view.generation])
            found, saved = trials[view.generation].comparison, view.gain
            ended = [each for each in log if each.verdict in _ENDS and each.time_s > view.time_s]
            total_s = self._true_total_s(view, ended[0].generation if ended else None)
            yield (
                view.verdict,
                found.low <= after_s / before_s <= found.high,
                saved.low_s <= before_s - after_s <= saved.high_s,
                saved.total_low_s <= total_s <= saved.total_high_s,
            )

    def _true_total_s(self, view: GainView, verdict: int | None) -> float:
        """Return what all checkpoints under a change saved, with the other changes since.

        Its `verdict` came with that generation: from there on it counts until it is first gone.
        """
        total_s = 0.0
        for generation, settings, factor in self.taken:
            is_on = generation >= view.generation and view.changes.items() <= settings.items()
            if is_on:
                before_s, after_s = self._true_s(view, settings)
                total_s += (before_s - after_s) * factor
            elif verdict is not None and generation >= verdict:
                break
        return total_s

    def _true_s(self, trial: Decision | GainView, settings: Values) -> tuple[float, float]:
        """Return the cost of a checkpoint without `trial`, and under its `settings`, without noise."""
        own = {name: self._own[name] for name in trial.changes}
        before = {**settings, **own, **trial.previous}
        return self.job.parts(before).cost_s, self.job.parts(settings).cost_s


def report(jobs: int, checkpoints: int) -> None:
    """Print the tables."""
    intervals = {}
    print(
        f"{jobs} jobs of {checkpoints} checkpoints for each user; in checkpoints of the user's own settings\n"
    )
    heading("user", "charged", "true", "mean error", "RMS error of one job")
    for name, settings in users():
        charged, true = [], []
        held = intervals[name] = []
        for seed in range(jobs):
            job = draw(random.Random(1000 + seed))
            user = settings(job)
            run = Followed(job, user, random.Random(seed + 1))
            for dataset, factor in enumerate(noise(random.Random(seed), checkpoints), start=1):
                run.checkpoint(dataset, factor)
            own_s = job.parts(user).cost_s
            charged.append(run.pipeline.ledger.charges[TUNING] / own_s)
            true.append(run.true_s / own_s)
            held += run.held
        errors = [one - other for one, other in zip(charged, true, strict=True)]
        row(
            name,
            f"{fmean(charged):.3f}",
            f"{fmean(true):.3f}",
            f"{fmean(errors):+.3f} +- {stdev(errors) / sqrt(len(errors)):.3f}",
            f"{sqrt(fmean(error**2 for error in errors)):.2f}",
        )
    print("\nHow many of the 90 % intervals hold the truth\n")
    heading("user", "verdict", "trials", "of the ratio", "of the seconds saved", "of those so far")
    for name, held in intervals.items():
        for verdict in (Verdict.ACCEPTED, Verdict.REVERTED):
            if found := [each for each in held if each[0] is verdict]:
                shares = (f"{fmean(each[index] for each in found):.0%}" for index in (1, 2, 3))
                row(name, verdict.value, str(len(found)), *shares)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=300, help="jobs for each user")
    parser.add_argument("--checkpoints", type=int, default=40, help="checkpoints of a job")
    options = parser.parse_args()
    report(options.jobs, options.checkpoints)
