"""The ensemble: what is measured moves rates and factors, and with them the parts of every candidate."""

import numpy as np
import pytest

from scrtune.intents.events import Tier, Values
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.ensemble import RATES, Ensemble, draw, named
from scrtune.intents.tune.belief.measured import Measured, Row, RowSeen
from scrtune.intents.tune.belief.model import AT_MOST, GIB, PRIORS, Columns, Shape, draw_rates

OWN: Values = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}
XOR: Values = {**OWN, "SCR_COPY_TYPE": "XOR"}
ASYNC: Values = {**OWN, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCRTUNE_FLUSH_THREADS": 1}
CANDIDATES = [OWN, XOR, ASYNC]
SHAPE = Shape(
    nodes=4,
    ranks_per_node=4,
    rank_bytes=1.0 * GIB,
    files=4,
    between_s=60.0,
    cores=16,
    used_cores=1.0,
    mask_cores=16,
)
COLUMNS = Columns.of(CANDIDATES, SHAPE)


def prior(seed: int = 0) -> Ensemble:
    rng = np.random.default_rng(seed)
    drawn = draw_rates(rng, PRIORS)
    return draw(rng, np.array([np.log(drawn[name]) for name in RATES]), CANDIDATES, SHAPE)


def seen(candidate: int, row: Row, seconds: float, noise: float = 0.1) -> Measured:
    return Measured([RowSeen(candidate, row, 3)], np.array([np.log(seconds)]), np.array([[noise**2]]))


def seconds(ensemble: Ensemble, candidate: int, row: Row) -> float:
    """The median of what is believed."""
    return float(np.exp(np.median(ensemble.rows(COLUMNS, SHAPE)[candidate, row])))


def spread(ensemble: Ensemble, candidate: int, row: Row) -> float:
    return float(ensemble.rows(COLUMNS, SHAPE)[candidate, row].std())


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("row", [Row.WRITE, Row.FLUSH, Row.FLUSHED])
def test_what_is_measured_is_believed_and_more_surely_than_before(factor: float, row: Row) -> None:
    before = prior()
    value = factor * seconds(before, 0, row)
    after = before.given(seen(0, row, value), COLUMNS, SHAPE)
    assert seconds(after, 0, row) == pytest.approx(value, rel=0.25)
    assert spread(after, 0, row) < 0.6 * spread(before, 0, row)


def test_one_settings_write_says_what_anothers_takes_and_nothing_of_flushes() -> None:
    before = prior()
    after = before.given(seen(0, Row.WRITE, 3 * seconds(before, 0, Row.WRITE), 0.05), COLUMNS, SHAPE)
    assert seconds(after, 2, Row.WRITE) == pytest.approx(seconds(after, 0, Row.WRITE), rel=0.05)
    assert seconds(after, 0, Row.FLUSH) == pytest.approx(seconds(before, 0, Row.FLUSH), rel=0.3)


def test_parts_agree_with_the_whole() -> None:
    after = prior().given(seen(0, Row.FLUSH, 9.0), COLUMNS, SHAPE)
    rows = after.rows(COLUMNS, SHAPE)[0]
    parts_s = np.exp(rows[Row.WRITE]) + np.exp(rows[Row.ENCODE]) + np.exp(rows[Row.FLUSH])
    assert np.allclose(rows[Row.FLUSHED], np.log(parts_s) + after.misfit[0])


def test_the_same_measurements_make_the_same_ensemble() -> None:
    data = seen(1, Row.ENCODE, 2.0)
    assert all(map(np.array_equal, prior().given(data, COLUMNS, SHAPE), prior().given(data, COLUMNS, SHAPE)))


def test_what_is_left_of_the_candidates_is_believed_as_before() -> None:
    chosen = prior().chosen([0, 2])
    rows = chosen.rows(COLUMNS.chosen([0, 2]), SHAPE)
    assert np.array_equal(rows, prior().rows(COLUMNS, SHAPE)[[0, 2]])


def test_a_change_of_the_machine_puts_the_rates_of_its_tier_in_doubt() -> None:
    before = prior().given(seen(0, Row.FLUSH, 4.0), COLUMNS, SHAPE)
    after = before.doubted({Tier.PREFIX: 0.8}, np.random.default_rng(1))
    assert spread(after, 0, Row.FLUSH) > 2 * spread(before, 0, Row.FLUSH)
    assert np.array_equal(after.rows(COLUMNS, SHAPE)[:, Row.WRITE], before.rows(COLUMNS, SHAPE)[:, Row.WRITE])


def test_rates_have_names_and_shares_are_one_at_most() -> None:
    rates = named(prior().rates)
    assert set(rates) == set(PRIORS)
    for name, most in AT_MOST.items():
        assert rates[name].max() <= most
