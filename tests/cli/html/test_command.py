"""`scrtune goodput --html` and `--png` at the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from scrtune.cli.html.canvas import WIDTH
from scrtune.cli.html.theme import GROUPS
from scrtune.cli.main import main
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal

from ...support.report_job import T, checkpointed, write_log


def scrtune(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["goodput", *map(str, arguments)])


def test_the_command_writes_a_page_and_a_picture(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    result = scrtune(log, "--html", tmp_path / "out.html", "--png", tmp_path / "out.png")
    assert (result.exit_code, result.output) == (0, "")
    assert "Where the time of a job went" in (tmp_path / "out.html").read_text(encoding="utf-8")
    picture = Image.open(tmp_path / "out.png")
    assert picture.size[0] == round(WIDTH * 150)
    colours = {colour[:3] for _, colour in picture.getcolors(1 << 24)}
    for group in ("productive", "checkpoints", "wasted progress", "restore, recovery"):
        assert bytes.fromhex(GROUPS[group].colour[1:]) in {bytes(colour) for colour in colours}


def test_a_journal_is_enough(tmp_path: Path) -> None:
    root = tmp_path / "job-7" / "host"
    root.mkdir(parents=True)
    journal = Journal(root / "journal")
    for event in checkpointed():
        journal.append(getattr(event, "end_s", getattr(event, "time_s", T)), event)
    journal.flush(T)
    journal.close()
    result = scrtune(root / "journal", "--html", tmp_path / "out.html")
    assert (result.exit_code, result.output) == (0, "")
    assert "Where the time of job-7 went" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_job_is_known_by_its_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "run"))
    paths = JobPaths.of("job-8").create()
    assert scrtune("--job-id", "job-8", "--html", tmp_path / "out.html").exit_code == 3  # no journal
    journal = Journal(paths.journal)
    for event in checkpointed():
        journal.append(getattr(event, "end_s", getattr(event, "time_s", T)), event)
    journal.flush(T)
    journal.close()
    result = scrtune("--job-id", "job-8", "--html", tmp_path / "out.html")
    assert (result.exit_code, result.output) == (0, "")
    shown = json.loads(scrtune("--job-id", "job-8", "--format", "json").stdout)
    wall = f"<b>{shown['account']['wall_s']:,.3f}</b>"
    assert wall in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_page_is_about_one_job(tmp_path: Path) -> None:
    one = write_log(tmp_path / "1.jsonl", checkpointed(), "one")
    two = write_log(tmp_path / "2.jsonl", checkpointed(), "two")
    result = scrtune(one, two, "--html", tmp_path / "out.html")
    assert result.exit_code == 3
    assert "'one', 'two'; name one with --job-name" in result.output
    assert not (tmp_path / "out.html").exists()
    assert scrtune(one, two, "--job-name", "two", "--html", tmp_path / "out.html").exit_code == 0


@pytest.mark.parametrize(
    "more",
    [["--format", "json"], ["--window", "60"], ["--policy", "both"], ["--interval"], ["--job-id", "x"]],
)
def test_options_that_a_page_has_no_use_for_are_refused(tmp_path: Path, more: list[str]) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    result = scrtune(log, "--html", tmp_path / "out.html", *more)
    assert result.exit_code == 2
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_its_libraries_the_user_reads_what_to_install(tmp_path: Path, missing: str) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from scrtune.cli.main import main;"
        f" main(['goodput', {str(log)!r}, '--html', {str(tmp_path / 'out.html')!r}])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert f"need {missing}: pip install 'scrtune[report]'" in ran.stderr


def test_without_a_page_its_libraries_are_not_loaded(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    code = (
        "import sys; from scrtune.cli.main import main;"
        f" main(['goodput', {str(log)!r}], standalone_mode=False); print(*sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"matplotlib", "jinja2"}.isdisjoint(shown.stdout.splitlines()[-1].split())
