"""What the bucket `tuning` says that trials cost, against what they truly cost, in simulated jobs.

The jobs are those of `simulate_tuner.py`. The truth of a trial that was taken back: of each checkpoint under
its settings, what it took from the job, less what it would have taken under those before and the same noise.

    python benchmarks/trial_costs.py [--jobs 300] [--checkpoints 40]
"""

# ruff: noqa: S311 - simulated jobs need no cryptography

import argparse
import random
from math import sqrt
from statistics import fmean, stdev

from simulate_tuner import STEPS, Job, Parts, Run, draw, heading, noise, row, users

from scrtune.goodput.ledger import TUNING
from scrtune.intents.decisions import Verdict
from scrtune.intents.events import Values


class Followed(Run):
    """A run that remembers under what each checkpoint was taken: generation, settings, noise."""

    def __init__(self, job: Job, user: Values, rng: random.Random) -> None:
        self._is_begun = False
        self.taken: list[tuple[int, Values, float]] = []
        super().__init__(job, user, rng)

    def checkpoint(self, dataset: int, factor: float) -> None:
        """As any, and remembered."""
        advice = self.pipeline.advice
        self.taken.append((advice.generation, {**self._own, **advice.settings}, factor))
        super().checkpoint(dataset, factor)

    def _compute(self, took_s: float) -> None:
        """The first stretch in steps as long as all others: one long one would be a slow reference."""
        parts = 1 if self._is_begun else STEPS
        self._is_begun = True
        for _ in range(parts):
            super()._compute(took_s / parts)

    @property
    def true_s(self) -> float:
        """What the trials that were taken back cost."""
        log, cost_s = list(self.pipeline.decisions), 0.0
        for index, trial in enumerate(log):
            verdict = next((each for each in log[index + 1 :] if each.verdict is not Verdict.VETOED), None)
            if trial.verdict is not Verdict.TRIAL or verdict is None or verdict.verdict is Verdict.ACCEPTED:
                continue
            for generation, settings, factor in self.taken:
                is_on = trial.generation <= generation < verdict.generation
                if is_on and trial.changes.items() <= settings.items():
                    before = {
                        **settings,
                        **{name: self._own[name] for name in trial.changes},
                        **trial.previous,
                    }
                    cost_s += felt_s(self.job, settings, factor) - felt_s(self.job, before, factor)
        return cost_s


def felt_s(job: Job, settings: Values, factor: float) -> float:
    """What a checkpoint takes from a simulated job: steps beside its flush get longer, and so fewer."""
    parts: Parts = job.parts(settings)
    blocking_s = (parts.write_s + parts.encode_s + parts.blocked_s) * factor
    if parts.flush_s <= 0 or parts.blocked_s >= parts.flush_s * 0.999:
        return blocking_s
    until_s, step_s, now_s = min(parts.flush_s * factor, 0.9 * job.interval_s), job.interval_s / STEPS, 0.0
    slowed_s = 0.0
    for _ in range(STEPS):
        beside_s = max(0.0, min(step_s, until_s - now_s))
        more_s = parts.slowdown_s * factor * beside_s / max(1e-9, until_s)
        now_s += step_s + more_s
        slowed_s += more_s
    return blocking_s + slowed_s


def report(jobs: int, checkpoints: int) -> None:
    """Print the table."""
    print(
        f"{jobs} jobs of {checkpoints} checkpoints for each user; in checkpoints of the user's own settings\n"
    )
    heading("user", "told", "true", "mean error", "RMS error of one job")
    for name, settings in users():
        told, true = [], []
        for seed in range(jobs):
            job = draw(random.Random(1000 + seed))
            user = settings(job)
            run = Followed(job, user, random.Random(seed + 1))
            for dataset, factor in enumerate(noise(random.Random(seed), checkpoints), start=1):
                run.checkpoint(dataset, factor)
            own_s = job.parts(user).cost_s
            told.append(run.pipeline.ledger.charges[TUNING] / own_s)
            true.append(run.true_s / own_s)
        errors = [one - other for one, other in zip(told, true, strict=True)]
        row(
            name,
            f"{fmean(told):.3f}",
            f"{fmean(true):.3f}",
            f"{fmean(errors):+.3f} +- {stdev(errors) / sqrt(len(errors)):.3f}",
            f"{sqrt(fmean(error**2 for error in errors)):.2f}",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=300, help="jobs for each user")
    parser.add_argument("--checkpoints", type=int, default=40, help="checkpoints of a job")
    options = parser.parse_args()
    report(options.jobs, options.checkpoints)
