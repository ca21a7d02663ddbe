"""What is predicted of the study's own runs, and of what nobody ran."""

import sys

import pytest

from scrtune.intents.events import Value
from scrtune.replay.frames import columns
from scrtune.replay.study import study
from scrtune.replay.what_if.predictions import Stated, what_if
from scrtune.replay.what_if.rows import Prediction, WhatIf

from ...support.recorded_study import runs

FEW = ("base", "scr_bypass", "scr_pfs_one", "scr_1_unbound")
TRACED = Stated()
Asked = dict[str, tuple[Value, ...]]


def predicted(
    names: tuple[str, ...] = FEW, asked: Asked | None = None, stated: Stated = TRACED, base: str = ""
) -> WhatIf:
    given = runs(names)
    return what_if(given, study(given, base), asked, stated)


@pytest.fixture(scope="module")
def whole() -> WhatIf:
    """What follows from all runs of the study."""
    given = runs()
    return what_if(given, study(given))


@pytest.fixture(scope="module")
def few() -> WhatIf:
    return predicted()


def with_settings(found: WhatIf, **settings: Value) -> list[Prediction]:
    return [row for row in found.predictions if settings.items() <= row.settings.items()]


def test_runs_of_the_study_are_predicted_from_the_others(whole: WhatIf) -> None:
    checkpoints, flushes = whole.errors("checkpoint"), whole.errors("flush")
    assert (len(checkpoints), len(flushes)) == (14, 9)
    assert sum(checkpoints) / len(checkpoints) <= 0.03
    assert sum(flushes) / len(flushes) <= 0.2
    assert sum(row.is_covered for row in whole.held_out) >= 0.85 * len(whole.held_out)
    assert {row.run for row in whole.held_out if not row.has_kin} == {"base", "base_ssd", "scr_bypass"}


def test_what_the_study_found_is_what_is_predicted(whole: WhatIf) -> None:
    single, xor = (with_settings(whole, SCR_COPY_TYPE=scheme)[0] for scheme in ("SINGLE", "XOR"))
    assert 30 < xor.checkpoint_s.value - single.checkpoint_s.value < 40, "211 s of six checkpoints"
    bound, idle = (
        with_settings(whole, SCR_COPY_TYPE="SINGLE", SCRTUNE_FLUSH_THREADS=1, SCRTUNE_FLUSH_CPUS=cpus)[-1]
        for cpus in ("", "8-47")
    )
    assert bound.flush_s
    assert idle.flush_s
    assert 1.6 < bound.flush_s.value / idle.flush_s.value < 2.1, "41.4 s bound, 23.0 s not"
    assert whole.like == "scr_ssd_a_pfs"
    assert whole.base == "base"


def test_the_cheapest_comes_first_with_its_parts(whole: WhatIf) -> None:
    seconds = [row.checkpoint_s.value for row in whole.predictions]
    assert seconds == sorted(seconds)
    assert [row.rank for row in whole.predictions] == list(range(1, len(seconds) + 1))
    for row in whole.predictions:
        assert row.checkpoint_s.low < row.checkpoint_s.value < row.checkpoint_s.high
        assert sum(row.parts_s.values()) == pytest.approx(row.checkpoint_s.value, rel=0.05)
    assert whole.predictions[0].source == "measured: scr_bypass 24.19 s"
    assert len(whole.leading) < len(whole.predictions)
    assert whole.leading[0] == whole.predictions[0]


def test_a_scheme_that_no_run_had_is_called_so(whole: WhatIf) -> None:
    partner = with_settings(whole, SCR_COPY_TYPE="PARTNER")[0]
    assert partner.source == "predicted, but no run writes so"
    assert partner.survives == 1
    half = partner.checkpoint_s
    known = with_settings(whole, SCR_COPY_TYPE="XOR")[0].checkpoint_s
    assert half.high / half.low > known.high / known.low


def test_what_is_at_risk_is_told(few: WhatIf) -> None:
    by_way = {
        (row.settings["SCR_CACHE_BYPASS"], row.settings.get("SCR_FLUSH_ASYNC")): row for row in few.leading
    }
    assert by_way[1, None].survives is None
    assert by_way[0, 0].survives is None, "it is flushed when its output is complete"
    assert by_way[0, 1].survives in {0, 1}


def test_only_what_is_asked_for_varies() -> None:
    found = predicted(asked={"SCRTUNE_FLUSH_THREADS": (1, 2)}, base="scr_pfs_one")
    assert {row.settings["SCRTUNE_FLUSH_THREADS"] for row in found.predictions} == {1, 2, 16}
    assert len(found.predictions) == 3
    (own,) = (row for row in found.predictions if not row.changes)
    assert own.measured_s.keys() == {"scr_pfs_one"}
    assert own.difference_s.value == pytest.approx(0.0, abs=1e-9)


