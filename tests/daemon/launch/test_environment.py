"""What a job is told about where it is traced: the directories of its files, whichever layer names them."""

import logging
import os
from pathlib import Path

import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.launch.environment import ConfigFiles, Job, trace_variables


@pytest.fixture
def system_conf(tmp_path: Path) -> Path:
    """Where the system's config file of an SCR in tmp_path/bin lies; it is not there yet."""
    program = tmp_path / "bin" / "scr_index"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "scr.conf"


def traced(tmp_path: Path, user_conf: str = "", **variables: str) -> set[str]:
    """The directories that DFTracer is told."""
    (tmp_path / "user.conf").write_text(user_conf)
    inherited = {"PATH": str(tmp_path / "bin"), **variables}
    paths = JobPaths.of("j", base=tmp_path / "r")
    files = ConfigFiles(scr_conf=tmp_path / "scr.conf", user_conf=tmp_path / "user.conf")
    told = trace_variables(paths, Job(files=files, trace="function"), inherited)
    return set(told["DFTRACER_DATA_DIR"].split(":"))


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
