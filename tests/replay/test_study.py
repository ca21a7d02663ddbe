"""Studies: the sums that a notebook found by hand, flushes, differences with their intervals."""

from pathlib import Path

import msgspec
import pytest
from scipy import stats

from scrtune.examples.study_traces import CACHE, CHECKPOINTS, PREFIX, RANKS, RUNS, write_runs
from scrtune.intents.trace.rows import Amount
from scrtune.replay.frames import columns, flattened, to_arrow, to_pandas, to_polars
from scrtune.replay.reading.scan import read_table
from scrtune.replay.study import Run, access_rows, study
from scrtune.replay.study_rows import Study
from scrtune.replay.table import AccessKey, ActivityKey, JobThread, Reading, ThreadSpan, TraceTable

SAVER, FLUSHER = JobThread("n1", 1, 1), JobThread("n1", 1, 9)
SECOND = 1_000_000_000


@pytest.fixture(scope="module", params=[0, 4])
def notebook(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study of the notebook's runs, traced in the first form of the lines and in the latest."""
    paths = write_runs(tmp_path_factory.mktemp("runs"), request.param)
    tiers = {PREFIX: "prefix", CACHE: "cache"}
    return study([Run(name=name, table=read_table([path], tiers)) for name, path in paths.items()])


def test_runs_have_the_seconds_that_the_notebook_found(notebook: Study) -> None:
    assert [row.name for row in notebook.runs] == list(RUNS)
    for row in notebook.runs:
        sums = RUNS[row.name]
        assert row.checkpoint_s == pytest.approx(sums.checkpoint_us / 1e6, abs=1e-4)
        for found, expected in ((row.cache, sums.cache), (row.prefix, sums.prefix)):
            largest_us, sum_us = expected or (0, 0)
            assert found.seconds == pytest.approx(largest_us / 1e6)
            if sum_us:  # else the study does not say
                assert found.sum_s == pytest.approx(sum_us / 1e6)
        assert row.flush_s == (pytest.approx(row.prefix.seconds) if sums.threads else None)
        assert (row.checkpoints, row.saving_threads, row.processes) == (CHECKPOINTS, RANKS, RANKS)


def test_it_says_where_the_notebook_mixed_sums_and_largest(notebook: Study) -> None:
    (note,) = (note for note in notebook.notes if note.startswith("Sums"))
    assert "scr_ssd_a_pfs prefix 34.15 s, summed 1,471.54 s" in note
    assert "scr_ssd_a_pfs cache 327.64 s, summed 837.77 s" in note
    assert "scr_pfs_one prefix 30.06 s, summed 1,060.07 s" in note
    assert "scr_ssd_nf " not in note, "one thread alone: both are the same"
    assert notebook.grouping == "largest of a thread (host, pid, tid): its durations summed"


def test_files_are_grouped_by_their_names_without_numbers(notebook: Study) -> None:
    classes = {row.file_class for row in notebook.file_classes}
    assert {each for each in classes if not each.startswith(".scr/")} == {"layer.pt", "optimizer.pt"}


def table_of(spans: list[tuple[float, float]], flushes: list[tuple[float, float]] = []) -> TraceTable:  # noqa: B006
    """A job of one process that saves in `spans`, while another thread writes to the prefix in `flushes`."""
    accesses, activity = {}, {}
    for start_s, end_s in flushes:
        nanoseconds = round(start_s * SECOND), round(end_s * SECOND)
        amount = Amount(1, 100, nanoseconds[1] - nanoseconds[0], *nanoseconds)
        activity[ActivityKey("prefix", "write", FLUSHER, int(start_s))] = amount
        accesses[AccessKey("prefix", f"f{start_s}", "write", FLUSHER, 7)] = amount
    return TraceTable(
        accesses=accesses,
        activity=activity,
        spans=tuple(ThreadSpan(SAVER, *span, "save", "save", 1, step) for step, span in enumerate(spans)),
        processes=(("n1", 1),),
        start_s=0.5,
        end_s=100.0,
        reading=Reading(files=1, events=len(spans) + len(flushes)),
    )


def test_a_flush_is_what_is_written_after_a_checkpoint_has_ended() -> None:
    flushes = [(2.5, 3.0), (6.0, 7.5), (12.5, 13.5)]
    found = study([Run(name="a", table=table_of([(1.0, 2.0), (11.0, 12.0), (21.0, 22.0)], flushes))])
    assert [row.flush_s for row in found.checkpoints] == [5.0, 1.0, None]
    assert (found.runs[0].flush_s, found.runs[0].flushes) == (3.0, 2)


def test_a_flush_that_begins_before_its_checkpoint_ends_is_of_that_checkpoint() -> None:
    flushes = [(11.5, 14.0), (14.0, 15.0), (20.5, 21.5), (21.5, 23.0)]
    found = study([Run(name="a", table=table_of([(1.0, 2.0), (11.0, 12.0), (21.0, 22.0)], flushes))])
    assert [row.flush_s for row in found.checkpoints] == [None, pytest.approx(9.5), 1.0]


def test_what_a_flush_writes_before_its_checkpoint_ends_is_not_of_the_one_before() -> None:
    flushes = [(2.0, 3.0), (11.8, 11.9), (11.9, 13.0), (21.7, 21.8), (21.8, 21.9)]
    found = study([Run(name="a", table=table_of([(1.0, 2.0), (11.0, 12.0), (21.0, 22.0)], flushes))])
    assert [row.flush_s for row in found.checkpoints] == [1.0, 1.0, None], "the last one's blocked"


def test_a_flush_may_go_on_within_the_next_checkpoint() -> None:
    flushes = [(2.0, 11.1), (11.1, 11.3), (11.3, 11.4)]
    found = study([Run(name="a", table=table_of([(1.0, 2.0), (11.0, 12.0)], flushes))])
    assert [row.flush_s for row in found.checkpoints] == [pytest.approx(9.4), None]


def test_what_a_saving_thread_writes_within_its_spans_is_no_flush() -> None:
    table = table_of([(1.0, 2.0), (11.0, 12.0)])
    key = ActivityKey("prefix", "write", SAVER, 11)
    blocking = TraceTable(activity={key: Amount(1, 5, 1, 11 * SECOND, 12 * SECOND)})
    assert study([Run(name="a", table=table + blocking)]).runs[0].flushes == 0


def test_spans_within_others_and_other_hosts_with_the_same_pid() -> None:
    inner = TraceTable(spans=(ThreadSpan(SAVER, 1.2, 1.8, "save", "inner"),))
    elsewhere = TraceTable(spans=(ThreadSpan(SAVER._replace(host="n2"), 1.1, 1.9, "save", "save", 1, 0),))
    (row,) = study([Run(name="a", table=table_of([(1.0, 2.0)]) + inner + elsewhere)]).runs
    assert (row.checkpoints, row.checkpoint_s, row.saving_threads) == (1, 1.0, 2)
    assert row.checkpoint_sum_s == pytest.approx(1.8)


def test_differences_have_the_interval_of_welch() -> None:
    base_s, other_s = [1.0, 1.2, 0.9, 1.1], [1.5, 1.7, 1.2]
    runs = [
        Run(name=name, table=table_of([(10 * n, 10 * n + each) for n, each in enumerate(times)]))
        for name, times in (("a", base_s), ("b", other_s))
    ]
    (found,) = study(runs).differences
    expected = stats.ttest_ind(other_s, base_s, equal_var=False).confidence_interval(0.95)
    assert (found.low_s, found.high_s) == pytest.approx((expected.low, expected.high))
    assert (found.run, found.base, found.measure, found.is_clear) == (
        "b",
        "a",
        "checkpoint",
        expected.low > 0,
    )
    (turned,) = study(runs, base="b").differences
    assert turned.difference_s == pytest.approx(-found.difference_s)


def test_one_checkpoint_has_no_interval_and_an_unknown_base_is_refused() -> None:
    runs = [Run(name=name, table=table_of([(1.0, 2.0)])) for name in ("a", "b")]
    (found,) = study(runs).differences
    assert (found.low_s, found.is_clear) == (None, False)
    with pytest.raises(ValueError, match="'c' is no run of the study; those are a, b"):
        study(runs, base="c")


def test_a_code_without_spans_shows_its_checkpoints_by_bursts() -> None:
    flushes = [(start + part, start + part + 0.9) for start in (10.0, 30.0, 50.0) for part in (0, 1)]
    found = study([Run(name="a", table=table_of([], flushes))])
    assert (found.runs[0].checkpoints, "inferred" in found.runs[0].checkpoints_from) == (3, True)
    assert any("inferred" in note for note in found.notes)


def test_what_was_interrupted_or_has_no_checkpoints_is_noted() -> None:
    table = TraceTable(reading=Reading(files=3, unread=2, events=1))
    notes = study([Run(name="a", table=table)]).notes
    assert any("2 files of 3 not read" in note for note in notes)
    assert any("no checkpoints" in note for note in notes)
    assert any("No run has a file below a cache or prefix directory" in note for note in notes)


def test_files_that_are_no_traces_are_noted() -> None:
    assert study([Run(name="a", table=TraceTable(reading=Reading(lines=26)))]).notes == (
        "a: its traces have no event",
    )


def test_a_base_without_checkpoints_is_noted() -> None:
    runs = [Run(name="a", table=table_of([])), Run(name="b", table=table_of([(1.0, 2.0)]))]
    assert study(runs).notes[-1].startswith("Nothing is compared: a, the base, has no checkpoints")


def test_rows_become_columns_of_any_library(notebook: Study, tmp_path: Path) -> None:
    wide = columns(notebook.runs)
    assert wide["cache_seconds"][1] == pytest.approx(97.497736)
    assert flattened({"a": {"b": (1, 2)}}) == {"a_b": "1; 2"}
    rows = list(access_rows([Run(name="a", table=table_of([], [(1.0, 2.0)]))]))
    assert rows[0]["size_below"] == 128
    for convert, module in ((to_pandas, "pandas"), (to_polars, "polars"), (to_arrow, "pyarrow")):
        pytest.importorskip(module)
        assert convert(rows)["calls"][0] == 1 or module == "pyarrow"


def test_jobs_that_follow_each_other_are_said_to_be_several() -> None:
    ranks = [JobThread("n1", pid, pid) for pid in range(3)]

    def noted(*spans: ThreadSpan) -> bool:
        table = TraceTable(spans=tuple(sorted(spans)), reading=Reading(events=9))
        return any("what saves is 2 groups" in note for note in study([Run(name="a", table=table)]).notes)

    first, beside, later = (
        ThreadSpan(rank, start_s, start_s + 5, "save", "save")
        for rank, start_s in zip(ranks, (10.0, 12.0, 50.0), strict=True)
    )
    helper = msgspec.structs.replace(later, thread=JobThread("n1", 9, 9), kind="load")
    assert not noted(first, beside)
    assert not noted(first, beside, helper), "it does not save"
    assert not noted(first, beside, msgspec.structs.replace(later, thread=ranks[0]))
    assert noted(first, beside, later)
