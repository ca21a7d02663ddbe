"""What tests of commands share: the command itself, and run directories of one test alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scrtune.cli.main import main
from scrtune.client.paths import JOB_ID_VARIABLES


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run directories of this test alone, in an environment that names no job."""
    for name in JOB_ID_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))
    return tmp_path / "r"


@pytest.fixture
def scrtune() -> Callable[..., Result]:
    return lambda *arguments: CliRunner().invoke(main, [str(each) for each in arguments])
