"""What the user declares: options of `scrtune run`, the same in scrtune.toml, and a live job."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from scrtune.cli.job_options import RunDeclarations
from scrtune.cli.options import command
from scrtune.cli.views.story import Story
from scrtune.intents.declared import Declared, from_text

Scrtune = Callable[..., Result]
APPLICATION = Path(__file__).parents[2] / "apps" / "mpi_restarts.py"
MPIEXEC = Path(sys.executable).with_name("mpiexec")


def declared(*arguments: str) -> Declared | Result:
    got: list[Declared] = []

    @command(RunDeclarations)
    def told(options: RunDeclarations) -> None:
        got.append(options.all_declared)

    ran = CliRunner().invoke(told, arguments)
    return got[0] if got else ran


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), Declared()),
        (("--tolerate-losses", "2"), Declared(losses=2)),
        (("--keep-checkpoints", "5"), Declared(keep_least=5)),
        (("--keep-checkpoints", "5:20"), Declared(keep_least=5, keep_most=20)),
        (("--keep-checkpoints", ":20"), Declared(keep_most=20)),
        (("--checkpoints", "3:"), Declared(checkpoints_least=3)),
        (("--clean-start", "--checkpoint-overhead", "5"), Declared(clean_start=True, overhead=0.05)),
        (("--run-length", "2h", "--watch-metric", "loss"), Declared(run_s=7200, metric="loss")),
    ],
)
def test_each_option_is_what_the_user_says(arguments: tuple[str, ...], said: Declared) -> None:
    assert declared(*arguments) == said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--keep-checkpoints", "many"), "'many' is no MIN, MIN:MAX or :MAX"),
        (("--keep-checkpoints", ":"), "is no MIN"),
        (("--checkpoints", "1:2:3"), "is no MIN"),
        (("--checkpoints", "9999999999"), "2147483647 at most"),
        (("--tolerate-losses", "-1"), "not in the range"),
        (("--checkpoint-overhead", "101"), "not in the range"),
        (("--run-length", "soon"), "is not a duration"),
    ],
)
def test_what_cannot_be_is_a_usage_error(arguments: tuple[str, ...], why: str) -> None:
    ran = declared(*arguments)
    assert isinstance(ran, Result)
    assert ran.exit_code == 2
    assert why in ran.stderr


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the test's own, with two simulated nodes."""
    for name in [each for each in os.environ if each.startswith(("SCR_", "SCRTUNE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path_factory.mktemp("r")))  # a socket's path is short
    monkeypatch.setenv("SCRTUNE_EMBEDDED_NODES", "2")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".scrconf").write_text(
        f"SCR_CACHE_BASE={tmp_path}/cache\nSCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=SINGLE\nSCR_FLUSH=0\n"
    )
    return tmp_path


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = (sys.executable, "-m", "scrtune", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_file_of_defaults_says_the_same_and_init_lists_it(scrtune: Scrtune, here: Path) -> None:
    lines = ["[run]", "tolerate-losses = 2", 'keep-checkpoints = "5:20"', "clean-start = true"]
    (here / "scrtune.toml").write_text(
        "\n".join([*lines, "checkpoint-overhead = 5", 'run-length = "12h"', ""])
    )
    show = (sys.executable, "-c", "import os; print(os.environ['SCRTUNE_DECLARED'])")
    ran = run("run", "--trace", "off", "--", *show)
    assert from_text(ran.stdout.splitlines()[0]) == Declared(
        losses=2, keep_least=5, keep_most=20, clean_start=True, overhead=0.05, run_s=43_200
    )
    (here / "scrtune.toml").write_text('[run]\nkeep-checkpoints = "many"\n')
    refused = run("run", "--", *show)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "scrtune.toml:2: run.keep-checkpoints: 'many' is no MIN" in refused.stderr
    (here / "scrtune.toml").unlink()
    assert scrtune("init").exit_code == 0
    written = (here / "scrtune.toml").read_text()
    options = {"tolerate-losses", "keep-checkpoints", "checkpoints", "clean-start", "checkpoint-overhead"}
    assert all(f"# {name} = " in written for name in {*options, "run-length", "watch-metric"})


def test_a_contradiction_is_told_at_once_and_stops_nothing(here: Path) -> None:
    ran = run("run", "--keep-checkpoints", "5:3", "--trace", "off", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert "scrtune: --keep-checkpoints 5:3: at least 5 and at most 3 cannot be; 5 are kept" in ran.stderr


@pytest.mark.mpi
def test_a_clean_start_deletes_the_cache_once_and_a_restart_finds_its_checkpoint(here: Path) -> None:
    """The whole way: option, config file, SCR_Init, daemon, config file, the next SCR_Init, explain."""
    application = f"{MPIEXEC} -n 2 {sys.executable} {APPLICATION}"
    before = subprocess.run(application.split(), capture_output=True, text=True, check=True, timeout=60)
    again = subprocess.run(application.split(), capture_output=True, text=True, check=True, timeout=60)
    assert (before.stdout, again.stdout) == ("nothing\n", "c1\n"), "the cache has what an earlier job left"
    told = 'until grep -q "^SCR_CACHE_PURGE=0" "$SCR_CONF_FILE"; do sleep 0.05; done'
    script = f"{application} && {told} && {application}"
    ran = run(
        *("run", "--job-id", "j", "--trace", "off", "--clean-start", "--tolerate-losses", "1"),
        *("--keep-checkpoints", "2", "--", "sh", "-c", script),
    )
    assert (ran.returncode, ran.stdout) == (0, "nothing\nc1\n"), ran.stderr
    shown = run("explain", "--job-id", "j", "--format", "json", "4")
    assert shown.returncode == 0, shown.stderr
    story = msgspec.json.decode(shown.stdout, type=Story)
    (intent,) = story.intents
    assert "the first SCR_Init deleted it; run 2 went on from 'c1'" in intent.sentence
    (purge,) = (each for each in story.parameters if each.name == "SCR_CACHE_PURGE")
    assert (purge.value, purge.is_users_word, purge.veto) == (0, True, "")
    made = json.loads(run("env", "--job-id", "j", "--format", "json").stdout)
    assert (made["SCR_COPY_TYPE"], made["SCR_PREFIX_SIZE"], made["SCR_CACHE_PURGE"]) == ("PARTNER", "2", "0")
    later = run("run", "--job-id", "j", "--trace", "off", "--clean-start", "--", *application.split())
    assert later.stdout == "c2\n", "the job has run before"
    assert "--clean-start: SCR's cache is not deleted: the job has run before" in later.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--mode", "recommend"), "--mode recommend changes nothing"),
        (("--scr-conf", "own.conf"), "--scr-conf names a file that outlasts the job"),
    ],
)
def test_where_the_purge_could_not_be_taken_back_it_is_not_made(
    here: Path, options: tuple[str, ...], why: str
) -> None:
    show = ("sh", "-c", 'cat "$SCR_CONF_FILE"')
    ran = run("run", "--clean-start", "--trace", "off", *options, "--", *show)
    assert "SCR_CACHE_PURGE" not in ran.stdout
    assert f"--clean-start: SCR's cache is not deleted: {why}" in ran.stderr
