"""`scrtune study`."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import Result

from scrtune.cli.commands.study import INTERRUPTED
from scrtune.cli.format import seconds_column
from scrtune.examples.study_traces import CACHE, PREFIX, RUNS, write_run, write_runs
from scrtune.replay.reading import scan
from scrtune.replay.reading.traces import whole_lines

Scrtune = Callable[..., Result]
TIERS = ("--prefix", PREFIX, "--cache", CACHE)


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """Two runs as they are named on a command line."""
    for name in ("base", "scr_pfs_one"):
        write_run(tmp_path / name, RUNS[name], 4, ranks=4)
    return f"base={tmp_path}/base", f"one={tmp_path}/scr_pfs_one"


def test_it_prints_the_table_of_the_notebook(scrtune: Scrtune, tmp_path: Path) -> None:
    runs = [f"{name}={path}" for name, path in write_runs(tmp_path, 0).items()]
    shown = scrtune("study", *runs, *TIERS)
    assert shown.exit_code == 0
    lines = {line.split()[0]: line.split() for line in shown.stdout.splitlines()[2:16]}
    assert len(lines) == len(RUNS)
    assert {name: lines[name][2:5] for name in list(lines)[:8]} == {
        "base": ["103.06", "-", "72.64"],
        "base_ssd": ["126.30", "97.50", "-"],
        "scr_ssd_a_pfs": ["378.22", "327.64", "34.15"],
        "scr_ssd_nf": ["349.14", "308.22", "19.61"],
        "scr_bypass": ["145.12", "0.15", "118.42"],
        "scr_ssd_nf_one": ["153.37", "121.08", "0.00"],
        "scr_pfs_one": ["167.23", "121.62", "30.06"],
        "scr_pfs_one_large": ["164.65", "116.15", "30.81"],
    }
    text = " ".join(shown.stdout.split())
    assert "Seconds: largest of a thread (host, pid, tid): its durations summed" in text
    assert "scr_ssd_a_pfs prefix 34.15 s, summed 1,471.54 s" in text


def test_the_same_numbers_in_every_form(scrtune: Scrtune, two: tuple[str, str], tmp_path: Path) -> None:
    page = tmp_path / "study.html"
    rows = list(csv.DictReader(scrtune("study", *two, *TIERS, "--format", "csv").stdout.splitlines()))
    found = json.loads(scrtune("study", *two, *TIERS, "--format", "json", "--html", page).stdout)
    assert [row["name"] for row in rows] == [row["name"] for row in found["runs"]] == ["base", "one"]
    for row, run in zip(rows, found["runs"], strict=True):
        assert float(row["checkpoint_s"]) == run["checkpoint_s"]
        assert float(row["cache_seconds"]) == run["cache"]["seconds"]
    text = page.read_text()
    assert "<script" not in text
    assert {*re.findall(r"https?://[^\"' <>]+", text)} <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert f"<title>one, checkpoint: {found['runs'][1]['checkpoint_s']:,.3f} s</title>" in text
    assert text.count("<svg") == 3
    for title in ("Seconds of each run", "Checkpoints one by one", "Over time"):
        assert f"<h2>{title}</h2>" in text


def test_parquet_has_all_accesses(scrtune: Scrtune, two: tuple[str, str], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert scrtune("study", *two, *TIERS, "--parquet", tmp_path / "a.parquet").exit_code == 0
    table = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert set(table["run"]) == {"base", "one"}
    assert sum(table["seconds"]) == pytest.approx(72.63898 + 1060.07277 + 472.086514)


def test_a_file_names_runs_their_tiers_and_settings(
    scrtune: Scrtune, two: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(
        f'prefix = "{PREFIX}"\nbase = "one"\n'
        '[runs.base]\ntraces = ["base"]\nsettings = {SCR_COPY_TYPE = "XOR", SCR_FLUSH = 10}\n'
        f'[runs.one]\ntraces = ["scr_pfs_one"]\ncache = "{CACHE}"\n'
    )
    found = json.loads(scrtune("study", tmp_path / "study.toml", "--format", "json").stdout)
    base, one = found["runs"]
    assert (found["base"], found["differences"][0]["run"]) == ("one", "base")
    assert base["settings"] == {"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": "10"}
    assert one["cache"]["seconds"] == pytest.approx(121.617282)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[runs.a]\ntraces = ["x"]\npreifx = "/p"\n',
            ":1: runs.a: Object contains unknown field `preifx`; there are traces,",
        ),
        ("[runs.a]\ntraces = []\n", ":2: runs.a.traces: name a trace, or a directory of them"),
        ("[runs.a]\ntraces = ['x']\nsettings = {x = [1]}\n", ":3: runs.a.settings[...]: Expected"),
        ("prefix = '/p'\n\n[runs.a]\ntraces = 3\n", ":4: runs.a.traces: Expected `array`, got `int`"),
        ("a = [\n", ":1: not TOML"),
        ("prefix = '/p'\n", ":1: runs: name the runs, as in [runs.base]"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_line_and_key(
    scrtune: Scrtune, tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    shown = scrtune("study", path)
    assert shown.exit_code == 2
    assert f"{path}{told}" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("traces/",), 2, "'traces/' is no run: write NAME=PATH"),
        (("a=/nowhere",), 1, "/nowhere: not there"),
        (("a=/", "--base", "b"), 2, "the base 'b' is no run; there are a"),
        (("nothing.toml",), 1, "scrtune: nothing.toml: No such file or directory"),
    ],
)
def test_what_cannot_be_studied(scrtune: Scrtune, arguments: tuple[str, ...], code: int, told: str) -> None:
    shown = scrtune("study", *arguments)
    assert shown.exit_code == code
    assert told in shown.stderr


def test_one_run_alone_has_no_table_of_differences_and_no_note_of_them(
    scrtune: Scrtune, two: tuple[str, str]
) -> None:
    shown = scrtune("study", two[0], *TIERS).stdout
    assert "Means against" in scrtune("study", *two, *TIERS).stdout
    assert "Means against" not in shown
    assert "Intervals are over" not in shown
    assert "settings" not in shown


@pytest.mark.parametrize(
    "missing",
    [("html", "jinja2", "report"), ("html", "matplotlib", "report"), ("parquet", "pyarrow", "frames")],
)
def test_a_library_that_is_missing_is_said_before_anything_is_read(
    scrtune: Scrtune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, str, str]
) -> None:
    form, library, extra = missing
    monkeypatch.setitem(sys.modules, library, None)
    found = scrtune("study", "a=not-there", f"--{form}", tmp_path / "out")
    assert found.exit_code == 2
    assert f"--{form} needs {library}: pip install 'scrtune[{extra}]'" in found.stderr


def test_a_page_that_cannot_be_written_does_not_cost_the_table(
    scrtune: Scrtune, two: tuple[str, str], tmp_path: Path
) -> None:
    shown = scrtune("study", *two, *TIERS, "--html", tmp_path / "no" / "study.html")
    assert shown.exit_code == 1
    assert "study.html" in shown.stderr
    assert "121.62" in shown.stdout


def test_milliseconds_are_no_zeros() -> None:
    assert [seconds_column(each) for each in (None, 0.0, 0.00152, 0.0104, 0.153, 1234.567)] == [
        *("-", "0.00", "0.0015", "0.010", "0.15", "1,234.57"),
    ]


def test_an_interrupt_leaves_what_was_read(
    scrtune: Scrtune, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Event()

    def join(_thread: scan.Thread, _timeout: float) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def lines_after(*given: Any) -> Iterator[tuple[str, bytes]]:
        interrupted.wait()
        yield from whole_lines(*given)

    monkeypatch.setattr(scan, "whole_lines", lines_after)
    monkeypatch.setattr(scan.Thread, "join", join)
    shown = scrtune("study", *two)
    assert shown.exit_code == INTERRUPTED
    assert "interrupted: these are the results of what was read" in shown.stderr


def test_a_second_look_reads_nothing_again(
    scrtune: Scrtune, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_again(*_: object) -> None:
        raise OSError("it is read again")

    first = scrtune("study", *two, *TIERS).stdout
    monkeypatch.setattr(scan, "whole_lines", read_again)
    assert scrtune("study", *two, *TIERS).stdout == first
    assert "it is read again" in scrtune("study", *two, *TIERS, "--reread").stderr


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    """A file that names three runs of the study and what they had."""
    for name in ("base", "scr_bypass", "scr_pfs_one"):
        write_run(tmp_path / name, RUNS[name], 4)
    path = tmp_path / "study.toml"
    path.write_text(
        f'prefix = "{PREFIX}"\ncache = "{CACHE}"\n[runs.base]\ntraces = ["base"]\n'
        '[runs.scr_bypass]\ntraces = ["scr_bypass"]\n[runs.one]\ntraces = ["scr_pfs_one"]\n'
        'settings = { SCR_COPY_TYPE = "SINGLE", cores = 48, cores_per_rank = 1 }\n'
    )
    return path


def test_what_if_is_told_in_every_form(scrtune: Scrtune, study_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "study.html"
    shown = scrtune("study", study_file, "--what-if", "--html", page)
    assert shown.exit_code == 0
    table = " ".join(shown.stdout.split())
    assert "What if: the seconds of a checkpoint as predicted, the cheapest first" in table
    assert "Predicted for a job like scr_bypass" in table
    assert "measured: scr_bypass 24.19 s" in table
    assert "Which parameters matter" in table
    assert "How good it is: each run as predicted from all others" in table
    assert "Mean error: " in table
    found = json.loads(scrtune("study", study_file, "--what-if", "--format", "json").stdout)["what_if"]
    assert [row["rank"] for row in found["predictions"]] == [*range(1, len(found["predictions"]) + 1)]
    rows = list(
        csv.DictReader(scrtune("study", study_file, "--what-if", "--format", "csv").stdout.splitlines())
    )
    assert len(rows) == len(found["predictions"])
    for row, prediction in zip(rows, found["predictions"], strict=True):
        assert float(row["checkpoint_s_value"]) == prediction["checkpoint_s"]["value"]
        assert row["settings_SCR_CACHE_BYPASS"] == str(prediction["settings"]["SCR_CACHE_BYPASS"])
    text = page.read_text()
    assert "<h2>What if: the seconds of a checkpoint" in text
    assert "<script" not in text
    assert f"All {len(found['predictions'])} predictions" in text


def test_without_what_if_nothing_is_predicted(scrtune: Scrtune, two: tuple[str, str]) -> None:
    assert json.loads(scrtune("study", *two, *TIERS, "--format", "json").stdout)["what_if"] is None


@pytest.mark.parametrize(
    "arguments",
    [("--vary", "nodes=2,4"), ("--cache-rate", "10GiB/s"), ("--prefix-rate", "500MB/s")],
)
def test_what_to_predict_for_asks_for_predictions(
    scrtune: Scrtune, study_file: Path, arguments: tuple[str, str]
) -> None:
    assert "What if" in scrtune("study", study_file, *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--vary", "SCR_FLUSH"), "'SCR_FLUSH': write NAME=VALUE,VALUE"),
        (("--vary", "SCR_FLUSH=often"), "SCR_FLUSH"),
        (("--vary", "SCR_FLUHS=1"), "SCR_FLUHS"),
        (("--vary", "SCR_PREFIX_SIZE=3"), "--what-if: the model has no SCR_PREFIX_SIZE; it has"),
        (("--cache-rate", "fast"), "'fast' is not a rate: write 4GiB/s or 500MB/s"),
    ],
)
def test_what_cannot_be_predicted_is_a_usage_error(
    scrtune: Scrtune, study_file: Path, arguments: tuple[str, str], told: str
) -> None:
    shown = scrtune("study", study_file, *arguments)
    assert shown.exit_code == 2
    assert told in shown.stderr


def test_settings_that_are_none_are_a_usage_error(scrtune: Scrtune, study_file: Path) -> None:
    study_file.write_text(study_file.read_text().replace("cores = 48", "cores = -48"))
    shown = scrtune("study", study_file, "--what-if")
    assert shown.exit_code == 2
    assert "cores=-48: write a number above 0" in shown.stderr


def test_scr_config_beside_a_trace_says_what_a_run_had(scrtune: Scrtune, study_file: Path) -> None:
    beside = study_file.parent / "scr_pfs_one" / ".scrconf"
    beside.write_text("SCR_COPY_TYPE=PARTNER\nSCR_FILE_BUF_SIZE=64MB\nSCR_CACHE_BASE=/ssd\n")
    (study_file.parent / "other.conf").write_text("SCR_FLUSH=1\n")
    study_file.write_text(
        study_file.read_text().replace("[runs.one]", '[runs.one]\nconf = "other.conf"')
        + '[runs.two]\ntraces = ["scr_pfs_one"]\n'
    )
    found = json.loads(scrtune("study", study_file, "--format", "json").stdout)
    settings = {row["name"]: row["settings"] for row in found["runs"]}
    assert settings["two"] == {"SCR_COPY_TYPE": "PARTNER", "SCR_FILE_BUF_SIZE": str(64 * 1024**2)}
    one = {"SCR_FLUSH": "1", "SCR_COPY_TYPE": "SINGLE", "cores": "48", "cores_per_rank": "1"}
    assert settings["one"] == one, "what is said in the file of the study counts more"
    assert settings["base"] == {}