def test_a_job_of_another_shape() -> None:
    found = predicted(asked={"nodes": (1, 8), "cores": (48, 96)}, base="scr_pfs_one")
    jobs = {tuple(row.changes.get(name) for name in ("cores", "nodes")) for row in found.predictions}
    assert jobs == {(48, 1), (48, 8), (96, 1), (96, 8)}
    alone = [row for row in found.predictions if row.changes["nodes"] == 1]
    assert {row.settings.get("SCR_COPY_TYPE") for row in alone} == {"SINGLE", None}
    assert not any(row.measured_s for row in found.predictions)


def test_a_stated_rate_is_predicted_for() -> None:
    asked: Asked = {"SCRTUNE_FLUSH_THREADS": (1, 16), "SCR_CACHE_BYPASS": (0, 1)}
    rates = (0.5e9, 4e9, 1e12)
    flushes, direct = [], []
    for rate in rates:
        found = predicted(asked=asked, stated=Stated(prefix=rate), base="scr_pfs_one")
        flushed = with_settings(found, SCRTUNE_FLUSH_THREADS=16)[0].flush_s
        assert flushed
        flushes.append(flushed.value)
        direct.append(with_settings(found, SCR_CACHE_BYPASS=1)[0].checkpoint_s.value)
    assert flushes == sorted(flushes, reverse=True)
    assert direct == sorted(direct, reverse=True)
    true_node_bytes = 48.1 * 1024**3
    assert direct[0] > true_node_bytes / rates[0], "the rate is that of a node's true bytes"


def test_what_has_no_effect_is_said() -> None:
    found = predicted(asked={"SCRTUNE_FLUSH_THREADS": (1, 2)}, base="scr_bypass")
    assert len(found.predictions) == 1
    assert any("SCRTUNE_FLUSH_THREADS" in note and "No effect" in note for note in found.notes)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"SCR_FLUSH_WIDTH": (1,)}, "the model has no SCR_FLUSH_WIDTH; it has SCRTUNE_FLUSH_CPUS"),
        ({"interval": tuple(range(1, 30_000))}, "settings are too many"),
    ],
)
def test_what_cannot_be_predicted_is_refused(asked: Asked, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        predicted(asked=asked)


def test_one_run_is_enough_and_says_what_it_cannot_tell() -> None:
    given = runs(["scr_pfs_one"], with_settings=False)
    found = what_if(given, study(given))
    assert found.held_out == ()
    assert found.predictions
    text = "\n".join(found.notes)
    assert "One run alone" in text
    assert "Settings of scr_pfs_one are what the trace shows of them" in text
    assert "How many cores a node has" in text


def test_runs_without_scr_are_told_from_those_with_it() -> None:
    given = runs(["base", "base_ssd"], with_settings=False)
    found = what_if(given, study(given))
    assert any(note.startswith("No run has SCR") for note in found.notes)
    assert not any(row.measured_s for row in found.predictions)


def test_runs_without_checkpoints_say_nothing() -> None:
    given = [run.__class__(name="empty", table=run.table.__class__()) for run in runs(["base"])]
    with pytest.raises(ValueError, match="name both directories"):
        what_if(given, study(given))


def test_the_same_runs_give_the_same_answer(few: WhatIf) -> None:
    assert predicted() == few


def test_what_mattered_in_the_runs(whole: WhatIf) -> None:
    pytest.importorskip("sklearn")
    mattered = {row.parameter: row.permuted or 0.0 for row in whole.importances}
    assert max(mattered, key=lambda name: mattered[name]) == "SCR_COPY_TYPE"
    assert sum(mattered.values()) == pytest.approx(1.0)
    assert "SCR_SET_SIZE" not in mattered, "it is the same wherever it has an effect"


def test_without_scikit_learn_it_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    found = predicted()
    assert any("pip install 'scrtune[what-if]'" in note for note in found.notes)
    assert all(row.permuted is None for row in found.importances)


def test_what_a_parameter_is_worth(whole: WhatIf) -> None:
    worth = {row.parameter: row for row in whole.importances}
    assert worth["SCR_COPY_TYPE"].worth_s > 30
    assert worth["SCRTUNE_FLUSH_CPUS"].worth_s > 1
    assert worth["SCR_FILE_BUF_SIZE"].worth_s < 0.5, "32 MiB to 1.75 GiB changed nothing"
    assert worth["SCR_COPY_TYPE"].source.startswith("LLNL study")


def test_rows_are_frames_for_notebooks(few: WhatIf) -> None:
    predictions = columns(few.predictions)
    assert predictions["checkpoint_s_value"] == [row.checkpoint_s.value for row in few.predictions]
    assert set(columns(few.held_out)["measure"]) == {"checkpoint", "flush"}
    assert len(columns(few.rates)["name"]) == len(few.rates)
