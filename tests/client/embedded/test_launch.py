"""The settings, directories and nodes that a job starts with."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.embedded.launch import read_launch
from scrtune.client.embedded.settings import Levers
from scrtune.scr_config.catalogue import compiled_defaults
from scrtune.scr_config.resolution import Resolved


def test_a_restart_finds_its_cache_whatever_scrtune_run_calls_the_run(tmp_path: Path) -> None:
    def cache(prefix: str, **variables: str) -> str:
        return read_launch({"SCR_PREFIX": str(tmp_path / prefix), **variables}, ["host"]).cache

    first = cache("a", SCRTUNE_JOB_ID="20261121-100000-1")
    assert cache("a", SCRTUNE_JOB_ID="20261121-110000-2") == first == cache("a")
    assert cache("b") != first, "two jobs without an id do not evict each other"
    assert cache("a", SLURM_JOB_ID="17").endswith("scr.17")
    assert cache("a", SLURM_JOB_ID="17", SCR_JOB_ID="own").endswith("scr.own")


def launched(tmp_path: Path, **variables: str) -> Resolved:
    return read_launch(
        {"PATH": str(tmp_path / "bin"), "SCR_PREFIX": str(tmp_path), **variables}, ["host"]
    ).resolved


def test_the_systems_file_gives_what_nobody_above_it_gives(tmp_path: Path, system_conf: Path) -> None:
    assert launched(tmp_path).sources["SCR_FLUSH"] == "default"
    system_conf.write_text("SCR_FLUSH=5\nSCR_SET_SIZE=4\nSCR_CACHE_SIZE=6\n")
    (tmp_path / ".scrconf").write_text("SCR_SET_SIZE=3\n")
    resolved = launched(tmp_path, SCR_CACHE_SIZE="2")
    names = ("SCR_FLUSH", "SCR_SET_SIZE", "SCR_CACHE_SIZE")
    assert [resolved.settings[name] for name in names] == [5, 3, 2]
    assert [resolved.sources[name] for name in names] == ["system config", "user config", "environment"]
    assert resolved.problems == ()


def test_a_cache_that_the_systems_file_names_is_used(tmp_path: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_CACHE_BASE=/ssd\nSCR_USER_NAME=u\nSCR_JOB_ID=7\n")
    assert read_launch({"PATH": str(tmp_path / "bin")}, ["host"]).cache == "/ssd/u/scr.7"


def test_a_systems_file_that_cannot_be_read_is_reported_and_fails_nothing(
    tmp_path: Path, system_conf: Path
) -> None:
    os.mkfifo(system_conf)  # whoever reads it waits for a writer
    resolved = launched(tmp_path, SCR_FLUSH="2")
    assert resolved.settings["SCR_FLUSH"] == 2
    (problem,) = resolved.problems
    assert str(problem) == (
        f"warning: {system_conf}: SCR's system config file cannot be read (it is no regular file);"
        " the job runs without what it says"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_systems_file_without_permission_is_reported(tmp_path: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_FLUSH=5\n")
    system_conf.chmod(0)
    (problem,) = launched(tmp_path).problems
    assert "Permission denied" in problem.what


@given(data=st.binary(max_size=200))
def test_any_bytes_in_the_systems_file_start_the_engine(data: bytes) -> None:
    with TemporaryDirectory() as name:
        base = Path(name)
        (base / "bin").mkdir()
        (base / "etc").mkdir()
        (base / "bin/scr_index").write_text("#!/bin/sh\n")
        (base / "bin/scr_index").chmod(0o755)
        (base / "etc/scr.conf").write_bytes(data)
        Levers.of(launched(base).settings)


def test_unsupported_values_of_the_systems_file_are_ignored(tmp_path: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_COPY_TYPE=FILE\nSCR_FLUSH_TYPE=BBAPI\nSCR_COPY_TYPE=RS\nSCR_FLUSH=5\n")
    resolved = launched(tmp_path)
    assert resolved.settings["SCR_COPY_TYPE"] == compiled_defaults()["SCR_COPY_TYPE"]
    assert resolved.settings["SCR_FLUSH_TYPE"] == compiled_defaults()["SCR_FLUSH_TYPE"]
    assert resolved.settings["SCR_FLUSH"] == 5
    told = [problem.what for problem in resolved.problems if problem.code == "system-config"]
    assert [what.split(": ")[0] for what in told] == [f"{system_conf}:{line}" for line in (3, 1, 2)]
    (tmp_path / ".scrconf").write_text("SCR_COPY_TYPE=PARTNER\nSCR_FLUSH_TYPE=SYNC\n")
    overruled = launched(tmp_path)
    assert not [problem for problem in overruled.problems if problem.code == "system-config"]


@pytest.mark.parametrize("nodes", ["0", "3", "-1", "two"])
def test_a_number_of_nodes_that_cannot_be_is_refused_by_its_name(tmp_path: Path, nodes: str) -> None:
    environment = {"SCR_PREFIX": str(tmp_path), "SCRTUNE_EMBEDDED_NODES": nodes}
    with pytest.raises(ValueError, match=f"SCRTUNE_EMBEDDED_NODES={nodes}: "):
        read_launch(environment, ["a", "a"])
    assert read_launch({**environment, "SCRTUNE_EMBEDDED_NODES": "2"}, ["a", "a"]).node_of == (0, 1)
    assert read_launch({**environment, "SCRTUNE_EMBEDDED_NODES": ""}, ["a", "b"]).node_of == (0, 1)
