"""The paths of a job's run directory, and which directories are not trusted."""

import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from scrtune.cli.errors import UnknownJobError
from scrtune.cli.jobs.find import find
from scrtune.client import paths
from scrtune.client.paths import (
    JobPaths,
    RunDirectoryError,
    default_base,
    job_id_from_environment,
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment of whoever runs the tests."""
    for name in (*paths.JOB_ID_VARIABLES, "SCRTUNE_RUN_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


HOST = JobPaths.of("j").host


def paths_of(base: Path, job_id: str = "j") -> JobPaths:
    """The paths of a job on a node without shared memory."""
    return replace(JobPaths.of(job_id, base=base), shared_memory=base / "no-shared-memory")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_base_is_named_or_the_sessions_or_temporary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = Path(tempfile.gettempdir()) / f"scrtune-{os.getuid()}"
    assert default_base() == temporary
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert default_base() == temporary
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_base() == tmp_path / "scrtune"
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "own"))
    assert default_base() == tmp_path / "own"


def test_a_relative_run_directory_stays_the_same_when_the_working_directory_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCRTUNE_RUN_DIR", "r")
    made = JobPaths.of("j", host="n")
    monkeypatch.chdir("/")
    assert made.root == tmp_path / "r" / "j" / "n"


def test_the_job_is_named_by_scrtune_or_scr_or_the_resource_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job_id_from_environment() == "defjobid"
    for name in reversed(paths.JOB_ID_VARIABLES):
        monkeypatch.setenv(name, f"of-{name}")
        assert job_id_from_environment() == f"of-{name}"
    monkeypatch.setenv("SCRTUNE_JOB_ID", "")
    assert job_id_from_environment() == "of-SCR_JOB_ID"


@pytest.mark.parametrize("job_id", ["..", ".", "../../etc", "a/b", "a\nb", "naïve"])
def test_no_job_id_leads_out_of_the_base(tmp_path: Path, job_id: str) -> None:
    made = paths_of(tmp_path / "r", job_id).create()
    assert made.root.resolve().parent.parent == (tmp_path / "r").resolve()


def test_the_run_directory_is_the_users_alone(tmp_path: Path) -> None:
    made = paths_of(tmp_path / "r").create()
    assert [mode(path) for path in (made.base, made.root.parent, made.root)] == [0o700] * 3
    made.root.chmod(0o755)
    made.create()
    assert mode(made.root) == 0o700


def test_a_directory_that_the_user_named_keeps_its_mode(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    paths_of(home).create()
    assert mode(home) == 0o755


def test_a_base_that_others_may_write_to_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    base = tmp_path / "r"
    base.mkdir()
    base.chmod(0o777)
    with pytest.raises(RunDirectoryError, match=r"others may write there; .*chmod go-w"):
        paths_of(base).create()
    base.chmod(0o1777)
    paths_of(base).create()


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    base = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff"))
    for use in (JobPaths.create, JobPaths.check):
        with pytest.raises(RunDirectoryError, match=r"its name is not UTF-8.*set SCRTUNE_RUN_DIR"):
            use(paths_of(base))
    assert not base.exists()


@pytest.mark.parametrize("linked", ["", "j", f"j/{HOST}"])
def test_a_link_in_the_place_of_a_directory_is_refused(tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    place = tmp_path / "r" / linked
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere)
    with pytest.raises(RunDirectoryError, match="is a link or belongs to another user; set SCRTUNE_RUN_DIR"):
        paths_of(tmp_path / "r").create()
    assert mode(elsewhere) == 0o755
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("doubtful", ["", "j", f"j/{HOST}"])
@pytest.mark.parametrize("named", [True, False])
def test_what_may_be_somebody_elses_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, doubtful: str, named: bool
) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))
    paths_of(tmp_path / "r").create().journal.touch()
    assert find("j" if named else None) == JobPaths.of("j")
    (tmp_path / "r" / doubtful).chmod(0o777)
    if named or not doubtful:
        with pytest.raises(RunDirectoryError, match="others may write there"):
            find("j" if named else None)
    else:  # the latest that is ours is another one
        with pytest.raises(UnknownJobError):
            find(None)
    assert mode(tmp_path / "r" / doubtful) == 0o777, "a question changes nothing"


@pytest.mark.parametrize("linked", ["", "j", f"j/{HOST}"])
def test_a_job_is_not_found_where_a_link_leads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, linked: str
) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))
    elsewhere = paths_of(tmp_path / "elsewhere").create()
    place = tmp_path / "r" / linked
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere.base / linked)
    with pytest.raises(RunDirectoryError, match="is a link or belongs to another user"):
        find("j")


def test_a_job_directory_that_others_may_write_to_is_refused_even_if_it_is_sticky(tmp_path: Path) -> None:
    made = paths_of(tmp_path / "r").create()
    made.root.chmod(0o1777)
    with pytest.raises(RunDirectoryError, match="others may write there"):
        made.check()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a directory away")
@pytest.mark.parametrize("foreign", ["", "j", f"j/{HOST}"])
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, foreign: str) -> None:
    place = tmp_path / "r" / foreign
    place.mkdir(parents=True)
    os.chown(place, 12345, 12345)
    with pytest.raises(RunDirectoryError, match="belongs to another user"):
        paths_of(tmp_path / "r").create()


def test_a_file_in_the_place_of_a_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("")
    with pytest.raises(RunDirectoryError, match="set SCRTUNE_RUN_DIR to a directory of yours"):
        paths_of(tmp_path / "r").create()


@pytest.mark.parametrize("length", [100, 300])
def test_too_long_a_path_is_refused_before_anything_is_made(tmp_path: Path, length: int) -> None:
    base = tmp_path / ("x" * 50)
    with pytest.raises(
        RunDirectoryError, match="107 or fewer; set SCRTUNE_RUN_DIR to a shorter directory, or give"
    ):
        paths_of(base, "j" * length).create()
    assert not base.exists()


def test_jobs_of_one_id_in_different_places_do_not_share_their_traces(tmp_path: Path) -> None:
    shared_memory = tmp_path / "shm"
    shared_memory.mkdir(mode=0o1777)
    one, other = (
        replace(JobPaths.of("j", base=tmp_path / name), shared_memory=shared_memory).create() for name in "ab"
    )
    assert one.trace_directory != other.trace_directory
    assert one.trace_directory.is_dir()
    assert mode(one.trace_directory) == 0o700
    assert one.trace_directory.is_relative_to(shared_memory)
