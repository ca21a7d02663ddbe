"""The examples of docs/goodput-logs.md."""

import re
import shlex
from pathlib import Path

import pytest

from ....support.goodput_command import ROOT, run

PAGE = (ROOT / "docs" / "goodput-logs.md").read_text(encoding="utf-8")
FILE = re.compile(r"`(\w+\.\w+)`:\n\n((?:    .*\n)+)")
SESSION = re.compile(r"^    \$ (scrtune goodput .*)\n\n?((?:(?:    .*)?\n)*?)(?=^\S|\Z)", re.MULTILINE)


def test_the_examples_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, block in FILE.findall(PAGE):
        (tmp_path / name).write_text(re.sub(r"^    ", "", block, flags=re.MULTILINE))
    sessions = SESSION.findall(PAGE)
    assert len(sessions) >= 5
    for command, expected in sessions:
        result = run(*shlex.split(command)[2:])
        assert result.exit_code == 0, command
        printed = [line.rstrip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        assert printed == [line[4:] for line in expected.splitlines() if line.strip()], command
