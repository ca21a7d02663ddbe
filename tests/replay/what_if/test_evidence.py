"""What runs show: settings, shape and seconds, by what is said of them, else by the trace."""

from pathlib import Path

import pytest

from scrtune.examples.study_traces import LAYER_BYTES, LAYERS, OPTIMIZER_BYTES
from scrtune.intents.trace.rows import Amount
from scrtune.replay.reading.scan import read_table
from scrtune.replay.study import Run, study
from scrtune.replay.table import AccessKey, ActivityKey, JobThread, ThreadSpan, TraceTable
from scrtune.replay.what_if.evidence import RunEvidence, evidence, value_of

from ...support.recorded_study import runs

TRACES = Path(__file__).parents[2] / "data" / "traces"
RANK_BYTES = LAYERS * LAYER_BYTES + OPTIMIZER_BYTES


def seen(name: str, **settings: str) -> RunEvidence:
    (run,) = runs([name], with_settings=False)
    return of(Run(name=run.name, table=run.table, settings=settings))


def of(run: Run) -> RunEvidence:
    found = study([run])
    return evidence(run, found.runs[0], found.checkpoints)


@pytest.mark.parametrize(
    ("name", "with_scr", "expected"),
    [
        ("base", False, {"SCR_CACHE_BYPASS": 1}),
        ("base_ssd", False, {"SCR_CACHE_BYPASS": 0}),
        ("scr_bypass", True, {"SCR_CACHE_BYPASS": 1}),
        ("scr_ssd_nf", True, {"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 0}),
        ("scr_ssd_nf_one", True, {"SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 0}),
        ("scr_ssd_a_pfs", True, {"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1}),
        ("scr_pfs_one", True, {"SCR_COPY_TYPE": "SINGLE", "SCRTUNE_FLUSH_THREADS": 16}),
        ("scr_2_threads", True, {"SCR_FLUSH_TYPE": "PTHREAD", "SCRTUNE_FLUSH_THREADS": 2}),
    ],
)
def test_a_trace_alone_shows_where_checkpoints_go_and_how(
    name: str, with_scr: bool, expected: dict[str, object]
) -> None:
    found = seen(name)
    assert found.with_scr is with_scr
    assert found.said == {}
    assert {key: found.settings[key] for key in expected} == expected


def test_the_shape_is_that_of_the_heaviest_rank() -> None:
    found = seen("scr_pfs_one")
    assert (found.shape.nodes, found.shape.ranks_per_node, found.shape.files) == (2, 8, LAYERS + 1)
    assert found.shape.rank_bytes == RANK_BYTES
    assert found.largest_file == pytest.approx(OPTIMIZER_BYTES / RANK_BYTES)
    assert found.node_bytes == pytest.approx(RANK_BYTES + 7 * OPTIMIZER_BYTES)
    assert found.shape.between_s == pytest.approx(100, abs=0.1)
    assert not found.shape.bound, "a trace does not say that ranks are bound"


def test_seconds_are_those_of_a_checkpoint() -> None:
    found = seen("scr_pfs_one")
    assert found.checkpoint_s == pytest.approx(167.234 / 6, abs=1e-3)
    assert found.outside_s == pytest.approx((167.234 - 121.617) / 6, abs=1e-3)
    assert found.flush_s == pytest.approx(30.059, abs=1e-3)
    assert seen("scr_ssd_nf").flush_s is None


def test_what_is_said_counts_before_what_is_seen() -> None:
    found = seen("scr_pfs_one", SCR_COPY_TYPE="XOR", cores="48", cores_per_rank="2", files="9", other="x")
    assert found.settings["SCR_COPY_TYPE"] == "XOR"
    assert (found.shape.cores, found.shape.mask_cores, found.shape.files) == (48, 2, 9)
    assert found.shape.bound
    assert "other" not in found.said


@pytest.mark.parametrize(
    ("name", "text"),
    [("SCR_FLUSH", "often"), ("cores", "-1"), ("cores", "1.5"), ("interval", "nan"), ("nodes", "two")],
)
def test_what_is_no_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name):
        value_of(name, text)


def job(
    spans: dict[int, list[tuple[float, float]]], copies: dict[tuple[int, int], tuple[float, float]]
) -> Run:
    """Ranks (pids) that save to the cache in `spans`, and their `copies` by threads (pid, tid)."""
    second, accesses, activity = 1_000_000_000, {}, {}
    for pid, each in spans.items():
        amount = Amount(len(each), 1000 * len(each), second, 0, second)
        accesses[AccessKey("cache", "a.pt", "write", JobThread("n", pid, pid), 10)] = amount
    for (pid, tid), (start_s, end_s) in copies.items():
        times = round(start_s * second), round(end_s * second)
        amount = Amount(1, 1000, times[1] - times[0], *times)
        accesses[AccessKey("prefix", "a.pt", "write", JobThread("n", pid, tid), 10)] = amount
        activity[ActivityKey("prefix", "write", JobThread("n", pid, tid), int(start_s))] = amount
    table = TraceTable(
        accesses=accesses,
        activity=activity,
        spans=tuple(
            ThreadSpan(JobThread("n", pid, pid), *span, "save", "save", 1, step)
            for pid, each in spans.items()
            for step, span in enumerate(each)
        ),
        processes=tuple(("n", pid) for pid in spans),
        end_s=100.0,
    )
    return Run(name="job", table=table)


def test_the_interval_is_that_of_a_rank_even_if_ranks_drift_apart() -> None:
    found = of(job({1: [(0, 2), (12, 14), (24, 26)], 2: [(5, 7), (17, 19), (29, 31)]}, {}))
    assert found.shape.between_s == pytest.approx(10.0)


def test_threads_of_a_flush_are_those_that_copy_at_a_time() -> None:
    spans = {1: [(0.0, 1.0), (5.0, 6.0)], 2: [(0.0, 1.0), (5.0, 6.0)]}
    anew = {
        (1, 11): (1.0, 1.4),
        (1, 12): (1.1, 1.5),
        (1, 13): (6.0, 6.4),
        (1, 14): (6.1, 6.5),
        (2, 21): (1.0, 2.0),
    }
    assert of(job(spans, anew)).settings["SCRTUNE_FLUSH_THREADS"] == 2
    in_turn = {(1, 11): (1.0, 1.1), (1, 12): (1.2, 1.3), (1, 13): (1.4, 1.5)}
    assert of(job(spans, in_turn)).settings["SCRTUNE_FLUSH_THREADS"] == 1


@pytest.mark.parametrize("generation", sorted(path.name for path in TRACES.iterdir() if path.is_dir()))
def test_every_real_trace_with_checkpoints_is_evidence(generation: str) -> None:
    run = Run(name=generation, table=read_table([TRACES / generation], {"/scratch": "prefix"}))
    found = study([run])
    if not found.checkpoints:
        return
    shown = evidence(run, found.runs[0], found.checkpoints)
    assert shown.shape.files >= 1
    assert 0 < shown.largest_file <= 1
    assert shown.checkpoint_s > 0
    assert shown.shape.rank_bytes <= found.runs[0].prefix.written_bytes
