"""What a job is told about where it is traced: the directories of its files, whichever layer names them."""

import logging
import os
from pathlib import Path

import pytest

from scrtune.client.capture.environment import OBSERVE
from scrtune.client.paths import JobPaths
from scrtune.daemon.launch.environment import (
    ConfigFiles,
    Job,
    JobOptions,
    Trace,
    end_variables,
    trace_variables,
)

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
