import importlib.util
from math import inf
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def module() -> ModuleType:
    """The pure part of `python -m benchmarks.loop`, which is in no package that is installed."""
    spec = importlib.util.spec_from_file_location("loop_table", ROOT / "benchmarks" / "loop" / "table.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


TABLE = module()


def runs(*whole_s: float, late: float = 0.5, kept: int = 0) -> list:
    """Jobs of so many seconds, of which the `late` share is after checkpoint 20 and half is checkpoints."""
    return [
        TABLE.Seconds(each, each / 2, late * each, late * each / 2, kept=kept, taken_back=1)
        for each in whole_s
    ]


def whole(run: object) -> float:
    return run.whole_s


def test_a_ratio_of_pairs_has_no_doubt_when_every_round_says_the_same() -> None:
    found = TABLE.ratio_of([5.0, 10.0, 20.0], [10.0, 20.0, 40.0])
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_drift_that_both_of_a_pair_share_widens_a_ratio_less_than_drift_between_them() -> None:
    paired = TABLE.ratio_of([5.1, 10.0, 19.9], [10.0, 20.0, 40.0])
    mixed = TABLE.ratio_of([19.9, 10.0, 5.1], [10.0, 20.0, 40.0])
    assert mixed.value == paired.value
    assert mixed.high - mixed.low > 10 * (paired.high - paired.low)


def test_one_round_proves_nothing() -> None:
    found = TABLE.ratio_of([9.0], [10.0])
    assert (found.low, found.high) == (-inf, inf)
    assert str(found) == "0.90"


@pytest.mark.parametrize(("tuned_s", "reached"), [(10.0, 1.0), (20.0, 0.0), (12.0, 0.8), (22.0, -0.2)])
def test_the_share_of_a_saving_is_between_the_start_alone_and_the_best(
    tuned_s: float, reached: float
) -> None:
    found = TABLE.share(runs(20, 20), runs(tuned_s, tuned_s), runs(10, 10), whole)
    assert found.value == pytest.approx(reached)


@pytest.mark.parametrize("best", [(19.9, 19.9, 19.9), (15.0, 24.0, 15.0), (21.0, 21.0, 21.0)])
def test_where_the_best_saves_nothing_beyond_noise_there_is_no_share(best: tuple[float, ...]) -> None:
    assert TABLE.share(runs(20, 20, 20), runs(18, 18, 18), runs(*best), whole) is None


def test_the_table_has_a_row_for_each_start_alone_and_tuned() -> None:
    comparison = TABLE.Comparison(
        "big-file",
        "SINGLE async",
        {"poor": runs(40, 40), "best": runs(20, 20)},
        {"poor": runs(25, 25, kept=3), "best": runs(21, 21)},
    )
    head, _, names, _, *rows = TABLE.table(comparison)
    assert head == "### big-file: best of the grid: SINGLE async"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert {len(row) for row in cells} == {names.count("|") - 1}
    assert [row[:3] for row in cells] == [
        ["poor", "alone", "40.0"],
        ["poor", "tuned", "25.0"],
        ["best", "alone", "20.0"],
        ["best", "tuned", "21.0"],
    ]
    poor, best = cells[1], cells[3]
    assert (poor[3], poor[-3], poor[-1]) == ("0.62 (0.62 to 0.62)", "0.75 (0.75 to 0.75)", "3/1 3/1")
    assert (best[3], best[-3]) == ("1.05 (1.05 to 1.05)", "")


def test_without_jobs_from_the_best_there_is_no_share_of_its_saving() -> None:
    comparison = TABLE.Comparison("big-file", "SINGLE async", {"poor": runs(40)}, {"poor": runs(25)})
    *_, tuned = TABLE.table(comparison)
    assert [cell.strip() for cell in tuned.strip("|").split("|")][-3:] == ["", "", "0/1"]
