"""`scrtune study --reenact`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from scrtune.cli.commands.study import INTERRUPTED
from scrtune.cli.reenact import settings_of

from ..replay.test_run import write_job

Scrtune = Callable[..., Result]


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """A job of three ranks that saved 8 MiB each, five times, and what was said of it."""
    write_job(tmp_path / "a.pfw", ranks=3, saves=5, mib=1)
    (tmp_path / "study.toml").write_text(
        'prefix = "/prefix"\n[runs.job]\ntraces = ["a.pfw"]\nsettings = {SCR_FLUSH = 1}\n'
    )
    return str(tmp_path / "study.toml")


@pytest.mark.mpi
def test_recorded_checkpoints_are_written_again_as_runs_of_the_study(
    scrtune: Scrtune, recorded: str, tmp_path: Path
) -> None:
    places = [f"--reenact-{name}={tmp_path}" for name in ("prefix", "cache")]
    shape = ("--reenact-scale", 0.1, "--reenact-ranks", 2, "--reenact-checkpoints", 3)
    again = ("--reenact", "own", "--reenact", "SCR_CACHE_BYPASS=0 SCR_FLUSH=0")
    arguments = (recorded, "--what-if", *again, *shape, *places)
    found = json.loads(scrtune("study", *arguments, "--format", "json").stdout)
    job, own, other = found["runs"]
    assert [run["name"] for run in found["runs"]] == ["job", "job here", "job here 2"]
    assert (own["settings"], other["settings"]["SCR_FLUSH"]) == ({"SCR_FLUSH": "1"}, "0")
    assert [run["checkpoints"] for run in (job, own, other)] == [5, 3, 3]
    assert own["prefix"]["written_bytes"] == pytest.approx(3 * 2 * 8 * 2**20 * 0.1, rel=0.01)
    assert other["cache"]["written_bytes"] == own["prefix"]["written_bytes"]
    assert {(row["run"], row["base"]) for row in found["differences"]} == {("job here 2", "job here")}
    assert found["what_if"]["runs"] == ["job"], "nothing is predicted from what another machine wrote"
    assert any("by 2 of 3 ranks, bytes and pauses times 0.1" in note for note in found["notes"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pfw", "study.toml"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--reenact", "XOR"), 2, "'XOR' is no setting: write 'SCR_NAME=VALUE ...', or own"),
        (("--reenact", "SCR_CACHE_SIZE=many"), 2, "SCR_CACHE_SIZE='many': must be"),
        (("--reenact", "own", "--prefix", "/elsewhere"), 1, "a: its traces show no checkpoint with files"),
        (("--reenact", "own", "--reenact-scale", "1e12", "--prefix", "/prefix"), 1, "take a scale below"),
    ],
)
def test_what_cannot_be_written_again_is_said(
    scrtune: Scrtune, recorded: str, arguments: tuple[str, ...], code: int, told: str
) -> None:
    shown = scrtune("study", f"a={Path(recorded).parent}", *arguments)
    assert shown.exit_code == code
    assert told in " ".join(shown.stderr.split())


def test_an_interrupt_leaves_the_recorded_runs(
    scrtune: Scrtune, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scrtune.cli.reenact.write_again", interrupted)
    shown = scrtune("study", recorded, "--reenact", "own")
    assert shown.exit_code == INTERRUPTED
    assert "job" in shown.stdout
    assert "interrupted" in shown.stderr


def test_settings_are_read_as_a_shell_reads_them() -> None:
    assert settings_of("SCR_FLUSH=1 SCRTUNE_FLUSH_CPUS='0,2'") == {
        "SCR_FLUSH": "1",
        "SCRTUNE_FLUSH_CPUS": "0,2",
    }
    assert settings_of("own") is None
    with pytest.raises(ValueError, match="PATH='/': must be"):
        settings_of("PATH=/")


def test_a_study_loads_no_mpi() -> None:
    loaded = "import sys, scrtune.cli.commands.study; sys.exit('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0
