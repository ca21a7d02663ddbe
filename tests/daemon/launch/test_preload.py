"""What is preloaded into an application, and what of its environment stays the user's."""

import json
import os
import time
from pathlib import Path

import pytest

from scrtune.cli.jobs import state as job_state
from scrtune.client.capture.environment import preload_library
from scrtune.daemon.launch import preload

from ...conftest import until
from .place import HOLD, LIBRARY, SHOW_ENVIRONMENT, Place, needs_library, text_of


def test_the_users_preload_library_and_config_stay_theirs(place: Place) -> None:
    own = "SCR_FLUSH=3  # mine\nSTORE=/ssd COUNT=2\n# caf\xe9\n".encode("latin-1")
    (place.directory / ".scrconf").write_bytes(own)
    place.environment = {"LD_PRELOAD": "libm.so.6", "DFTRACER_DATA_DIR": "/mine"}
    declared = (
        "--redundancy-floor",
        "node",
        "--durability",
        "strict",
        "--mode",
        "observe",
        "--interval",
        "auto",
    )
    seen = json.loads(place.run(*SHOW_ENVIRONMENT, options=declared).stdout)
    assert seen["LD_PRELOAD"].split(":") == [*LIBRARY, str(preload_library()), "libm.so.6"]
    assert seen["DFTRACER_DATA_DIR"].split(":")[-1] == "/mine"
    assert seen["SCRTUNE_JOB_ID"] == place.job_id
    assert seen["SCRTUNE_REDUNDANCY_FLOOR"] == "NODE"
    assert (seen["SCRTUNE_DURABILITY"], seen["SCRTUNE_MODE"]) == ("strict", "observe")
    assert seen["SCRTUNE_INTERVAL"] == "auto"
    assert Path(seen["SCR_CONF_FILE"]).read_bytes() == own
    assert (place.directory / ".scrconf").read_bytes() == own


def test_with_both_off_what_is_preloaded_is_left_alone(place: Place) -> None:
    place.environment = {"LD_PRELOAD": "libm.so.6", "SCRTUNE_EVENTS_FILE": "/mine"}
    seen = json.loads(place.run(*SHOW_ENVIRONMENT, options=("--trace", "off", "--preload", "never")).stdout)
    assert seen["LD_PRELOAD"] == "libm.so.6"
    assert seen["SCRTUNE_EVENTS_FILE"] == "/mine"
    assert not [name for name in seen if name.startswith(("DFTRACER", "SCRTUNE_DECISION"))]


@needs_library
def test_the_library_is_preloaded_where_it_was_built_and_the_forwarder_follows_it(place: Place) -> None:
    place.environment = {"LD_PRELOAD": "libm.so.6"}
    process = place.start("sh", "-c", f"env >seen; touch up; {HOLD}", options=("--trace", "off"))
    until((place.directory / "up").exists, "an application")
    seen = dict(line.split("=", 1) for line in text_of(place.directory / "seen").splitlines())
    assert seen["LD_PRELOAD"].split(":") == [*LIBRARY, "libm.so.6"]
    assert seen["SCRTUNE_DECISION_FILE"] == str(place.paths.decision)
    assert seen["SCRTUNE_EVENTS_FILE"] == str(place.paths.library_events)
    until(place.paths.control_socket.exists, "a daemon, which comes after the application")
    begun_s = time.time()
    shape = {"type": "started", "time_s": begun_s, "ranks": 3, "cwd": str(place.directory), "prefix": "."}
    place.paths.library_events.write_text(json.dumps(shape) + "\n")
    until(lambda: job_state.status(place.paths).ranks == 3, "what the library has said")
    until(lambda: place.processes("forward"), "a forwarder")
    (forwarder,) = place.processes("forward")
    forwarder.kill()
    until(lambda: [each for each in place.processes("forward") if each != forwarder], "another forwarder")
    times = {"entered_s": begun_s, "opened_s": begun_s, "closing_s": begun_s, "closed_s": begun_s + 0.01}
    with place.paths.library_events.open("a") as file:
        file.write(json.dumps({"type": "output", "dataset": 1, "name": "c", **times}) + "\n")
    until(lambda: job_state.status(place.paths).checkpoints == 1, "a checkpoint")
    assert job_state.goodput(place.paths).account.runs == 1, "what was said before is not heard twice"
    assert job_state.status(place.paths).counters.dropped == {}
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_a_library_that_cannot_be_preloaded_costs_only_the_library(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert preload.library("never", lambda: None) is None
    assert caplog.text == ""
    assert preload.library("auto", lambda: None) is None
    assert "runs untuned" in caplog.text
    assert "make a C compiler available" in caplog.text
    assert preload.library("auto", lambda: tmp_path / "a dir" / "libscrtune.so") is None
    assert "LD_PRELOAD takes no path with a space" in caplog.text


def test_without_dftracer_the_job_is_tuned_but_not_traced(place: Place, tmp_path: Path) -> None:
    (tmp_path / "lib" / "dftracer").mkdir(parents=True)
    (tmp_path / "lib" / "dftracer" / "__init__.py").touch()
    place.environment = {"PYTHONPATH": f"{tmp_path / 'lib'}:{os.environ.get('PYTHONPATH', '')}"}
    ran = place.run(*SHOW_ENVIRONMENT, options=())
    assert ran.returncode == 0
    assert "The application runs without being traced" in ran.stderr
    seen = json.loads(ran.stdout)
    assert "dftracer" not in seen.get("LD_PRELOAD", "")
    assert seen["SCRTUNE_JOB_ID"] == place.job_id
