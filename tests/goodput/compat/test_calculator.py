"""Calculators over a log: what is read, of which job, and without what."""

import datetime as dt
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.compat import goodput, goodput_elastic
from scrtune.goodput.compat.goodput_utils import BadputType
from scrtune.goodput.compat.store import CompatJob, LocalLog, log_of
from scrtune.goodput.events import JobEnded, StepStarted

from ...support.list_logger import ListLogger


@pytest.fixture(autouse=True)
def _logs_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.none())
)
keys = st.sampled_from(
    [
        "job_name",
        "type",
        "event_type",
        "step",
        "step_count",
        "step_start_time",
        "job_start_time",
        "job_end_time",
        "tpu_init_start_time",
        "custom_badput_event_type",
        "custom_badput_event_start_time",
        "active_slices",
        "total_slices",
        "elastic_wait_start_time",
        "elastic_slice_counts_timestamp",
        "directory",
        "checkpoint_manager_duration_secs",
        "checkpoint_manager_start_time",
    ]
)


@given(
    st.lists(st.dictionaries(keys, values | st.sampled_from(["save", "restore", "job_started"])), max_size=5)
)
def test_an_entry_that_cannot_be_read_is_counted_and_nothing_else(entries: list[dict[str, Any]]) -> None:
    good = {"job_name": "j", "step_count": 3, "step_start_time": 5.0}
    events = CompatJob(log_of(ListLogger([*entries, good]), ""), "").events()
    assert events[-1] == StepStarted(step=3, time_s=5.0)


@pytest.mark.parametrize("step_count", [3, 3.0])
def test_all_that_an_entry_tells_counts(step_count: float) -> None:
    entry = {"job_name": "j", "step_count": step_count, "step_start_time": 5.0, "job_end_time": 6}
    assert CompatJob(log_of(ListLogger([entry]), ""), "j").events() == [
        StepStarted(step=3, time_s=5.0),
        JobEnded(time_s=6.0),
    ]


def test_a_window_without_its_start_or_end_is_the_peers_error() -> None:
    calculator = goodput.GoodputCalculator("job", "log")
    now = dt.datetime.now(dt.timezone.utc)
    for window in ((None, now), (now, None)):
        with pytest.raises(ValueError, match="a window needs its start and its end"):
            calculator.get_job_goodput_interval(*window)  # type: ignore[arg-type]


def test_that_a_part_of_the_log_is_not_understood_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    log = LocalLog("log")
    good = {"job_name": "job", "step_count": 1, "step_start_time": 10.0}
    for entry in ({"job_start_time": 0.0}, {**good, "step_start_time": None}, good, {"of": "another age"}):
        log.append({"job_name": "job", **entry})
    log.append({"job_name": "other", "step_start_time": "of no concern"})
    log.flush()
    with log.path.open("ab") as file:
        file.write(b'{"job_name":"job","step_co\n')
    calculator = goodput.GoodputCalculator("job", "log")
    with caplog.at_level(logging.WARNING):
        calculator.get_job_goodput()
        log.append({"job_name": "job"})
        calculator.get_job_goodput()
    (said,) = caplog.messages
    assert said == (
        "entries of the log that are not understood are left out, 3 so far;"
        " the first: step_start_time is None, no epoch seconds"
    )


def test_a_calculator_reads_its_own_job_only() -> None:
    for job, length_s in (("one", 100), ("other", 200)):
        recorder = goodput.GoodputRecorder(job, "shared", True)
        start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
        recorder.record_job_start_time(start)
        recorder.record_job_end_time(start + dt.timedelta(seconds=length_s))
    for job, length_s in (("one", 100), ("other", 200)):
        calculator = goodput.GoodputCalculator(job, "shared")
        calculator.get_job_goodput()
        assert calculator.get_job_goodput_details()["total_elapsed_time"] == length_s


def test_a_new_process_reads_on_where_the_job_goes_on() -> None:
    """The peer's second process finds the first one's cache and never reads the new steps."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)

    def steps(first: int, last: int) -> None:
        recorder = goodput.GoodputRecorder("job", "log", True)
        for step in range(first, last):
            recorder.record_step_start_time(step, start + dt.timedelta(seconds=2 * step))

    goodput.GoodputRecorder("job", "log", True).record_job_start_time(start)
    steps(0, 5)
    assert goodput.GoodputCalculator("job", "log").get_job_goodput()[2] == 3
    steps(5, 50)
    assert goodput.GoodputCalculator("job", "log").get_job_goodput()[2] == 48


def test_what_is_older_than_the_retention_period_is_left_out() -> None:
    recorder = goodput.GoodputRecorder("job", "log", True)
    now = dt.datetime.now(dt.timezone.utc)
    recorder.record_job_start_time(now - dt.timedelta(days=30))
    recorder.record_job_start_time(now - dt.timedelta(days=1))
    recorder.record_job_end_time(now)
    for week in (dt.timedelta(days=7), 7 * 24 * 60 * 60, 7 * 86_400.0):  # its README says seconds
        newer = goodput.GoodputCalculator("job", "log", max_logs_retention_period=week)
        newer.get_job_goodput()
        assert newer.get_job_goodput_details()["total_elapsed_time"] == pytest.approx(86_400)


def excluding(*spans_s: tuple[float, float]) -> list[tuple[dt.datetime, dt.datetime]]:
    def time(time_s: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(time_s, dt.timezone.utc)

    return [(time(start_s), time(end_s)) for start_s, end_s in spans_s]


def job_of_100s() -> goodput.GoodputCalculator:
    store = ListLogger([])
    recorder = goodput.GoodputRecorder("job", "log", True, store)
    recorder.record_job_start_time(0.0)
    recorder.record_training_preparation_start_time(0.0)
    recorder.record_training_preparation_end_time(10.0)
    for step in range(9):
        recorder.record_step_start_time(step, 10.0 + 10 * step)
    recorder.record_job_end_time(100.0)
    return goodput.GoodputCalculator("job", "log", store)


def test_time_that_is_excluded_is_no_part_of_the_job() -> None:
    spans = excluding((92, 97), (95, 98), (5, 10))
    percent, badput, last_step, excluded_s = job_of_100s().get_job_goodput_with_exclusions(spans, True)
    assert excluded_s == 11
    assert percent == pytest.approx(84 / 89 * 100)
    assert badput[BadputType.TRAINING_PREP] == pytest.approx(5 / 89 * 100)
    assert last_step == 8


def test_without_exclusions_a_plain_job_has_its_goodput() -> None:
    calculator = job_of_100s()
    assert calculator.get_job_goodput_with_exclusions([])[::3] == (90.0, 0.0)
    assert calculator.get_job_goodput()[0] == 90.0


def test_of_a_job_that_is_excluded_nothing_is_left() -> None:
    assert job_of_100s().get_job_goodput_with_exclusions(excluding((0, 200)), True) == (0.0, {}, 8, 100.0)


def test_an_exclusion_that_ends_before_its_start_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert job_of_100s().get_job_goodput_with_exclusions(excluding((20, 10)))[3] == 0.0
    assert "it does not end after its start" in caplog.text


def test_a_process_that_does_not_log_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path / "none"))
    recorder = goodput_elastic.ElasticGoodputRecorder("job", "log")
    recorder.record_job_start_time()
    recorder.record_step_start_time(1)
    recorder.record_elastic_slice_counts(1, 2, 2)
    recorder.flush()
    assert not (tmp_path / "none").exists()
