"""What a job is told: where it is traced, where SCR logs to, and with which config file it begins."""

import json
import logging
import os
from pathlib import Path

import pytest

from scrtune.client.capture.environment import OBSERVE
from scrtune.client.libscr.library import WHY_NOT, libscrtune_path
from scrtune.client.paths import JobPaths
from scrtune.daemon.launch.environment import (
    ConfigFiles,
    Job,
    JobOptions,
    Trace,
    config_files,
    end_variables,
    log_variables,
    trace_variables,
)

from .place import SHOW_ENVIRONMENT, Place

LIBRARY = Path("/lib/libscrtune.so")


def traced(tmp_path: Path, user_conf: str = "", **variables: str) -> set[str]:
    """The directories that DFTracer is told."""
    (tmp_path / "user.conf").write_text(user_conf)
    given = told(tmp_path, "function", None, **variables)
    return set(given["DFTRACER_DATA_DIR"].split(":"))


def told(tmp_path: Path, trace: Trace, library: Path | None, **variables: str) -> dict[str, str]:
    """What an application that is started with ``--trace`` `trace` gets."""
    (tmp_path / "user.conf").touch()
    files = ConfigFiles(scr_conf=tmp_path / "scr.conf", user_conf=tmp_path / "user.conf")
    job = Job(files=files, asked=JobOptions(trace=trace), library=library)
    inherited = {"PATH": str(tmp_path / "bin"), **variables}
    return trace_variables(JobPaths.of("j", base=tmp_path / "r"), job, inherited)


