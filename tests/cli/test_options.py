"""Options that commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner, Result

from scrtune.cli.main import load_command
from scrtune.cli.options import MonitoringOptions, command, option
from scrtune.daemon.options import Monitoring


@dataclass(frozen=True)
class Declared:
    """One option of each kind."""

    files: tuple[Path, ...] = option("[FILE]...")
    is_on: bool = option("--on", "A flag.")
    colour: Literal["red", "blue"] = option("--colour", "A choice.", default="red")
    size_bytes: int | None = option("--size SIZE", "A number.", parse=lambda text: int(text) * 1024)
    name: str | None = option("--name", "A text.")


def given(*arguments: str) -> tuple[Declared | None, Result]:
    got: list[Declared] = []
    made = command(Declared)(got.append)
    ran = CliRunner().invoke(made, arguments)
    return (got[0] if got else None), ran


def test_what_is_not_given_is_its_default_or_none() -> None:
    assert given()[0] == Declared(files=(), is_on=False, colour="red", size_bytes=None, name=None)


def test_fields_have_what_was_given_in_their_types() -> None:
    found, _ = given("--on", "--colour", "blue", "--size", "2", "--name", "n", "a", "b")
    assert found == Declared(
        files=(Path("a"), Path("b")), is_on=True, colour="blue", size_bytes=2048, name="n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(("--colour", "green"), "'green' is not one of"), (("--size", "x"), "Invalid value for '--size'")],
)
def test_what_cannot_be_is_a_usage_error(arguments: tuple[str, ...], text: str) -> None:
    _, ran = given(*arguments)
    assert ran.exit_code == 2
    assert text in ran.stderr


def monitored(*arguments: str) -> Monitoring:
    got: list[Monitoring] = []

    @command(MonitoringOptions)
    def watched(options: MonitoringOptions) -> None:
        got.append(options.monitoring)

    CliRunner().invoke(watched, arguments, catch_exceptions=False, standalone_mode=False)
    return got[0]


def test_a_monitors_window_is_a_duration_as_everywhere() -> None:
    for words, seconds in (("15min", 900), ("15m", 900), ("900", 900), ("2h", 7200)):
        assert monitored("--monitor-window", words).windows_s == (seconds,)
    assert monitored(
        "--monitor-window", "60", "--monitor-window", "1m", "--monitor-window", "1h"
    ).windows_s == (
        60,
        3600,
    )
    assert monitored() == Monitoring()


@pytest.mark.parametrize("name", ["run", "daemon", "node"])
def test_whatever_starts_a_daemon_has_the_monitoring_options(name: str) -> None:
    options = {flag for parameter in load_command(name).params for flag in parameter.opts}
    assert options >= {"--metrics", "--tensorboard", "--csv", "--monitor-every", "--monitor-window"}


def test_a_window_that_is_none_is_a_usage_error() -> None:
    ran = CliRunner().invoke(load_command("daemon"), ["--monitor-window", "soon"])
    assert ran.exit_code == 2
    assert "'soon' is not a duration" in ran.stderr
