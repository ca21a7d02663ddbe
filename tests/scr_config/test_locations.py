"""Where SCR's files are."""

from pathlib import Path

from scrtune.scr_config.locations import system_conf_path, user_conf_path


def test_where_the_users_file_lies() -> None:
    here = Path("/job")
    assert user_conf_path({}, here) == Path("/job/.scrconf")
    assert user_conf_path({"SCR_PREFIX": "/pfs"}, here) == Path("/pfs/.scrconf")
    assert user_conf_path({"SCR_PREFIX": "out"}, here) == Path("/job/out/.scrconf")
    assert user_conf_path({"SCR_PREFIX": "/pfs", "SCR_CONF_FILE": "my.conf"}, here) == Path("/job/my.conf")
    assert user_conf_path({"HOME": "/h", "SCR_CONF_FILE": "$HOME/my.conf"}) == Path("/h/my.conf")


def scr_installed(root: Path, scripts: str | None = None) -> str:
    """An SCR below `root`, as its install step leaves it; what to search for its programs."""
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "scr_index").write_text("#!/bin/sh\n")
    (root / "bin" / "scr_index").chmod(0o755)
    if scripts is not None:
        (root / "libexec/python/scrjob").mkdir(parents=True)
        (root / "libexec/python/scrjob/config.py").write_text(scripts)
    return str(root / "bin")


def test_without_an_scr_the_system_file_is_that_of_its_source(tmp_path: Path) -> None:
    assert system_conf_path(str(tmp_path)) == Path("/etc/scr.conf")


def test_the_system_file_lies_below_the_scr_that_is_installed(tmp_path: Path) -> None:
    assert system_conf_path(scr_installed(tmp_path / "scr")) == tmp_path / "scr/etc/scr.conf"


def test_the_installed_scripts_know_the_very_path(tmp_path: Path) -> None:
    scripts = "SCR_CACHE_SIZE = 1\nSCR_CONFIG_FILE = '/site/scr/scr.conf'\nX_BINDIR = '/site/bin'\n"
    found = scr_installed(tmp_path / "scr", scripts)
    assert system_conf_path(found) == Path("/site/scr/scr.conf")
    link = tmp_path / "view"
    link.mkdir()
    (link / "scr_index").symlink_to(tmp_path / "scr/bin/scr_index")
    assert system_conf_path(str(link)) == Path("/site/scr/scr.conf")
