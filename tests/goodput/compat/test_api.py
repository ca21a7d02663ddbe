"""The peer's names, signatures and answers."""

import datetime as dt
import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scrtune.goodput.compat import goodput, goodput_elastic, goodput_utils, monitoring, monitoring_elastic
from scrtune.goodput.compat.goodput_utils import BadputType

from ...support.list_logger import ListLogger

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
    log = ListLogger([])
    prefix = "Elastic" if golden["elastic"] else ""
    recorder = CLASSES[f"{prefix}GoodputRecorder"]("job", "log", True, log)
    calculators: Callable[..., Any] = type(
        "Then", (CLASSES[f"{prefix}GoodputCalculator"],), {"now_s": lambda _self: golden["now_s"]}
    )
    answers = ASK.ask(golden, recorder, log.write_cloud_logging_entry, lambda: calculators("job", "log", log))
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
        if method in ours[name] and "others" not in ours[name][method]
    }
    assert {(method, parameter.split("=")[0]) for method, parameter in differing} == {
        ("__init__", "gcp_options"),  # no default that all monitors share
        ("__init__", "final_flush_timeout_seconds"),  # a second instead of ten
    }
    for name, methods in API["signatures"].items():
        for method, parameters in methods.items():
            if method in ours[name]:
                named = [parameter.split("=")[0] for parameter in ours[name][method]]
                theirs = [parameter.split("=")[0] for parameter in parameters]
                if named[-1] == "others":  # an elastic monitor takes the last ones by name only
                    named, theirs = named[:-1], theirs[: len(named) - 1]
                assert named == theirs


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
        monitoring: "GoodputMonitor ElasticGoodputMonitor GCPOptions",
        monitoring_elastic: "ElasticGoodputMonitor GCPOptions",
    }.items():
        assert [name for name in names.split() if not hasattr(module, name)] == []


def test_raw_entries_have_the_keys_and_the_callers_spelling() -> None:
    store = ListLogger([])
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


def test_the_core_does_not_load_it() -> None:
    """Who only names the ledger, or this policy, as the command line does, loads no numpy and no I/O."""
    code = (
        "import sys, scrtune.goodput.ledger.ledger, scrtune.goodput.compat.rules,"
        " scrtune.goodput.compat.differences, scrtune.goodput.readers.jsonl; print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "scrtune.goodput.compat.store"}.isdisjoint(ran.stdout.split())
