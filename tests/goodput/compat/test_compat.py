"""`scrtune.goodput.compat` against ml-goodput-measurement 0.2.3: same API, same numbers, its faults included.

`tests/data/peer` has what the peer itself answered about a few logs (`compare_peer.py --write`).
"""

import contextlib
import datetime as dt
import importlib.util
import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.compat import goodput, goodput_elastic, goodput_utils, monitoring, monitoring_elastic
from scrtune.goodput.compat.goodput_utils import BadputType
from scrtune.goodput.compat.peer.columns import window_of
from scrtune.goodput.compat.peer.job import CompatJob, events_of
from scrtune.goodput.compat.peer.rules import CompatAccount, CompatError, compat_account, compat_window
from scrtune.goodput.compat.peer.step_times import step_times_s
from scrtune.goodput.compat.peer.store import LocalLog
from scrtune.goodput.events import (
    INTERVAL_KINDS,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    RestartCompleted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.readers.ml_goodput import NotUnderstoodError
from scrtune.goodput.validation import span

ROOT = Path(__file__).parents[3]
PEER = ROOT / "tests" / "data" / "peer"
LOGS = sorted(PEER.glob("log-*.json"))
API = json.loads((PEER / "api.json").read_text())
CLASSES: dict[str, Any] = {
    described.__name__: described
    for described in (
        goodput.GoodputRecorder,
        goodput.GoodputCalculator,
        goodput_elastic.ElasticGoodputRecorder,
        goodput_elastic.ElasticGoodputCalculator,
        monitoring.GoodputMonitor,
        monitoring_elastic.ElasticGoodputMonitor,
    )
}


@pytest.fixture(autouse=True)
def _logs_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))


