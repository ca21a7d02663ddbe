"""Defaults of options in `scrtune.toml`, and `scrtune init`, which writes one."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.main import COMMANDS, configurable, load_command

from ..support.ended_job import ended_job

Scrtune = Callable[..., Result]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the test's own."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_a_file_sets_what_the_command_line_leaves_open(scrtune: Scrtune, here: Path, base: Path) -> None:
    ended_job("j")
    (here / "scrtune.toml").write_text('[status]\nformat = "json"\n')
    assert msgspec.json.decode(scrtune("status").stdout)["job_id"] == "j"
    assert scrtune("status", "--format", "table").stdout.startswith("job ")
    assert not scrtune("explain").stdout.startswith("{")
    assert "[default: json]" in scrtune("status", "--help").stdout


def test_the_working_directory_comes_before_the_users_config_directory(
    scrtune: Scrtune, here: Path, base: Path
) -> None:
    ended_job("j")
    users = Path(os.environ["XDG_CONFIG_HOME"], "scrtune", "scrtune.toml")
    users.parent.mkdir(parents=True)
    users.write_text('[status]\nformat = "json"\n')
    assert scrtune("status").stdout.startswith("{")
    (here / "scrtune.toml").write_text("")
    assert scrtune("status").stdout.startswith("job ")


def test_a_variable_names_another_file_or_none(
    scrtune: Scrtune, here: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_job("j")
    (here / "scrtune.toml").write_text('[status]\nformat = "json"\n')
    monkeypatch.setenv("SCRTUNE_DEFAULTS", os.devnull)
    assert scrtune("status").stdout.startswith("job ")
    (here / "other.toml").write_text('[explain]\nformat = "json"\n')
    monkeypatch.setenv("SCRTUNE_DEFAULTS", "other.toml")
    assert scrtune("status").stdout.startswith("job ")
    assert scrtune("explain").stdout.startswith("{")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[run]\n\nsizes = 1", "scrtune.toml:3: run.sizes: is no option of scrtune run\n"),
        ("[run]\nintervall = 1", "scrtune run; did you mean interval?\n"),
        ('[run]\ninterval = "often"', "scrtune.toml:2: run.interval: 'often' is not one of 'own', 'auto'"),
        ("run.observe-budget = 500", "scrtune.toml:1: run.observe-budget: 500.0 is not in the range"),
        ('[run]\n"metrics" = "x:y"', "scrtune.toml:2: run.metrics: 'x:y' is no address"),
        ("[run]\nno-tune = 1", "scrtune.toml:2: run.no-tune: write true or false"),
        ('[run]\nmonitor-window = "15m"', "scrtune.toml:2: run.monitor-window: write a list"),
        ('[run]\nmonitor-window = ["15m", "soon"]', "run.monitor-window: 'soon' is not a duration"),
        ('[run]\nkeep = ["1d"]', "scrtune.toml:2: run.keep: write one value"),
        ('# first\ninterval = "auto"', "scrtune.toml:2: interval: belongs into the table of a command"),
        ("[runs]", "scrtune.toml:1: runs: is no command with options to set; did you mean run?"),
        ("[daemon]", "scrtune.toml:1: daemon: is no command with options to set"),
        ("[run]\ninterval auto", "scrtune.toml:2: not TOML: "),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key_and_nothing_is_run(
    scrtune: Scrtune, here: Path, base: Path, text: str, says: str
) -> None:
    (here / "scrtune.toml").write_text(text)
    ran = scrtune("run", "--", "touch", "here")
    assert ran.exit_code == 2
    assert ran.stderr.startswith(f"scrtune: {says}" if says.startswith("scrtune.toml") else "scrtune: ")
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert not Path("here").exists()


def test_another_commands_table_is_no_business_of_this_one(scrtune: Scrtune, here: Path, base: Path) -> None:
    ended_job("j")
    (here / "scrtune.toml").write_text('[run]\ninterval = "often"\n')
    assert scrtune("status").exit_code == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_not_obeyed(scrtune: Scrtune, here: Path, base: Path) -> None:
    ended_job("j")
    (here / "scrtune.toml").write_text('[status]\nformat = "json"\n')
    os.chown(here / "scrtune.toml", 12345, 12345)
    ran = scrtune("status")
    assert ran.stdout.startswith("job ")
    assert "scrtune.toml belongs to another user, and is not read" in ran.stderr


@pytest.mark.parametrize("options", [(), ("--user",)])
def test_init_writes_a_file_that_sets_nothing_and_leaves_an_existing_one_alone(
    scrtune: Scrtune, here: Path, options: tuple[str, ...]
) -> None:
    assert scrtune("init", *options).exit_code == 0
    path = Path(os.environ["XDG_CONFIG_HOME"], "scrtune") if options else here
    written = (path / "scrtune.toml").read_text()
    assert all(line.startswith("#") for line in written.splitlines() if line)
    again = scrtune("init", *options)
    assert again.exit_code == 1
    assert "is there already, and is left alone" in again.stderr
    assert (path / "scrtune.toml").read_text() == written


def test_what_init_writes_has_every_option_with_its_default(scrtune: Scrtune, here: Path) -> None:
    scrtune("init")
    text = re.sub(r"^# (?=\[|[a-z-]+ = )", "", (here / "scrtune.toml").read_text(), flags=re.MULTILINE)
    tables = msgspec.toml.decode(text)
    assert tables.keys() <= set(configurable()) < set(COMMANDS)
    for name in configurable():
        options = {
            each.opts[0][2:]: each for each in load_command(name).params if each.param_type_name == "option"
        }
        options.pop("job-id", None)
        assert tables.get(name, {}).keys() == options.keys()
        for key, option in options.items():
            if option.default is not None and not option.multiple:  # type: ignore[attr-defined]
                assert tables[name][key] == option.default


def test_the_defaults_that_init_writes_change_nothing_when_they_are_set(
    scrtune: Scrtune, here: Path, base: Path
) -> None:
    scrtune("init")
    is_default = re.compile(r'^# (?=\[|[a-z-]+ = [^"\[]|[a-z-]+ = "[^A-Z]*"$)', re.MULTILINE)
    text = is_default.sub("", (here / "scrtune.toml").read_text())
    (here / "scrtune.toml").write_text(text.replace('what-if = "', '# what-if = "'))
    assert "\nobserve-budget = 1.0\n" in text
    ended_job("j")
    for name in ("status", "explain", "goodput", "jobs", "params", "check"):
        shown = scrtune(name)
        (here / "scrtune.toml").rename(here / "away")
        before = scrtune(name)
        (here / "away").rename(here / "scrtune.toml")
        assert (shown.exit_code, shown.stderr) == (before.exit_code, before.stderr)
        if name != "jobs":  # which says how long ago
            assert shown.stdout == before.stdout
