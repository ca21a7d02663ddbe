"""The fitted model: it finds again what made the runs, and is monotone where the world is."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.model import GIB
from scrtune.intents.tune.belief.shape import Shape
from scrtune.replay.what_if.evidence import RunEvidence
from scrtune.replay.what_if.fit import NAMES, PRIORS_OF_RUNS, Case, case_of, costs, fit_runs

SHAPE = Shape(
    nodes=4,
    ranks_per_node=4,
    rank_bytes=3 * GIB,
    files=12,
    between_s=60.0,
    cores=32,
    used_cores=1.0,
    mask_cores=4,
)
CACHED: Values = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 1}
THREADS: Values = {**CACHED, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1}
SETTINGS: Sequence[Values] = (
    DEFAULTS,
    CACHED,
    {**CACHED, "SCR_FLUSH": 0},
    {**CACHED, "SCR_FLUSH": 0, "SCR_COPY_TYPE": "XOR"},
    {**THREADS, "SCRTUNE_FLUSH_THREADS": 1},
    {**THREADS, "SCRTUNE_FLUSH_THREADS": 4},
    {**THREADS, "SCRTUNE_FLUSH_THREADS": 4, "SCRTUNE_FLUSH_CPUS": "8-31"},
    {**THREADS, "SCRTUNE_FLUSH_THREADS": 1, "SCR_COPY_TYPE": "XOR"},
    {**THREADS, "SCRTUNE_FLUSH_THREADS": 2, "SCR_FLUSH": 2},
)

one_of_settings = st.sampled_from(SETTINGS)
shapes = st.builds(
    Shape,
    nodes=st.integers(1, 64),
    ranks_per_node=st.integers(1, 64),
    rank_bytes=st.floats(1e6, 1e11),
    files=st.integers(1, 200),
    between_s=st.floats(1, 3600),
    cores=st.just(64),
    used_cores=st.just(1.0),
    mask_cores=st.integers(1, 64),
)
spreads = st.lists(st.floats(-2, 2), min_size=len(NAMES), max_size=len(NAMES))


def rates(spread: Sequence[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """One member, its rates so many SDs from the middle of their priors."""
    priors = [PRIORS_OF_RUNS[name] for name in NAMES]
    return np.array(
        [[np.log(prior.median) + each * prior.spread] for prior, each in zip(priors, spread, strict=True)]
    )


@given(one_of_settings, shapes, spreads, st.floats(0.0, 3.0), st.booleans())
@settings(deadline=None)
def test_a_faster_prefix_directory_never_makes_anything_slower(
    chosen: Values, shape: Shape, spread: list[float], faster: float, with_scr: bool
) -> None:
    case, slow = Case(chosen, shape, 0.3, with_scr), rates(spread)
    fast = slow.copy()
    fast[NAMES.index("prefix_bytes_per_s")] += faster
    before, after = costs([case], slow), costs([case], fast)
    assert after.flush_s <= before.flush_s * (1 + 1e-9)
    assert after.checkpoint_s <= before.checkpoint_s * (1 + 1e-9)


@given(one_of_settings, shapes, spreads, st.floats(0.0, 3.0))
@settings(deadline=None)
def test_a_faster_cache_never_makes_writing_slower(
    chosen: Values, shape: Shape, spread: list[float], faster: float
) -> None:
    case, slow = Case(chosen, shape, 0.3), rates(spread)
    fast = slow.copy()
    fast[NAMES.index("cache_bytes_per_s")] += faster
    assert costs([case], fast).parts["write"] <= costs([case], slow).parts["write"] * (1 + 1e-9)


@given(one_of_settings, shapes, spreads, st.floats(1.0, 20.0))
@settings(deadline=None)
def test_more_bytes_are_never_cheaper(
    chosen: Values, shape: Shape, spread: list[float], times: float
) -> None:
    bigger = msgspec.structs.replace(shape, rank_bytes=shape.rank_bytes * times)
    found = costs([Case(chosen, shape, 0.3), Case(chosen, bigger, 0.3)], rates(spread))
    assert found.flush_s[1] >= found.flush_s[0] * (1 - 1e-9)
    assert found.parts["write"][1] >= found.parts["write"][0]


@given(one_of_settings, shapes, spreads)
@settings(deadline=None)
def test_the_parts_are_the_whole_and_none_is_negative(
    chosen: Values, shape: Shape, spread: list[float]
) -> None:
    found = costs([Case(chosen, shape, 0.3)], rates(spread))
    assert all(part >= 0 for part in found.parts.values())
    assert found.checkpoint_s == pytest.approx(sum(found.parts.values()))


def simulated(spread: Sequence[float], noise: float) -> list[RunEvidence]:
    """A run for each of the settings, made by the model with these rates, and noise."""
    found = costs([Case(each, SHAPE, 0.3) for each in SETTINGS], rates(spread))
    rng = np.random.default_rng(7)
    return [
        RunEvidence(
            run=str(index),
            settings=chosen,
            said={},
            shape=SHAPE,
            node_bytes=SHAPE.node_bytes,
            largest_file=0.3,
            with_scr=True,
            checkpoint_s=float(found.checkpoint_s[index, 0] * np.exp(noise * rng.standard_normal())),
            spread=0.0,
            outside_s=None,
            flush_s=float(found.flush_s[index, 0]) or None,
        )
        for index, chosen in enumerate(SETTINGS)
    ]


@pytest.mark.parametrize("shift", [-0.8, 0.0, 0.8])
def test_what_made_the_runs_is_found_again(shift: float) -> None:
    runs = simulated([shift * (-1) ** n for n in range(len(NAMES))], noise=0.02)
    fitted = fit_runs(runs)
    found = costs([case_of(run) for run in runs], fitted.rates)
    errors = np.log(np.median(found.checkpoint_s, axis=1) / [run.checkpoint_s for run in runs])
    assert abs(errors).max() < 0.1
    assert np.isfinite(fitted.rates).all()
    assert len(fitted.without) == len(runs)


def test_the_same_runs_give_the_same_rates() -> None:
    runs = simulated([0.3] * len(NAMES), noise=0.02)
    assert (fit_runs(runs).rates == fit_runs(runs).rates).all()


def test_a_run_that_is_held_out_says_nothing() -> None:
    runs = simulated([0.0] * len(NAMES), noise=0.0)
    wrong = [msgspec.structs.replace(runs[0], checkpoint_s=1e4), *runs[1:]]
    without = costs([case_of(runs[0])], fit_runs(wrong).without[0]).checkpoint_s
    assert without == pytest.approx(costs([case_of(runs[0])], fit_runs(runs).without[0]).checkpoint_s)


def test_one_run_alone_leaves_nothing_to_hold_out() -> None:
    assert fit_runs(simulated([0.0] * len(NAMES), noise=0.0)[:1]).without == []