def questions() -> ModuleType:
    """What both libraries are asked, in the same words."""
    spec = importlib.util.spec_from_file_location(
        "peer_questions", ROOT / "benchmarks" / "goodput" / "peer" / "ask.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ASK = questions()


def assert_same(ours: Any, theirs: Any, where: str = "") -> None:
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            assert_same(ours[key], value, f"{where}/{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for number, value in enumerate(theirs):
            assert_same(ours[number], value, f"{where}[{number}]")
    elif isinstance(theirs, float):
        assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9), (where, ours, theirs)
    else:
        assert ours == theirs, where


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_every_answer_is_the_peers(path: Path) -> None:
    golden = json.loads(path.read_text())
    log = LocalLog("log")
    prefix = "Elastic" if golden["elastic"] else ""
    recorder = CLASSES[f"{prefix}GoodputRecorder"]("job", "log", True, log)
    calculators: Callable[..., Any] = type(
        "Then", (CLASSES[f"{prefix}GoodputCalculator"],), {"now_s": lambda _self: golden["now_s"]}
    )
    answers = ASK.ask(golden, recorder, log.append, lambda: calculators("job", "log", log))
    assert_same(answers, golden["answers"])


def test_there_are_logs_for_every_known_fault() -> None:
    assert {path.stem.removeprefix("log-") for path in LOGS} >= {
        "custom-across-steps",
        "end-then-resume",
        "hang",
        "nested",
        "out-of-order",
        "short-steps",
        "sparse-steps",
        "two-ranks",
    }


def test_signatures_are_the_peers_but_for_what_the_documentation_names() -> None:
    ours = ASK.signatures([CLASSES[name] for name in API["signatures"]])
    differing = {
        (method, parameter)
        for name, methods in API["signatures"].items()
        for method, parameters in methods.items()
        for parameter in set(parameters) - set(ours[name].get(method, ()))
        if method in ours[name]
    }
    assert {(method, parameter.split("=")[0]) for method, parameter in differing} == {
        ("__init__", "gcp_options"),  # no default that all monitors share
        ("__init__", "final_flush_timeout_seconds"),  # a second instead of ten
    }
    for name, methods in API["signatures"].items():
        for method, parameters in methods.items():
            if method in ours[name]:
                assert [p.split("=")[0] for p in ours[name][method]] == [p.split("=")[0] for p in parameters]


def test_every_method_is_there_but_those_that_the_peer_does_not_document() -> None:
    ours = ASK.signatures([CLASSES[name] for name in API["signatures"]])
    missing = {
        method
        for name, methods in API["signatures"].items()
        for method in methods
        if method not in ours[name]
    }
    assert missing == {"sync_to_gcs"}


def test_badput_types_have_the_peers_numbers() -> None:
    assert {badput.name: badput.value for badput in BadputType} == API["badput_types"]


def test_the_peers_modules_have_the_names_that_are_imported_from_them() -> None:
    for module, names in {
        goodput: "GoodputRecorder GoodputCalculator BadputType GoodputType MetricType IntervalMetricType "
        "WorkloadMetricDetails IntervalWorkloadMetricDetails UnproductiveTimeDict "
        "compute_ideal_step_time get_timestamp_from_log_entry _JOB_NAME _STEP_COUNT",
        goodput_elastic: "ElasticGoodputRecorder ElasticGoodputCalculator GoodputRecorder _ACTIVE_SLICES",
        goodput_utils: "BadputType GoodputType MetricType IntervalMetricType GCPOptions "
        "WorkloadMetricDetails ElasticIntervalWorkloadMetricDetails ACTIVITY_EXCLUSION_LIST",
        monitoring: "GoodputMonitor GoodputCalculator GCPOptions BadputType MetricType",
        monitoring_elastic: "ElasticGoodputMonitor GCPOptions",
    }.items():
        assert [name for name in names.split() if not hasattr(module, name)] == []


def test_raw_entries_have_the_keys_and_the_callers_spelling() -> None:
    store = ListStore([])
    recorder = goodput.GoodputRecorder("job", "log", True, store)
    recorder.record_custom_badput_event_start_time(1.0, "eval_Step")
    (entry,) = store.entries
    assert entry == {
        goodput._JOB_NAME: "job",
        goodput._CUSTOM_BADPUT_EVENT_TYPE: "eval_Step",
        goodput._CUSTOM_BADPUT_EVENT_START_TIME: 1.0,
    }
    assert goodput.get_timestamp_from_log_entry(entry) == dt.datetime.fromtimestamp(1, dt.timezone.utc)
    assert goodput.get_timestamp_from_log_entry({"job_name": "job"}) is None


def test_a_job_accounts_for_its_parts() -> None:
    events: list[GoodputEvent] = [
        JobStarted(time_s=0),
        Interval(kind="device_init", start_s=0, end_s=4),
        Interval(kind="training_prep", start_s=4, end_s=10),
        *(StepStarted(step=step, time_s=10 + 10 * step) for step in range(9)),
        JobEnded(time_s=100),
    ]
    account = compat_account(events, now=1e9)
    assert account.goodput_percent == 90
    breakdown = account.breakdown()
    assert breakdown[BadputType.TPU_INITIALIZATION] == 4
    assert breakdown[BadputType.TRAINING_PREP] == 6
    assert breakdown[BadputType.OTHER] == 0
    assert account.max_productive_step == account.last_step == 8


def test_our_own_events_are_understood_by_the_same_rules() -> None:
    events: list[GoodputEvent] = [
        JobStarted(time_s=0),
        RestartCompleted(dataset=1, name="a", start_s=1, end_s=3),
        *(StepCompleted(step=step, start_s=10 + 10 * step, end_s=19 + 10 * step) for step in range(9)),
        OutputCompleted(dataset=2, name="b", start_s=99, end_s=100),
        JobEnded(time_s=100),
    ]
    breakdown = compat_account(events, now=1e9).breakdown()
    assert breakdown[BadputType.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] == 1
    assert breakdown[BadputType.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME] == 2


def test_a_job_that_never_ended_lasts_until_now() -> None:
    events = [JobStarted(time_s=0), StepStarted(step=0, time_s=0), StepStarted(step=1, time_s=50)]
    assert compat_account(events, now=100).goodput_percent == 50
    assert compat_account(events, now=200).goodput_percent == 25


def test_without_a_start_of_the_job_the_error_says_what_to_do() -> None:
    with pytest.raises(CompatError, match="record_job_start_time was not called"):
        compat_account([StepStarted(step=0, time_s=0)], now=1)
    with pytest.raises(CompatError, match="no events in the window"):
        compat_window([JobStarted(time_s=0)], 10, 20)


times = st.integers(0, 400).map(lambda quarter: quarter / 4)
kinds = st.sampled_from(INTERVAL_KINDS)
names = st.sampled_from(["", "eval", "EVAL", "sdc"])
events_in_any_order = st.lists(
    st.one_of(
        st.builds(JobStarted, time_s=times),
        st.builds(JobEnded, time_s=times),
        st.builds(StepStarted, step=st.integers(-1, 12), time_s=times, writer=names),
        st.builds(StepCompleted, step=st.integers(0, 12), start_s=times, end_s=times),
        st.builds(Interval, kind=kinds, start_s=times, end_s=times, name=names),
        st.builds(IntervalStarted, kind=kinds, time_s=times, name=names),
        st.builds(IntervalEnded, kind=kinds, time_s=times, name=names),
        st.builds(SlicesObserved, time_s=times, active=st.integers(0, 4), total=st.integers(0, 4)),
    ),
    max_size=40,
)


@given(events_in_any_order, times, st.booleans())
def test_any_events_give_an_account_or_say_why_not(
    events: list[GoodputEvent], now: float, elastic: bool
) -> None:
    for account_for in (
        lambda: compat_account(events, now, elastic=elastic),
        lambda: compat_window(events, now, now + 50, elastic=elastic),
    ):
        try:
            account = account_for()
        except CompatError:
            continue
        assert 0 <= account.goodput_percent <= 100
        for percent in account.breakdown().values():
            for part in percent.values() if isinstance(percent, dict) else [percent]:
                assert 0 <= part < 100


@given(
    st.lists(times, min_size=2, max_size=12),
    st.lists(st.tuples(times, times, st.sampled_from("AB")), max_size=8),
    st.booleans(),
)
def test_a_custom_event_belongs_to_the_step_it_lies_inside_of(
    starts: list[float], customs: list[tuple[float, float, str]], in_order: bool
) -> None:
    """Looked up where steps follow each other in time: the same as asking each step about each event."""
    starts = sorted(starts) if in_order else starts
    customs = [custom for custom in customs if custom[0] < custom[1]]
    account = compat_account(
        [
            JobStarted(time_s=0),
            *(Interval(kind="custom", start_s=start, end_s=end, name=name) for start, end, name in customs),
            *(StepStarted(step=step, time_s=start_s) for step, start_s in enumerate(starts)),
        ],
        now=1e4,
    )
    expected = [
        (name, end - start)
        for begin, until in pairwise(starts)
        for start, end, name in customs
        if begin <= start and end <= until
    ]
    found = account.badput_s[BadputType.CUSTOM_BADPUT_EVENTS]
    assert isinstance(found, dict)
    assert list(found) == list(dict.fromkeys(name for name, _ in expected))
    assert sum(found.values()) == pytest.approx(sum(spent_s for _, spent_s in expected))


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
    job = CompatJob(ListStore([*entries, good]), "")
    rows = job.rows()
    assert (rows.steps[-1], rows.times_s[-1]) == (3, 5.0)
    assert job.unread <= len(entries)


@pytest.mark.parametrize("step_count", [3, 3.0])
def test_all_that_an_entry_tells_counts(step_count: float) -> None:
    entry = {"job_name": "j", "step_count": step_count, "step_start_time": 5.0, "job_end_time": 6}
    assert events_of(entry) == [StepStarted(step=3, time_s=5.0), JobEnded(time_s=6.0)]


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
    of_lines, of_entries = caplog.messages
    assert of_lines == f"{log.path}: lines that are no JSON objects are left out, 1 so far"
    assert of_entries == (
        "entries of the log that are not understood are left out, 2 so far;"
        " the first: step_start_time is None, no epoch seconds"
    )


def test_a_name_with_bytes_that_no_text_has_is_recorded_and_found() -> None:
    """As the environment's undecodable bytes come into Python; a job must not end because of its name."""
    recorder = goodput.GoodputRecorder("a\udcff", "log", True)
    recorder.record_job_start_time(0.0)
    recorder.record_step_start_time(0, 0.0)
    recorder.record_custom_badput_event_start_time(1.0, "eval\udcff")
    recorder.record_custom_badput_event_end_time(3.0, "eval\udcff")
    recorder.record_step_start_time(1, 10.0)
    recorder.record_job_end_time(10.0)
    calculator = goodput.GoodputCalculator("a\udcff", "log")
    assert calculator.get_job_goodput(include_badput_breakdown=True)[0] == 80.0
    spent_s = calculator.get_job_goodput_details()["badput_time"][BadputType.CUSTOM_BADPUT_EVENTS]
    assert spent_s == {r"EVAL\UDCFF": 2.0}


def test_a_calculator_reads_its_own_job_only() -> None:
    log = LocalLog("shared")
    for job, length_s in (("one", 100), ("other", 200)):
        recorder = goodput.GoodputRecorder(job, "shared", True, log)
        start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
        recorder.record_job_start_time(start)
        recorder.record_job_end_time(start + dt.timedelta(seconds=length_s))
    for job, length_s in (("one", 100), ("other", 200)):
        calculator = goodput.GoodputCalculator(job, "shared", log)
        calculator.get_job_goodput()
        assert calculator.get_job_goodput_details()["total_elapsed_time"] == length_s


def test_a_new_process_reads_on_where_the_job_goes_on() -> None:
    """The peer's second process finds the first one's cache and never reads the new steps."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)

    def steps(first: int, last: int) -> None:
        recorder = goodput.GoodputRecorder("job", "log", True, LocalLog("log"))
        for step in range(first, last):
            recorder.record_step_start_time(step, start + dt.timedelta(seconds=2 * step))

    goodput.GoodputRecorder("job", "log", True, LocalLog("log")).record_job_start_time(start)
    steps(0, 5)
    assert goodput.GoodputCalculator("job", "log", LocalLog("log")).get_job_goodput()[2] == 3
    steps(5, 50)
    assert goodput.GoodputCalculator("job", "log", LocalLog("log")).get_job_goodput()[2] == 48


def test_what_is_older_than_the_retention_period_is_left_out() -> None:
    log = LocalLog("log")
    recorder = goodput.GoodputRecorder("job", "log", True, log)
    now = dt.datetime.now(dt.timezone.utc)
    recorder.record_job_start_time(now - dt.timedelta(days=30))
    recorder.record_job_start_time(now - dt.timedelta(days=1))
    recorder.record_job_end_time(now)
    for week in (dt.timedelta(days=7), 7 * 24 * 60 * 60, 7 * 86_400.0):  # its README says seconds
        newer = goodput.GoodputCalculator("job", "log", log, max_logs_retention_period=week)
        newer.get_job_goodput()
        assert newer.get_job_goodput_details()["total_elapsed_time"] == pytest.approx(86_400)


@given(events_in_any_order, st.lists(st.tuples(times, times), max_size=5))
def test_a_window_that_is_looked_up_is_the_one_that_is_searched(
    events: list[GoodputEvent], windows: list[tuple[float, float]]
) -> None:
    """Whatever the order of the times: the same events, in their order of arrival."""
    entries = [msgspec.to_builtins(event) for event in events]
    understood: list[GoodputEvent] = []
    for entry in entries:
        with contextlib.suppress(NotUnderstoodError):
            understood += events_of(entry)
    job = CompatJob(ListStore(entries), "")
    for start_s, end_s in windows:
        found: list[CompatAccount | None] = []
        for ask in (
            lambda: window_of(job.rows((start_s, end_s)), elastic=True),  # noqa: B023  called at once
            lambda: compat_window(understood, start_s, end_s, elastic=True),  # noqa: B023
        ):
            try:
                found.append(ask())
            except CompatError:
                found.append(None)
        assert found[0] == found[1]


@given(
    st.lists(st.builds(StepStarted, step=st.integers(0, 9), time_s=times, writer=names), max_size=40),
    st.lists(st.builds(StepCompleted, step=st.integers(0, 9), start_s=times, end_s=times), max_size=9),
    st.one_of(st.none(), st.tuples(times, times)),
)
def test_a_step_lasts_until_the_next_number_if_that_comes_next(
    begun: list[StepStarted], whole: list[StepCompleted], window: tuple[float, float] | None
) -> None:
    events = JobEvents([*begun, *whole])
    told = [event for event in events if isinstance(event, (StepStarted, StepCompleted))]
    if window is not None:
        told = [event for event in told if window[0] <= span(event)[0] < window[1]]
    expected: dict[int, float] = {}
    for one, following in pairwise(told):
        if following.step == one.step + 1:
            expected[one.step] = span(following)[0] - span(one)[0]
    assert step_times_s(events, window).tolist() == list(expected.values())


@given(events_in_any_order, times, st.booleans())
def test_columns_of_a_job_are_accounted_as_its_events_by_time(
    events: list[GoodputEvent], now: float, elastic: bool
) -> None:
    columns = JobEvents(events)
    found: list[CompatAccount | str] = []
    for given_as in (columns, list(columns)):
        try:
            found.append(compat_account(given_as, now, elastic=elastic))
        except CompatError as error:
            found.append(str(error))
    assert found[0] == found[1]


# --- exclusions


def excluding(*spans_s: tuple[float, float]) -> list[tuple[dt.datetime, dt.datetime]]:
    def time(time_s: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(time_s, dt.timezone.utc)

    return [(time(start_s), time(end_s)) for start_s, end_s in spans_s]


def job_of_100s() -> goodput.GoodputCalculator:
    store = ListStore([])
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


class ListStore:
    """A log in memory."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = entries

    def append(self, entry: Any) -> None:
        self.entries.append(dict(entry))

    def read(self, position: int) -> tuple[list[dict[str, Any]], int]:
        return self.entries[position:], len(self.entries)

    def flush(self) -> None:
        pass


def test_a_process_that_does_not_log_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path / "none"))
    recorder = goodput_elastic.ElasticGoodputRecorder("job", "log")
    recorder.record_job_start_time()
    recorder.record_step_start_time(1)
    recorder.record_elastic_slice_counts(1, 2, 2)
    recorder.flush()
    assert not (tmp_path / "none").exists()


def test_the_core_does_not_load_it() -> None:
    """Who only names the ledger, or this policy, as the command line does, loads no numpy and no I/O."""
    code = (
        "import sys, scrtune.goodput.ledger.ledger, scrtune.goodput.compat.peer.rules,"
        " scrtune.goodput.compat.peer.differences, scrtune.goodput.readers.jsonl; print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "scrtune.goodput.compat.peer.store"}.isdisjoint(ran.stdout.split())
