"""What a wrong interval costs: points of goodput below the best one, by formula and on simulated machines.

The first table has the rules and an interval that is wrong by a factor of two; the second an MTBF that is
estimated from few failures, without a prior and with one that is wrong by a factor; the third two levels
against one. A restart takes as long as a checkpoint; C / M is a checkpoint's cost over the MTBF.

    python benchmarks/goodput/interval_regret.py [--failures 4000000]
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scrtune.goodput.interval.failure_rate import FailurePrior, posterior
from scrtune.goodput.interval.failures import Failures
from scrtune.goodput.interval.model import (
    Levels,
    Schedule,
    daly,
    exact,
    first_order,
    goodput,
    optimal,
    two_level_goodput,
    young,
)

MTBF_S = 10_000.0
RATIOS = (0.0035, 0.0125, 0.03, 0.1, 0.2)
TYPICAL = 0.0125
"""C / M of the second table."""
RULES: dict[str, Callable[[float, float], float]] = {
    "Young": young,
    "Daly": daly,
    "half": lambda cost_s, mtbf_s: exact(cost_s, mtbf_s) / 2,
    "double": lambda cost_s, mtbf_s: exact(cost_s, mtbf_s) * 2,
}


def simulated(interval_s: float, cost_s: float, lifetimes: NDArray[np.float64]) -> float:
    """Goodput of a machine that fails after each of `lifetimes` (seconds); a restart takes `cost_s`, too."""
    pieces = np.floor(np.maximum(0.0, lifetimes - cost_s) / (interval_s + cost_s))
    return float(pieces.sum() * interval_s / lifetimes.sum())


def rules(lifetimes: NDArray[np.float64]) -> None:
    """The first table: what each rule loses, and, in brackets, what it lost on the simulated machine."""
    print("points below the best interval (simulated)")
    print(f"{'C / M':>8} {'best goodput':>18}" + "".join(f"{name:>20}" for name in RULES))
    for ratio in RATIOS:
        cost_s = ratio * MTBF_S
        best_s = exact(cost_s, MTBF_S)
        best, seen = goodput(best_s, cost_s, MTBF_S, cost_s), simulated(best_s, cost_s, lifetimes)
        line = f"{ratio:8.4f} {best:9.3%} ({seen:.2%})"
        for rule in RULES.values():
            own_s = rule(cost_s, MTBF_S)
            lost = 100 * (best - goodput(own_s, cost_s, MTBF_S, cost_s))
            line += f"{lost:11.5f} ({100 * (seen - simulated(own_s, cost_s, lifetimes)):6.3f})"
        print(line)


def estimated(machines: int = 4000) -> None:
    """The second table: the mean loss when the MTBF is what n failures say, with and without a prior."""
    rng, cost_s = np.random.default_rng(7), TYPICAL * MTBF_S
    best = goodput(exact(cost_s, MTBF_S), cost_s, MTBF_S, cost_s)
    factors = (0.01, 0.1, 0.33, 1.0, 3.0, 10.0, 100.0)

    def lost(mtbf_s: float) -> float:
        return 100 * (best - goodput(exact(cost_s, mtbf_s), cost_s, MTBF_S, cost_s))

    print(f"\npoints lost, C / M = {TYPICAL}, MTBF from the failures of n MTBFs (no prior: n failures)")
    print(f"{'n':>3} {'no prior':>10}" + "".join(f"{f'prior x {factor:g}':>14}" for factor in factors))
    for expected in (0, 1, 2, 4, 8):
        line = f"{expected:3}"
        if expected:
            guesses = MTBF_S * rng.gamma(expected, 1 / expected, machines)
            line += f"{np.mean([lost(guess) for guess in guesses]):11.2f}"
        else:
            line += f"{'-':>11}"
        for factor in factors:
            prior = FailurePrior(mtbf_s=MTBF_S * factor)
            seen = rng.poisson(expected, machines)
            found = [Failures(observed_s=expected * MTBF_S, unknown=int(each)) for each in seen]
            line += f"{np.mean([lost(posterior(each, prior).mtbf_s) for each in found]):14.2f}"
        print(line)


def two_levels() -> None:
    """The third table: a cache in front of the prefix directory against every checkpoint flushed."""
    print("\ntwo levels: cached checkpoint 10 s, flush 80 s more, 85 % of the failures leave the cache")
    print(f"{'MTBF':>8} {'each flushed':>22} {'first order':>24} {'exact':>24}")
    for mtbf_s in (2_000.0, 10_000.0, 50_000.0):
        levels = Levels(
            checkpoint_s=10,
            flush_cost_s=80,
            cache_mtbf_s=mtbf_s / 0.85,
            prefix_mtbf_s=mtbf_s / 0.15,
            cache_restart_s=10,
            prefix_restart_s=90,
        )
        line = f"{mtbf_s:7.0f}s"
        for schedule in (Schedule(interval_s=exact(90, mtbf_s)), first_order(levels), optimal(levels)):
            what = f"{schedule.interval_s:.0f} s, 1 in {schedule.flush_every}"
            line += f"{what:>16} {two_level_goodput(schedule, levels):8.3%}"
        print(line)


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--failures", type=int, default=4_000_000, help="Failures of the simulated machine.")
    lifetimes = np.random.default_rng(11).exponential(MTBF_S, parser.parse_args().failures)
    rules(lifetimes)
    estimated()
    two_levels()


if __name__ == "__main__":
    main()
