"""`scrtune check` at the command line: what it reads, prints, and exits with; and its page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrtune.cli.main import main
from scrtune.cli.user_files import LARGEST_BYTES
from scrtune.scr_config.problems import Code, Finding

PAGE = (Path(__file__).parents[4] / "docs" / "check.md").read_text(encoding="utf-8")
_NOBODY = 65534
NAMES = re.compile(r"SCR_\w+|SLURM_\w+|STORE|CKPT|GROUPS")


@pytest.fixture(autouse=True)
def system_conf(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the SCR on $PATH looks for the system's config file; it is not there yet."""
    install = tmp_path_factory.mktemp("scr")
    (install / "bin").mkdir()
    (install / "etc").mkdir()
    (install / "bin" / "scr_index").write_text("#!/bin/sh\n")
    (install / "bin" / "scr_index").chmod(0o755)
    monkeypatch.setenv("PATH", str(install / "bin"))
    return install / "etc" / "scr.conf"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and an environment without anything of SCR's."""
    for name in [name for name in os.environ if NAMES.fullmatch(name)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["check", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SCR_CACHE_BYPASS=0\n", 0),
        ("SCR_FLUSH_WIDTH=4\n", 1),
        ("SCR_FLUSH=ten\nSCR_FLUSH_WIDTH=4\n", 2),
        ("", 0),
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "gcc"])
def test_exit_codes_in_every_form(here: Path, text: str, code: int, form: str) -> None:
    (here / "scr.conf").write_text(text)
    assert check("scr.conf", "--format", form).exit_code == code


def test_what_cannot_be_read_is_reported_in_one_line_with_the_remedy(here: Path) -> None:
    os.mkfifo(here / "fifo")
    (here / "large").write_bytes(b"#" * (LARGEST_BYTES + 1))
    for name in ("missing", ".", "fifo", "large"):
        result = check(name, "--format", "json")
        assert (result.exit_code, result.stdout) == (3, "")
        assert re.fullmatch(r"scrtune: .+; .+\n", result.stderr)


@pytest.fixture
def as_somebody(here: Path) -> Iterator[None]:
    """Root reads everything: be somebody else who may use the directory."""
    if (us := os.geteuid()) != 0:
        yield
        return
    here.chmod(0o755)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(us)