def test_the_directories_of_the_systems_file_are_traced(tmp_path: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_PREFIX=/pfs\nSCR_CACHE_BASE=/ssd\n")
    assert traced(tmp_path) == {"/pfs", "/ssd"}
    assert traced(tmp_path, "SCR_CACHE_BASE=/nvme\n", SCR_PREFIX="/own") == {"/own", "/nvme"}


def test_a_systems_file_that_cannot_be_read_is_told_and_fails_nothing(
    tmp_path: Path, system_conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(system_conf)  # whoever reads it waits for a writer
    with caplog.at_level(logging.WARNING):
        assert traced(tmp_path, SCR_PREFIX="/pfs", SCR_CACHE_BASE="/ssd") == {"/pfs", "/ssd"}
    (message,) = caplog.messages
    assert message.startswith(f"{system_conf}: SCR's system config file cannot be read (it is no regular")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_systems_file_without_permission_is_told(
    tmp_path: Path, system_conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    system_conf.write_text("SCR_PREFIX=/pfs\n")
    system_conf.chmod(0)
    with caplog.at_level(logging.WARNING):
        assert "/pfs" not in traced(tmp_path)
    assert "Permission denied" in caplog.text


# ---- who is traced, and how long


def test_where_the_library_is_a_job_is_traced_while_it_writes_outputs(tmp_path: Path) -> None:
    given = told(tmp_path, "auto", LIBRARY)
    assert given["DFTRACER_INIT"] == "PRELOAD"
    assert given[OBSERVE] == "outputs"
    assert int(given["DFTRACER_WRITE_BUFFER_SIZE"]) > 2000 * 200, "an output fits"


def test_without_the_library_a_job_is_not_traced_unless_that_is_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert told(tmp_path, "auto", None) == {}
    (message,) = caplog.messages
    assert "without libscrtune.so tracing cannot be paused" in message
    wanted = told(tmp_path, "preload", None)
    assert OBSERVE not in wanted
    assert wanted["DFTRACER_WRITE_BUFFER_SIZE"] == "0", "live, for there is nobody who delivers"


def test_a_trace_of_the_users_own_stays_as_it_is_unless_it_is_given_to_us(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert told(tmp_path, "auto", LIBRARY, DFTRACER_ENABLE="1") == {}
    assert "DFTRACER_ENABLE=1 is yours" in caplog.text
    assert told(tmp_path, "auto", LIBRARY, DFTRACER_ENABLE="0")[OBSERVE] == "outputs"
    assert told(tmp_path, "preload", LIBRARY, DFTRACER_ENABLE="1")[OBSERVE] == "outputs"


def test_off_is_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert told(tmp_path, "off", LIBRARY) == {}
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("inherited", "variables"),
    [
        ({}, {}),
        ({"SLURM_JOB_END_TIME": "1795420268"}, {"SCR_END_TIME": "1795420268"}),
        ({"SLURM_JOB_END_TIME": "1795420268", "SCR_END_TIME": "7"}, {}),
        ({"SLURM_JOB_END_TIME": "Unknown"}, {}),
    ],
)
def test_scr_is_told_when_the_allocation_ends_unless_the_user_has_said_it(
    inherited: dict[str, str], variables: dict[str, str]
) -> None:
    assert end_variables(inherited) == variables


@pytest.mark.parametrize(
    ("own", "environment", "logs"),
    [
        ("", {}, {"SCR_LOG_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "0"}),
        ("SCR_LOG_SYSLOG_ENABLE=1\n", {}, {"SCR_LOG_ENABLE": "1"}),
        ("SCR_LOG_ENABLE=0\n", {}, {}),
        ("", {"SCR_LOG_ENABLE": "0"}, {"SCR_LOG_ENABLE": "0"}),
        ("SCR_LOG_TXT_ENABLE=0\n", {}, {}),
    ],
)
def test_scr_logs_to_its_own_file_unless_the_user_has_said_anything_about_it(
    place: Place, own: str, environment: dict[str, str], logs: dict[str, str]
) -> None:
    if libscrtune_path() is None:
        pytest.skip(WHY_NOT)
    (place.directory / ".scrconf").write_text(own)
    place.environment = environment
    seen = json.loads(place.run(*SHOW_ENVIRONMENT).stdout)
    assert {name: value for name, value in seen.items() if name.startswith("SCR_LOG")} == logs


def test_scr_is_not_made_to_log_what_nobody_reads(place: Place) -> None:
    seen = json.loads(place.run(*SHOW_ENVIRONMENT, options=("--preload", "never")).stdout)
    assert not any(name.startswith("SCR_LOG") for name in seen)


def test_what_the_application_said_of_its_log_in_its_last_run_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p" / ".scr").mkdir(parents=True)
    (tmp_path / "p" / ".scr" / "app.conf").write_text("SCR_LOG_ENABLE=0\n")
    assert log_variables(None, {"PATH": ""}) == {"SCR_LOG_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "0"}
    assert log_variables(None, {"PATH": "", "SCR_PREFIX": "p"}) == {}


class TestConfigFiles:
    """What the file to rewrite holds when a run of the job begins."""

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".scrconf").write_text("SCR_FLUSH=2\n")

    @pytest.fixture
    def default(self, tmp_path: Path) -> Path:
        (tmp_path / "job").mkdir()
        return tmp_path / "job" / "scr.conf"

    @pytest.fixture(params=["", "elsewhere/scr.conf"])
    def options(self, request: pytest.FixtureRequest) -> JobOptions:
        return JobOptions(scr_conf=Path(request.param) if request.param else None)

    def test_first_the_users_own(self, default: Path, options: JobOptions, tmp_path: Path) -> None:
        files = config_files(default, options, {})
        assert files.user_conf == tmp_path / ".scrconf"
        assert files.scr_conf == (tmp_path / options.scr_conf if options.scr_conf else default)
        assert files.scr_conf.read_text() == "SCR_FLUSH=2\n"

    def test_in_a_later_run_what_was_tuned_in_an_earlier_one(
        self, default: Path, options: JobOptions
    ) -> None:
        config_files(default, options, {}).scr_conf.write_text("SCR_FLUSH=5\n")
        assert config_files(default, options, {}).scr_conf.read_text() == "SCR_FLUSH=5\n"

    def test_the_users_own_again_when_they_have_changed_it(self, default: Path, options: JobOptions) -> None:
        config_files(default, options, {}).scr_conf.write_text("SCR_FLUSH=5\n")
        Path("other.conf").write_text("SCR_FLUSH=3\n")
        files = config_files(default, options, {"SCR_CONF_FILE": "other.conf"})
        assert files.scr_conf.read_text() == "SCR_FLUSH=3\n"

    def test_another_jobs_tuning_is_not_taken_over(self, default: Path, tmp_path: Path) -> None:
        options = JobOptions(scr_conf=tmp_path / "scr.conf")
        config_files(default, options, {}).scr_conf.write_text("SCR_FLUSH=5\n")
        (tmp_path / "other").mkdir()
        files = config_files(tmp_path / "other" / "scr.conf", options, {})
        assert files.scr_conf.read_text() == "SCR_FLUSH=2\n"

    def test_the_users_own_file_may_be_the_one_that_is_rewritten(self, tmp_path: Path) -> None:
        own = tmp_path / ".scrconf"
        files = config_files(tmp_path / "scr.conf", JobOptions(scr_conf=Path(".scrconf")), {})
        assert (files.scr_conf, own.read_text()) == (own, "SCR_FLUSH=2\n")

    def test_none_is_none(self, tmp_path: Path) -> None:
        files = config_files(tmp_path / "scr.conf", JobOptions(), {"SCR_CONF_FILE": "elsewhere"})
        assert (files.user_conf, files.scr_conf.read_text()) == (None, "")
