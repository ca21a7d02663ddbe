"""What is published, and where: the config file first, then the decision."""

import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.options import DaemonOptions
from scrtune.daemon.settings.executor import Executor
from scrtune.goodput.events import JobStarted
from scrtune.intents.effects import Advice, Observe
from scrtune.intents.events import SettingsObserved
from scrtune.scr_config.decision import ParsedDecision, parse_decision
from scrtune.scr_config.parse import parse

WaitUntil = Callable[[Callable[[], object]], None]
NOW = 1795262400.0
ADVICE = Advice(generation=3, settings={"SCR_COPY_TYPE": "XOR", "SCRTUNE_FLUSH_CPUS": "1,3"}, reason="a test")


@pytest.fixture
def options(tmp_path: Path) -> DaemonOptions:
    paths = JobPaths.of("j", host="n", base=tmp_path)
    paths.root.mkdir(parents=True)
    return DaemonOptions(paths=paths, scr_conf=tmp_path / "scr.conf")


@pytest.fixture
def executor(options: DaemonOptions) -> Executor:
    return Executor(options)


def decision(options: DaemonOptions) -> ParsedDecision:
    return parse_decision(options.paths.decision.read_bytes())


def test_the_decision_is_what_is_advised_and_the_users_alone_to_read(
    executor: Executor, options: DaemonOptions
) -> None:
    executor.publish(ADVICE, NOW)
    assert decision(options) == ParsedDecision(3, {"SCRTUNE_FLUSH_CPUS": "1,3", "SCR_COPY_TYPE": "XOR"})
    assert stat.S_IMODE(options.paths.decision.stat().st_mode) == 0o600


def test_each_decision_is_a_new_file_so_that_a_look_at_it_tells(
    executor: Executor, options: DaemonOptions
) -> None:
    executor.publish(ADVICE, NOW)
    path = options.paths.decision
    with path.open("rb") as held:
        before = path.stat()
        executor.publish(ADVICE, NOW)
        assert held.read() == path.read_bytes()
        assert path.stat().st_ino != before.st_ino


def test_where_the_config_file_cannot_be_written_nothing_is_decided(
    executor: Executor, options: DaemonOptions
) -> None:
    executor.publish(ADVICE, NOW)
    options.scr_conf.unlink()
    options.scr_conf.mkdir()
    executor.publish(Advice(generation=4), NOW)
    assert decision(options).generation == executor.advice.generation == 3
    assert executor.unfinished


def test_the_config_counts_even_when_the_decision_cannot_be_written(
    executor: Executor, options: DaemonOptions
) -> None:
    path = options.paths.decision
    path.mkdir()
    executor.publish(ADVICE, NOW)
    assert executor.advice == ADVICE
    assert f"{path}: cannot be written" in executor.last_failure
    assert "free some space" in executor.last_failure
    assert "SCR_" not in executor.last_failure
    assert executor.unfinished, "it is tried again"
    path.rmdir()
    executor.publish(ADVICE, NOW)
    assert path.is_file()
    assert (executor.last_failure, executor.unfinished) == ("", False)


def test_a_daemon_that_goes_on_begins_with_what_was_published_last(
    executor: Executor, options: DaemonOptions
) -> None:
    again = Executor(options)
    again.recall(ADVICE)
    assert again.advice == Advice(), "nothing was published"
    executor.publish(ADVICE, NOW)
    again.recall(ADVICE)
    assert again.advice == ADVICE
    later = Advice(generation=4, settings={"SCR_FLUSH": 1})
    again.recall(later)
    assert (again.advice.generation, again.advice.settings) == (3, ADVICE.settings)


def test_what_only_an_environment_can_hold_stays_there_and_costs_the_rest_nothing(
    executor: Executor, options: DaemonOptions
) -> None:
    executor.publish(Advice(generation=1, settings={"SCR_FLUSH": 2, "SCR_CLUSTER_NAME": "two\nlines"}), NOW)
    assert decision(options).values == {"SCR_FLUSH": "2"}


def test_what_waits_for_the_next_launch_is_in_the_config_file_alone_and_goes_with_the_advice(
    executor: Executor,
    options: DaemonOptions,
) -> None:
    conf = options.scr_conf
    conf.write_text("SCR_GROUP=NODE\n")
    settings = {"SCR_FLUSH": 4, "SCR_CACHE_SIZE": 1}
    waits = {"SCR_CACHE_SIZE": 2, "SCR_SET_SIZE": 4}
    published = Advice(generation=1, settings=settings, at_launch=waits)
    executor.publish(published, NOW)
    assert parse(conf.read_text(), {}).values["SCR_CACHE_SIZE"].value == "2"
    assert parse(conf.read_text(), {}).values["SCR_SET_SIZE"].value == "4"
    assert decision(options).values == {"SCR_FLUSH": "4", "SCR_CACHE_SIZE": "1"}
    again = Executor(options)
    again.recall(published)
    assert again.file.edited() is None, "what waits is no edit of the user's"
    again.publish(Advice(generation=2, settings=settings), NOW)
    assert parse(conf.read_text(), {}).values["SCR_CACHE_SIZE"].value == "1"
    assert "SCR_SET_SIZE" not in parse(conf.read_text(), {}).values


def test_there_is_a_decision_as_soon_as_the_job_is_known_and_it_is_the_users_own(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    assert not daemon.paths.decision.exists()
    settings = {"SCR_FLUSH": 2, "SCR_COPY_TYPE": "SINGLE"}
    sources = {"SCR_FLUSH": "user config", "SCR_COPY_TYPE": "default"}
    daemon.tell(JobStarted(time_s=time.time()), SettingsObserved(settings=settings, sources=sources))
    wait_until(daemon.paths.decision.exists)
    assert parse_decision(daemon.paths.decision.read_bytes()) == ParsedDecision(0, {"SCR_FLUSH": "2"})


def test_the_ranks_of_the_node_find_out_beside_their_trace_whether_they_are_observed(
    executor: Executor,
    options: DaemonOptions,
) -> None:
    paths = options.paths
    paths.trace_directory.mkdir(parents=True)
    try:
        for on in (False, False, True, True, False):
            executor.perform([Observe(on=on)], NOW)
            assert paths.observe_off.exists() is not on
        paths.observe_first.touch()
        executor.perform([Observe(on=True)], NOW)
        assert not paths.observe_first.exists(), "all ranks, whatever one of them stood for"
    finally:
        shutil.rmtree(paths.trace_directory.parent)  # it is on tmpfs, and not below tmp_path


def test_where_nothing_is_traced_there_is_nothing_to_end(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    executor.perform([Observe(on=False), Observe(on=True)], NOW)
    assert "No such file or directory; tracing stays as it is" in caplog.text
    assert executor.last_failure == ""
