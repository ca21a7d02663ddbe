"""The commands of `docs/intents.md`, run: each intent is what they print of one live job, or of a trace."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from scrtune.cli.main import load_command, main
from scrtune.intents.observe.intents import Intents
from scrtune.intents.rules.derived import table
from scrtune.intents.rules.parameter import DerivedParameter

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "tests" / "apps" / "training_that_diverges.py"
DECLARED = (
    "--tolerate-losses 1 --clean-start --keep-checkpoints 3:10 --checkpoints 2:40 --run-length 1m"
    " --checkpoint-overhead 2 --interval auto --watch-metric loss"
)
_SECTION = re.compile(r"^## (\d+) .*?(?=^## )", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r'^    (?:eval "\$\()?(scrtune [^#"\n]*[^#"\s)])', re.MULTILINE)
_JSON = "--format json"


class Line(NamedTuple):
    """A command of a section, which is that of an intent."""

    intent: int
    text: str


def lines() -> list[Line]:
    text = (ROOT / "docs" / "intents.md").read_text(encoding="utf-8")
    sections = {int(found[1]): found[0] for found in _SECTION.finditer(text)}
    return [Line(number, line) for number, part in sections.items() for line in _COMMAND.findall(part)]


def asked(kinds: tuple[str, ...]) -> list[Line]:
    return [each for each in lines() if each.text.split()[1] in kinds]


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """The directory of a job that has ended; all that can be declared was."""
    with tempfile.TemporaryDirectory(prefix="sd") as text:
        base = Path(text)
        (base / "scr.conf").write_text("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=SINGLE\n")
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SCR", "SLURM"))},
            "SCRTUNE_RUN_DIR": str(base / "r"),
            "SCRTUNE_ENGINE": "embedded",
            "SCR_PREFIX": str(base),
            "SCR_CACHE_BASE": str(base / "cache"),
            "SCR_CACHE_BYPASS": "0",
        }
        command = [sys.executable, "-m", "scrtune", "run", "--job-id", "j", *DECLARED.split(), "--"]
        command += [sys.executable, str(TRAINING), "60", "60"]
        done = subprocess.run(command, cwd=base, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        yield base


def printed(text: str, base: Path) -> str:
    """What a command prints that is typed where the job was."""
    dlio = str(ROOT / "tests" / "data" / "jobs" / "dlio")
    here = {"TRACE": dlio, "tests/data/jobs/dlio": dlio, "ID": "j", "scr.conf": str(base / "scr.conf")}
    arguments = [here.get(word, word) for word in shlex.split(text)[1:]]
    result = CliRunner(env={"SCRTUNE_RUN_DIR": str(base / "r")}).invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def follows(intent: int) -> set[str]:
    """What the table derives from an intent."""
    numbers = {title: each.number for title, each in Intents().named().items()}
    rows = [each for each in vars(table).values() if isinstance(each, DerivedParameter)]
    return {each.name for each in rows if numbers[each.intent] == intent}


def test_each_of_the_twelve_has_a_command_that_shows_it() -> None:
    shown = {each.intent for each in asked(("explain", "replay"))}
    assert shown == set(range(1, 13))


@pytest.mark.parametrize("line", asked(("explain",)), ids=str)
def test_what_is_explained_is_the_intent_and_all_that_follows_from_it(line: Line, base: Path) -> None:
    said = printed(line.text, base)
    missing = {name for name in follows(line.intent) if name not in said}
    assert not missing, said
    assert _JSON in line.text or f"Intent {line.intent}: " in said


@pytest.mark.parametrize("line", asked(("replay", "status", "goodput", "env")), ids=str)
def test_the_other_commands_say_what_the_section_is_about(line: Line, base: Path) -> None:
    words = {2: "optimizer files 86%", 3: "SCR_COPY_TYPE", 5: "export ", 10: "Daly 2006", 12: "diverges"}
    assert words[line.intent] in printed(line.text, base)


@pytest.mark.parametrize("line", asked(("run",)), ids=str)
def test_what_is_declared_is_an_option_of_run_and_was_for_this_job(line: Line) -> None:
    options = shlex.split(line.text.partition(" -- ")[0])[2:]
    known = {option for parameter in load_command("run").params for option in parameter.opts}
    names = {each for each in options if each.startswith("--")}
    assert names <= known
    assert names <= set(DECLARED.split())
