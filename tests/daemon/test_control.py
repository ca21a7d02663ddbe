"""Questions and answers: every question gets one, and none changes or ends anything."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.paths import JobPaths
from scrtune.client.transport.wire import Answer
from scrtune.daemon.control import MAX_QUESTION_BYTES, Control
from scrtune.daemon.options import DaemonOptions
from scrtune.daemon.settings.executor import Executor
from scrtune.daemon.views import ExplainView, GoodputView, OrderView, StatusView, status_view
from scrtune.intents.effects import Advice
from scrtune.intents.pipeline import Pipeline

from ..support.simulated_job import CACHED, Job

KINDS: dict[str, Any] = {
    "recommendation": Advice,
    "status": StatusView,
    "explain": ExplainView,
    "goodput": GoodputView,
    "off": OrderView,
    "on": OrderView,
    "pin": OrderView,
    "unpin": OrderView,
}


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline()


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory, pipeline: Pipeline) -> Control:
    base: Path = tmp_path_factory.mktemp("control")
    options = DaemonOptions(paths=JobPaths.of("j", host="n", base=base), scr_conf=base / "scr.conf")
    return Control(
        pipeline,
        Executor(options),
        options,
        handle=lambda event: [*pipeline.handle(event, 1.0)] and None,
        complete=lambda view: view,
    )


def ask(control: Control, payload: bytes) -> Answer:
    return msgspec.json.decode(control.answer(payload, 1.0), type=Answer)


@pytest.mark.parametrize("command", KINDS)
def test_every_command_is_answered_before_anything_has_happened(control: Control, command: str) -> None:
    answer = ask(control, b'{"command":"%s"}' % command.encode())
    assert answer.error == ""
    assert isinstance(msgspec.json.decode(answer.result, type=KINDS[command]), KINDS[command])


@given(payload=st.binary() | st.text().map(str.encode))
def test_any_bytes_get_an_error(control: Control, payload: bytes) -> None:
    assert ask(control, payload).error


@given(question=st.dictionaries(st.sampled_from(["command", "version", "x"]), st.text() | st.integers()))
def test_any_json_gets_an_answer(control: Control, question: dict[str, object]) -> None:
    ask(control, msgspec.json.encode(question))


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "not a question"),
        (b"[" * 50_000, "not a question"),
        (b'{"x":' * 10_000, "not a question"),
        (b'{"command":"\xff"}', "not a question"),
        (b'{"command":"status","version":2}', "protocol version 2; this daemon speaks 1"),
        (
            b'{"command":"dance"}',
            "no command 'dance'; there are explain, goodput, off, on, pin, recommendation, status, unpin",
        ),
        (b'{"command":"%s"}' % (b"x" * 50_000), "no command 'xxx"),
        (b" " * (MAX_QUESTION_BYTES + 1), "a question has 65536 bytes at most, this has 65537"),
    ],
)
def test_what_is_no_question_is_told_so_shortly(control: Control, payload: bytes, error: str) -> None:
    said = ask(control, payload).error
    assert said.startswith(error)
    assert len(said) < 200


def test_refused_questions_are_counted(control: Control) -> None:
    def refused() -> int:
        status = msgspec.json.decode(ask(control, b'{"command":"status"}').result, type=StatusView)
        return status.rejected.get("questions", 0)

    before = refused()
    ask(control, b"garbage")
    assert refused() == before + 1


def test_a_state_that_cannot_be_shown_is_an_error_and_not_the_end(
    control: Control, pipeline: Pipeline
) -> None:
    pipeline.counters.lost["x"] = object()  # type: ignore[assignment]
    try:
        assert "could not be answered" in ask(control, b'{"command":"status"}').error
        assert ask(control, b'{"command":"recommendation"}').error == ""
    finally:
        pipeline.counters.lost.clear()


def test_a_status_does_not_wait_for_scipy_to_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one would: whoever waits for the end of `scrtune run` waits for it."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "scipy"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    job = Job({**CACHED, "SCR_COPY_TYPE": "XOR"}, nodes=64)
    job.checkpoints(6)
    assert job.pipeline.intents.tolerance.exposure_s > 0, "the loss of a set is asked for"
    view = status_view(job.pipeline, job.now, job_id="j", host="n")
    assert "SCR_SET_SIZE" not in view.savings.advised, "trials decide"
    assert {each.value for each in job.pipeline.parameters() if each.name == "SCR_SET_SIZE"} == {64}