@pytest.mark.parametrize("arguments", [("secret",), ("scr.conf", "--system-conf", "secret")])
def test_a_file_without_permission_is_unreadable(
    here: Path, request: pytest.FixtureRequest, arguments: tuple[str, ...]
) -> None:
    (here / "scr.conf").write_text("")
    (here / "secret").write_text("")
    (here / "secret").chmod(0)
    request.getfixturevalue("as_somebody")
    result = check(*arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "scrtune: secret: Permission denied; name a file that can be read\n"


def scrtune_check(
    here: Path, output: Any, *options: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """A process of its own, whose standard output is `output`."""
    return subprocess.run(
        [sys.executable, "-m", "scrtune", "check", "scr.conf", "--format", "gcc", *options],
        cwd=here,
        env={**os.environ, **environment},
        stdout=output,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("text", ["SCR_FLUSH_WIDTH=4\n", "SCR_FLUSH=ten\n"])
def test_findings_that_cannot_be_written_are_no_warnings(here: Path, text: str) -> None:
    (here / "scr.conf").write_text(text)
    with Path("/dev/full").open("w") as full:
        ran = scrtune_check(here, full)
    assert ran.returncode == 3
    assert re.fullmatch(r"scrtune: what was found cannot be printed: No space left .+; .+\n", ran.stderr)


def test_findings_that_the_terminal_has_no_letters_for_are_reported_so(here: Path) -> None:
    (here / "scr.conf").write_text("SCR_ŁUK=1\n", encoding="utf-8")
    ran = scrtune_check(here, subprocess.PIPE, PYTHONIOENCODING="latin-1")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert re.fullmatch(r"scrtune: what was found cannot be printed: latin-1 has .+; .+\n", ran.stderr)


@pytest.mark.parametrize("form", ["table", "gcc", "json"])
def test_a_locale_that_nobody_set_up_costs_nothing(here: Path, form: str) -> None:
    (here / "scr.conf").write_text("SCR_ŁUK=1\n", encoding="utf-8")
    ran = scrtune_check(here, subprocess.PIPE, "--format", form, PYTHONIOENCODING="ascii")
    assert (ran.returncode, "SCR_ŁUK" in ran.stdout, ran.stderr) == (1, True, "")


def test_a_reader_that_has_seen_enough_changes_no_exit_code(here: Path) -> None:
    (here / "scr.conf").write_text("SCR_FLUSH_WIDTH=4\n")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = scrtune_check(here, writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_without_a_file_it_reads_what_scr_would_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check().exit_code == 3
    assert check("--env").exit_code == 0
    (here / ".scrconf").write_text("SCR_FLUSH=1\nSCR_FLUSH=2\n")
    assert ".scrconf:2:1: error:" in check("--format", "gcc").stdout
    (here / "mine.conf").write_text("SCR_DEBUG\n")
    monkeypatch.setenv("SCR_CONF_FILE", str(here / "mine.conf"))
    assert "mine.conf:1:1: error:" in check("--format", "gcc").stdout
    monkeypatch.setenv("SCR_CONF_FILE", str(here / "gone.conf"))
    assert check("--env").exit_code == 3


def test_json_is_a_list_of_findings_and_gcc_a_line_for_each(here: Path) -> None:
    (here / "scr.conf").write_text("SCR_CACHE_BYPASS=0\nSCR_FLUSH=ten\nSCR_FLUSH_WIDTH=4\n")
    findings = msgspec.json.decode(check("scr.conf", "--format", "json").stdout, type=list[Finding])
    assert [(one.line, one.column, one.severity, one.code) for one in findings] == [
        (2, 11, "error", "bad-value"),
        (3, 1, "warning", "inert"),
    ]
    (first, *_) = msgspec.json.decode(check("scr.conf", "--format", "json").stdout)
    assert sorted(first) == ["code", "column", "file", "line", "message", "remedy", "severity"]
    lines = check("scr.conf", "--format", "gcc").stdout.splitlines()
    assert lines == [one.gcc for one in findings]
    assert re.match(r"scr\.conf:2:11: error: SCR_FLUSH: .+; .+ \[bad-value\]$", lines[0])
    (here / "clean.conf").write_text("")
    assert check("clean.conf", "--format", "json").stdout == "[]\n"
    assert check("clean.conf", "--format", "gcc").stdout == ""


def test_the_environment_is_read_when_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "scr.conf").write_text("SCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\n")
    monkeypatch.setenv("SCR_CACHE_BYPASS", "0")
    monkeypatch.setenv("GROUPS", "1000")
    assert check("scr.conf").exit_code == 1
    shown = check("scr.conf", "--env", "--format", "gcc")
    assert shown.stdout.splitlines() == [
        line for line in shown.stdout.splitlines() if "[descriptor-in-environment]" in line
    ]
    assert shown.stdout.startswith("<environment>:0:0: error: GROUPS: ")
    assert shown.exit_code == 2


def test_the_nodes_come_from_the_option_the_script_or_the_allocation(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "scr.conf").write_text("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=XOR\n")
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 1\n")
    assert check("scr.conf").exit_code == 0
    assert "single-node" in check("scr.conf", "--nodes", "1").stdout
    assert "single-node" in check("job.sh", "scr.conf").stdout
    assert check("job.sh", "scr.conf", "--nodes", "2").exit_code == 0
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert "single-node" in check("--env", "scr.conf").stdout


@pytest.mark.parametrize("name", ["job.fish", "job.sh"])
def test_a_script_that_is_not_read_is_reported(here: Path, name: str) -> None:
    (here / name).write_text("#!/usr/bin/fish\nexport SCR_FLUSH=ten\n")
    result = check(name, "--format", "gcc")
    assert re.fullmatch(rf"{name}:1:1: warning: not read: fish\. .+ \[not-read\]\n", result.stdout)


@pytest.mark.parametrize("where", ["jobs", "."])
def test_the_config_file_that_a_script_names_is_checked_with_it(here: Path, where: str) -> None:
    (here / "jobs").mkdir()
    (here / "jobs" / "job.sh").write_text("export SCR_CONF_FILE=my.conf\nexport SCR_CACHE_BYPASS=0\n")
    assert check("jobs/job.sh").stdout.count("no-config-file") == 1, "it is not there"
    (here / where / "my.conf").write_text("SCR_FLUSH=ten\n")
    result = check("jobs/job.sh", "--format", "gcc")
    assert result.exit_code == 2
    assert result.stdout.startswith(f"{Path(where) / 'my.conf'}:1:11: error: SCR_FLUSH: ")
    assert result.stderr == (
        f"scrtune: jobs/job.sh names {Path(where) / 'my.conf'}, which is checked with it\n"
    )
    given = check("jobs/job.sh", f"{where}/my.conf", "--format", "gcc")
    assert (len(given.stdout.splitlines()), given.stderr) == (1, "")
    (here / where / "my.conf").unlink()
    (here / where / "my.conf").mkdir()
    assert "is left out: " in check("jobs/job.sh").stderr


def test_the_cache_of_this_node_is_measured(here: Path) -> None:
    free_bytes = os.statvfs(here).f_bavail * os.statvfs(here).f_frsize
    (here / "scr.conf").write_text(f"SCR_CACHE_BYPASS=0\nSCR_CACHE_BASE={here}\nSCR_COPY_TYPE=SINGLE\n")
    small = check("scr.conf", "--nodes", "4", "--checkpoint-size", "1k")
    assert small.exit_code == 0
    large = check("scr.conf", "--nodes", "4", "--checkpoint-size", f"{8 * free_bytes}", "--format", "gcc")
    assert "scr.conf:2:" in large.stdout
    assert "[cache-too-small]" in large.stdout
    (here / "scr.conf").write_text("SCR_CACHE_BYPASS=0\nSCR_CACHE_BASE=/no/such/place\n")
    unknown = check("scr.conf", "--nodes", "4", "--checkpoint-size", "1k")
    assert (unknown.exit_code, "/no/such/place: not on this node" in unknown.stderr) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--checkpoint-size", "lots", "--nodes", "2"),
        ("--checkpoint-size", "1g"),
        ("--nodes", "0"),
        ("--scr-version", "new"),
        ("--format", "xml"),
    ],
)
def test_a_wrong_command_line_is_reported(here: Path, arguments: tuple[str, ...]) -> None:
    (here / "scr.conf").write_text("")
    result = check("scr.conf", *arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_the_version_decides_what_is_inert(here: Path) -> None:
    (here / "scr.conf").write_text("SCR_FLUSH_WIDTH=4\n")
    assert check("scr.conf", "--scr-version", "2.0.0").exit_code == 0
    assert check("scr.conf", "--scr-version", "v3.0").exit_code == 1


def test_the_systems_file_that_is_there_counts_and_is_named(here: Path, system_conf: Path) -> None:
    (here / "scr.conf").write_text("SCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\n")
    assert "async-bypass" in check("scr.conf").stdout
    system_conf.write_text("SCR_CACHE_BYPASS=0\n")
    said = f"scrtune: SCR's system config file counts beneath: {system_conf}\n"
    result = check("scr.conf")
    assert (result.exit_code, result.stdout) == (0, f"scrtune: nothing found\n{said}")
    for form, nothing in (("json", "[]\n"), ("gcc", "")):
        result = check("scr.conf", "--format", form)
        assert (result.stdout, result.stderr) == (nothing, said)


def test_another_systems_file_can_be_named(here: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_DEBUG\n")
    (here / "scr.conf").write_text("SCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\n")
    (here / "site.conf").write_text("SCR_CACHE_BYPASS=0\nSCR_FLUSH=ten\n")
    assert check("scr.conf").exit_code == 2
    result = check("scr.conf", "--system-conf", "site.conf", "--format", "gcc")
    assert re.fullmatch(r"site\.conf:2:11: error: SCR_FLUSH: .+\[bad-value\]\n", result.stdout)


def test_a_systems_file_can_be_checked_by_itself(here: Path) -> None:
    (here / "site.conf").write_text("SCR_FLUSH_WIDTH=4\n")
    assert check().exit_code == 3
    result = check("--system-conf", "site.conf", "--format", "gcc")
    assert result.stdout.startswith("site.conf:1:1: warning: SCR_FLUSH_WIDTH: ")
    assert check("--system-conf", "gone.conf").exit_code == 3


def test_a_systems_file_that_nobody_named_may_be_unreadable(here: Path, system_conf: Path) -> None:
    (here / "scr.conf").write_text("SCR_CACHE_BYPASS=0\n")
    system_conf.mkdir()
    result = check("scr.conf")
    assert (result.exit_code, result.stdout) == (0, "scrtune: nothing found\n")
    assert f"system config file is left out: {system_conf}: is no regular file" in result.stderr
    assert check("scr.conf", "--system-conf", system_conf).exit_code == 3


def test_the_systems_file_is_not_beneath_itself(here: Path, system_conf: Path) -> None:
    system_conf.write_text("SCR_FLUSH_WIDTH=4\n")
    (here / "link.conf").symlink_to(system_conf)
    result = check("link.conf", "--format", "gcc")
    assert (len(result.stdout.splitlines()), result.stderr) == (1, "")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), form=st.sampled_from(["table", "json", "gcc"]))
def test_any_bytes_give_output_and_one_of_the_exit_codes(here: Path, data: bytes, form: str) -> None:
    (here / "any").write_bytes(data)
    result = check("any", "--format", form)
    assert result.exit_code in (0, 1, 2)
    if form == "json":
        assert bool(msgspec.json.decode(result.stdout, type=list[Finding])) == bool(result.exit_code)


def test_the_page_has_every_code_that_there_is() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (?:error|warning)", PAGE, re.MULTILINE)
    assert rows == [code for code in Code if code not in (Code.NOT_FOR_A_FILE, Code.SYSTEM_CONFIG)]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("nosuch.conf", "is not there: without it SCR runs with its defaults"),
        ("$D/x", "is known to the script alone"),
    ],
)
def test_a_config_file_that_a_job_script_names_and_that_is_not_there_is_named(
    here: Path, named: str, why: str
) -> None:
    (here / "job.sh").write_text(f"#!/bin/bash\nexport SCR_CONF_FILE={named}\nsrun ./app\n")
    found = check("job.sh", "--format", "gcc")
    assert found.exit_code == 1
    assert f"job.sh:2:22: warning: SCR_CONF_FILE: {named} {why}; nothing" in found.stdout
    assert "[no-config-file]" in found.stdout
    (here / "other.conf").write_text("")
    assert check("job.sh", "other.conf", "--format", "gcc").stdout == ""
    (here / "nosuch.conf").write_text("")
    assert ("no-config-file" in check("job.sh", "--format", "gcc").stdout) == (named != "nosuch.conf")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("app.py", "not read: python, which is no shell script and no config file."),
        ("app.c", "not read: this is neither a config file of SCR's nor a job script"),
    ],
)
def test_what_is_no_config_file_and_no_job_script_has_one_finding(here: Path, name: str, what: str) -> None:
    lines = ["import sys", "from mpi4py import MPI", "x = MPI", "while x:", "    x.step()", "    SCR_Init();"]
    (here / name).write_text("\n".join(lines))
    found = check(name, "--format", "gcc")
    assert found.exit_code == 1
    (line,) = found.stdout.splitlines()
    assert what in line
    assert line.endswith("[not-read]")
