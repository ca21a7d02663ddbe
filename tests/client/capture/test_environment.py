"""The environment in which DFTracer can be followed live."""

import sys
from pathlib import Path

import pytest

from scrtune.client.capture.environment import (
    CaptureUnavailableError,
    capture_environment,
    preload_library,
)


def test_the_live_settings_are_these(tmp_path: Path) -> None:
    got = capture_environment(tmp_path / "app", [tmp_path / "a", tmp_path / "b"], "function", {})
    assert got == {
        "DFTRACER_ENABLE": "1",
        "DFTRACER_INC_METADATA": "1",
        "DFTRACER_LOG_FILE": f"{tmp_path}/app",
        "DFTRACER_DATA_DIR": f"{tmp_path}/a:{tmp_path}/b",
        "DFTRACER_INIT": "FUNCTION",
        "DFTRACER_TRACE_COMPRESSION": "0",
        "DFTRACER_WRITE_BUFFER_SIZE": "0",
    }


def test_what_libscrtune_pauses_has_a_buffer_for_an_output_and_says_that_it_is_ours(tmp_path: Path) -> None:
    live = capture_environment(tmp_path / "app", [tmp_path / "a"], "function", {})
    gated = capture_environment(tmp_path / "app", [tmp_path / "a"], "function", {}, gated=True)
    changed = {"DFTRACER_WRITE_BUFFER_SIZE": "4194304", "SCRTUNE_OBSERVE": "outputs"}
    assert gated == {**live, **changed}


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    got = capture_environment(Path("app"), [Path("data")], "function", {})
    assert got["DFTRACER_LOG_FILE"] == f"{tmp_path}/app"
    assert got["DFTRACER_DATA_DIR"] == f"{tmp_path}/data"


def test_a_link_counts_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    got = capture_environment(tmp_path / "app", [tmp_path / "link"], "function", {})
    assert got["DFTRACER_DATA_DIR"] == f"{tmp_path}/link:{tmp_path}/real"


def test_what_the_user_traces_is_traced_too(tmp_path: Path) -> None:
    def data_dir(inherited: str) -> str:
        own = {"DFTRACER_DATA_DIR": inherited}
        return capture_environment(tmp_path / "app", [tmp_path], "function", own)["DFTRACER_DATA_DIR"]

    assert data_dir("/lustre/in") == f"{tmp_path}:/lustre/in"
    assert data_dir(f"{tmp_path}:/lustre/in") == f"{tmp_path}:/lustre/in"
    assert data_dir("all") == "all"


def test_the_users_other_values_stay(tmp_path: Path) -> None:
    own = {"DFTRACER_DISABLE_STDIO": "1", "DFTRACER_TIME_METRIC": "NS", "OMP_NUM_THREADS": "2"}
    assert not own.keys() & capture_environment(tmp_path / "app", [], "preload", own).keys()


def test_preload_puts_dftracer_before_the_users_own_libraries(tmp_path: Path) -> None:
    library = str(preload_library())

    def ld_preload(inherited: dict[str, str]) -> str:
        return capture_environment(tmp_path / "app", [], "preload", inherited)["LD_PRELOAD"]

    assert Path(library).is_file()
    assert ld_preload({}) == library
    assert ld_preload({"LD_PRELOAD": "/opt/a.so /opt/b.so"}) == f"{library}:/opt/a.so:/opt/b.so"
    assert ld_preload({"LD_PRELOAD": f"/opt/a.so:{library}"}) == f"{library}:/opt/a.so"


def test_finding_the_library_does_not_start_dftracer() -> None:
    before = set(sys.modules)
    preload_library()
    assert not {name for name in set(sys.modules) - before if name.startswith("dftracer")}


def test_without_dftracer_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dftracer", None)
    with pytest.raises(CaptureUnavailableError, match="pip install dftracer"):
        capture_environment(tmp_path / "app", [], "preload", {})


@pytest.fixture
def dftracer_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A dftracer package in a folder with a space; it has no preload library yet."""
    package = tmp_path / "my venv" / "dftracer"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    for name in [name for name in sys.modules if name.split(".")[0] == "dftracer"]:
        monkeypatch.delitem(sys.modules, name)
    return package


def test_a_missing_library_is_reported_by_its_path(tmp_path: Path, dftracer_at: Path) -> None:
    with pytest.raises(CaptureUnavailableError, match=r"libdftracer_preload.so: missing"):
        capture_environment(tmp_path / "app", [], "preload", {})


def test_a_path_that_ld_preload_cannot_name_is_refused(tmp_path: Path, dftracer_at: Path) -> None:
    (dftracer_at / "lib64").mkdir()
    (dftracer_at / "lib64" / "libdftracer_preload.so").touch()
    with pytest.raises(CaptureUnavailableError, match="no path with a space"):
        capture_environment(tmp_path / "app", [], "preload", {})


def test_a_data_directory_with_a_colon_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureUnavailableError, match="no path with a colon"):
        capture_environment(tmp_path / "app", [tmp_path / "a:b"], "function", {})
