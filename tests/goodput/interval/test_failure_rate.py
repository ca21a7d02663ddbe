"""How often a job fails, and how sure that is."""

from math import exp, log, sqrt
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from scrtune.goodput.interval.failure_rate import NODE_MTBF_S, FailurePrior, Posterior, posterior, typical
from scrtune.goodput.interval.failures import Failures
from scrtune.goodput.interval.model import IntervalError, exact

from ...support.failing_machines import MTBF_S, drawn, lost_points


def rate(failures: int, watched_s: float, prior_s: float = MTBF_S, weight: float = 1.0) -> Posterior:
    seen_so_far = Failures(unknown=failures, observed_s=watched_s)
    return posterior(seen_so_far, FailurePrior(mtbf_s=prior_s, weight=weight))


def test_before_anything_was_seen_only_the_order_of_magnitude_is_known() -> None:
    nothing = rate(0, 0.0)
    quartiles = nothing.mtbfs_s([0.25, 0.5, 0.75])
    unit_s = MTBF_S * (sqrt(2) - 1)  # the distribution function of weight 1 is 1 - 1 / (1 + r)^2
    assert quartiles == pytest.approx([unit_s, MTBF_S, unit_s / (sqrt(4 / 3) - 1)], rel=1e-3)
    assert nothing.mtbf_s == pytest.approx(unit_s, rel=1e-3)
    assert nothing.half_within == pytest.approx(2.5, rel=0.02)
    assert rate(0, 0.0, weight=4).half_within < 2 < rate(0, 0.0, weight=0.5).half_within


@pytest.mark.parametrize("failures", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("watched", [0.01, 1.0, 200.0])
@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
def test_the_density_is_added_up_rightly(failures: int, watched: float, weight: float) -> None:
    def log_density(log_rate: float) -> float:
        power = (failures + weight) * log_rate - watched * exp(log_rate)
        return power - (2 * weight + 1) * float(np.logaddexp(0, log_rate))

    def density(log_rate: float) -> float:
        return exp(log_density(log_rate) - log_density(peak))

    unit_s = FailurePrior(mtbf_s=MTBF_S, weight=weight).unit_s
    found = rate(failures, watched * unit_s, weight=weight)
    peak = log(unit_s / found.mtbf_s)
    points = [peak - 1, peak, peak + 1]
    whole = quad(density, peak - 30, peak + 15, points=points, limit=400)[0]
    mean = quad(lambda x: exp(x) * density(x), peak - 30, peak + 15, points=points, limit=400)[0]
    assert found.mtbf_s == pytest.approx(unit_s * whole / mean, rel=1e-3)
    (median_s,) = found.mtbfs_s([0.5])
    below = quad(density, peak - 30, log(unit_s / median_s), points=points[:1], limit=400)[0]
    assert below / whole == pytest.approx(0.5, abs=2e-3)


@given(st.integers(0, 10**6), st.floats(0, 1e12), st.floats(1e-3, 1e12), st.floats(0.05, 100))
def test_whatever_was_seen_the_rate_is_finite_and_its_quantiles_are_in_order(
    failures: int, watched_s: float, prior_s: float, weight: float
) -> None:
    found = rate(failures, watched_s, prior_s, weight)
    quantiles = found.mtbfs_s([0.01, 0.05, 0.5, 0.95, 0.99])
    assert quantiles == sorted(quantiles)
    assert quantiles[0] > 0
    assert quantiles[-1] < float("inf")
    assert quantiles[0] * 1e-3 < found.mtbf_s < quantiles[-1]


def test_many_failures_outweigh_any_prior_and_a_few_a_very_wrong_one() -> None:
    assert rate(400, 400 * MTBF_S, prior_s=1000 * MTBF_S).mtbf_s == pytest.approx(MTBF_S, rel=0.01)
    assert rate(3, 3 * MTBF_S, prior_s=1000 * MTBF_S).mtbf_s < 3 * MTBF_S
    assert rate(2, 2 * MTBF_S, prior_s=MTBF_S / 1000).mtbf_s > MTBF_S / 3


def test_the_default_prior_is_that_of_the_nodes() -> None:
    assert typical(16).mtbf_s == NODE_MTBF_S / 16
    assert round(NODE_MTBF_S / 3600) == 6335
    assert posterior(Failures(), typical(16)).cache_share == pytest.approx(0.85)
    assert posterior(Failures(), typical(1, survives_node=False)).cache_share == pytest.approx(0.16)
    many = posterior(Failures(cache=300, prefix=100, unknown=50, observed_s=4.5e9), typical(16))
    assert many.mtbf_s == pytest.approx(1e7, rel=0.01)
    assert many.cache_share == pytest.approx(0.75, rel=0.01)


@pytest.mark.parametrize(
    "bad", [{"mtbf_s": 0.0}, {"mtbf_s": 1, "weight": -1}, {"mtbf_s": 1, "cache_share": 1.0}]
)
def test_an_impossible_prior_is_reported(bad: dict[str, float]) -> None:
    with pytest.raises(IntervalError, match="prior: "):
        FailurePrior(**bad)
    with pytest.raises(IntervalError, match="at least one"):
        typical(0)


def test_credible_intervals_cover_at_their_rate() -> None:
    """Machines drawn from the prior, watched until a given time: 90 % lie within the 90 % interval."""
    rng, prior = np.random.default_rng(2), FailurePrior(mtbf_s=MTBF_S)
    inside = shares = 0
    machines = 2000
    for _ in range(machines):
        rate, share = drawn(rng, prior), rng.beta(4 * 0.85, 4 * 0.15)
        failed = int(rng.poisson(rate * 30_000))
        cache = int(rng.binomial(failed, share))
        known = posterior(Failures(observed_s=30_000, cache=cache, prefix=failed - cache), prior)
        low_s, high_s = known.mtbfs_s([0.05, 0.95])
        inside += low_s <= 1 / rate <= high_s
        low, high = known.cache_shares([0.05, 0.95])
        shares += low <= share <= high
    assert inside / machines == pytest.approx(0.9, abs=0.02)
    assert shares / machines == pytest.approx(0.9, abs=0.02)


def test_a_share_of_which_nothing_is_known_is_neither_none_nor_all() -> None:
    vague = posterior(Failures(), FailurePrior(mtbf_s=1, share_weight=1e-3))
    assert all(0 < each < 1 for each in vague.cache_shares([0.001, 0.5, 0.999]))


@pytest.mark.parametrize(
    ("too_long", "most_points"), [(0.1, 1.0), (1 / 3, 0.8), (1, 0.8), (3, 1.4), (10, 3.5)]
)
def test_with_the_prior_the_first_failure_loses_less_than_without(
    too_long: float, most_points: float
) -> None:
    rng, cost_s = np.random.default_rng(9), 0.0125 * MTBF_S
    failures = [int(each) for each in rng.poisson(1, 1500)]
    guesses = [rate(each, MTBF_S, prior_s=too_long * MTBF_S).mtbf_s for each in range(max(failures) + 1)]
    lost = fmean(lost_points(exact(cost_s, guesses[each]), cost_s) for each in failures)
    assert lost < most_points < 3.8
