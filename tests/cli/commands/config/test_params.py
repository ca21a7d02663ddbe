"""`scrtune params` and `scrtune env --resolved`: what is known of SCR's parameters, and what stands here."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scrtune.cli import main as cli
from scrtune.cli.commands.config.params import INTENTS
from scrtune.cli.tables.catalogue_page import catalogue_page
from scrtune.intents.rules.situation import Intents
from scrtune.scr_config.catalogue import CATALOGUE, DESCRIPTOR_LINES

PAGE = Path(__file__).parents[4] / "docs" / "parameters.md"

Scrtune = Callable[..., Result]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of this test alone, in an environment without a word on SCR, and without an SCR."""
    for name in os.environ.copy():
        if name in CATALOGUE or name in DESCRIPTOR_LINES or name.startswith("SCR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scrtune() -> Scrtune:
    return lambda *arguments: CliRunner().invoke(cli.main, [str(each) for each in arguments])


def objects(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def resolved(scrtune: Scrtune, *arguments: Any) -> tuple[dict[str, Any], Any]:
    """The parameters that `scrtune env --resolved` tells of, by name, and all that it tells."""
    view = objects(scrtune("env", "--resolved", "--format", "json", *arguments))
    return {each["name"]: each for each in view["parameters"]}, view


# --- the catalogue


def test_the_page_is_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalogue_page(), (
        "scrtune params --format markdown > docs/parameters.md"
    )


def test_the_page_is_what_the_command_prints(scrtune: Scrtune) -> None:
    assert scrtune("params", "--format", "markdown").stdout == catalogue_page()


def test_every_row_of_the_page_has_as_many_cells_as_its_table() -> None:
    rows = [line.replace("\\|", "") for line in catalogue_page().splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {10, 6}
    names = {row.split("`")[1] for row in rows if row.count("|") == 10 and "`" in row}
    assert names == CATALOGUE.keys()


def test_the_table_has_them_all(scrtune: Scrtune) -> None:
    shown = scrtune("params")
    assert shown.exit_code == 0
    first_words = {line.split(" ")[0] for line in shown.stdout.splitlines()}
    assert first_words >= CATALOGUE.keys() | DESCRIPTOR_LINES.keys()


def test_json_is_a_list_of_objects(scrtune: Scrtune) -> None:
    listed = {each["name"]: each for each in objects(scrtune("params", "--format", "json"))}
    assert listed.keys() == CATALOGUE.keys() | DESCRIPTOR_LINES.keys()
    width = listed["SCR_FLUSH_WIDTH"]
    assert (width["default"], width["status"], width["until"]) == (256, "inert", "2.0")
    assert (width["mutability"], width["source"]) == ("none", "src/scr.c:1066")
    buffer = listed["SCR_FILE_BUF_SIZE"]
    assert (buffer["default"], buffer["documented_default"]) == (33554432, 1048576)
    assert [key["name"] for key in listed["STORE"]["keys"]][:2] == ["COUNT", "ENABLED"]


def test_one_by_its_name_has_all_there_is(scrtune: Scrtune) -> None:
    told = " ".join(scrtune("params", "SCR_MPI_BUF_SIZE").stdout.split())
    for fact in (
        "1 MiB; the manual says 128 KiB (src/scr_conf.h:146)",
        "SCR_Init (src/scr.c:993)",
        "live: ER_Config",
        "must be equal on all ranks",
        "intents buffer sizes",
        "2 GiB or more crashes SCR_Init",
    ):
        assert fact in told


def test_a_descriptor_line_by_its_name_has_its_keys(scrtune: Scrtune) -> None:
    told = " ".join(scrtune("params", "ckpt").stdout.split())
    assert "SCR_COPY_TYPE=FILE" in told
    assert "SET_SIZE int SCR_SET_SIZE 1.1 on Members of an XOR or RS set, at least. Changes nothing." in told
    assert objects(scrtune("params", "GROUPS", "--format", "json"))[0]["open_keys"] is True


@pytest.mark.parametrize("mutability", ["live", "re-init", "launch", "none"])
def test_only_those_of_a_class(scrtune: Scrtune, mutability: str) -> None:
    listed = objects(scrtune("params", "--class", mutability, "--format", "json"))
    assert listed
    assert {each["mutability"] for each in listed} == {mutability}


def test_only_those_that_an_intent_may_set(scrtune: Scrtune) -> None:
    listed = objects(scrtune("params", "--intent", "Buffer Sizes", "--format", "json"))
    assert [each["name"] for each in listed] == ["SCR_FILE_BUF_SIZE", "SCR_MPI_BUF_SIZE"]
    both = objects(
        scrtune("params", "--intent", "redundancy scheme", "--class", "re-init", "--format", "json")
    )
    assert [each["name"] for each in both] == ["SCR_COPY_TYPE"]
    assert set(INTENTS) <= Intents().named().keys()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["SCR_FLUHS"], "no parameter SCR_FLUHS; did you mean SCR_FLUSH"),
        (["flush_type"], "did you mean SCR_FLUSH_TYPE"),
        (["zzz"], "`scrtune params` shows all there are"),
        (["--class", "never"], "'never' is not one of"),
        (["--intent", "none"], "'none' is not one of"),
        (["SCR_FLUSH", "--class", "live"], "NAME stands alone"),
        (["SCR_FLUSH", "--format", "markdown"], "the page of the whole catalogue"),
        (["SCR_FLUSH", "SCR_DEBUG"], "unexpected extra argument"),
    ],
)
def test_what_cannot_be_shown_is_exit_code_2(scrtune: Scrtune, arguments: list[str], text: str) -> None:
    ran = scrtune("params", *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert text in ran.stderr


# --- what stands here


def test_with_nothing_said_the_compiled_defaults_stand(scrtune: Scrtune) -> None:
    parameters, view = resolved(scrtune)
    assert parameters.keys() == CATALOGUE.keys()
    assert {each["layer"] for each in parameters.values()} == {"default"}
    flush, prefix = parameters["SCR_FLUSH"], parameters["SCR_PREFIX"]
    assert (flush["value"], flush["file"], flush["shadows"]) == (10, "src/scr_conf.h:196", [])
    assert (prefix["value"], prefix["default"]) == (None, "the working directory")
    assert [each["found"] for each in view["files"]] == [False, False, False]
    assert (view["lines"], view["problems"]) == ([], [])


def test_each_value_comes_with_its_place_and_what_it_shadows(
    scrtune: Scrtune, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = here / "out"
    (prefix / ".scr").mkdir(parents=True)
    (prefix / ".scrconf").write_text("# mine\nSCR_FLUSH=2\nSCR_DEBUG = 1\n")
    (prefix / ".scr" / "app.conf").write_text("SCR_FLUSH=3\nSCR_CACHE_SIZE=3\n")
    (here / "site.conf").write_text("SCR_FLUSH=4\nSCR_SET_SIZE=4\n")
    monkeypatch.setenv("SCR_PREFIX", "out")
    monkeypatch.setenv("SCR_FLUSH", "1")
    parameters, view = resolved(scrtune, "--system-conf", here / "site.conf")
    assert [each["path"] for each in view["files"]] == [
        str(prefix / ".scrconf"),
        str(prefix / ".scr" / "app.conf"),
        str(here / "site.conf"),
    ]
    flush = parameters["SCR_FLUSH"]
    assert (flush["value"], flush["layer"], flush["line"]) == (1, "environment", 0)
    assert [(each["layer"], each["value"]) for each in flush["shadows"]] == [
        ("user config", 2),
        ("SCR_Config", 3),
        ("system config", 4),
        ("default", 10),
    ]
    debug = parameters["SCR_DEBUG"]
    assert [debug[key] for key in ("value", "layer", "file", "line", "column")] == [
        1,
        "user config",
        str(prefix / ".scrconf"),
        3,
        13,
    ]
    assert [parameters[name]["layer"] for name in ("SCR_CACHE_SIZE", "SCR_SET_SIZE")] == [
        "SCR_Config",
        "system config",
    ]


def test_the_table_says_the_same_for_people(scrtune: Scrtune, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("u").write_text("SCR_FLUSH=2\nSCR_DEBUG=ten\nCKPT=0 TYPE=XOR\n")
    monkeypatch.setenv("SCR_FLUSH", "1")
    shown = scrtune("env", "--resolved", "--conf", "u")
    assert shown.exit_code == 0
    told = " ".join(shown.stdout.split())
    assert "SCR_FLUSH 1 environment 2 (user config u:1:11) 10 (default)" in told
    assert "SCR_COPY_TYPE XOR default src/scr_conf.h:117" in told
    assert "CKPT 0 TYPE=XOR user config u:3:6" in told
    assert "user config: line 2, column 11: error: SCR_DEBUG: 'ten' is no value for it: SCR reads" in told


def test_descriptor_lines_say_which_are_in_force(scrtune: Scrtune) -> None:
    Path("u").write_text("CKPT=0 INTERVAL=1 TYPE=XOR\n")
    Path("s").write_text("CKPT=0 TYPE=RS\nSTORE=/ssd COUNT=2\n")
    _, view = resolved(scrtune, "--conf", "u", "--system-conf", "s")
    assert [(each["name"], each["text"], each["layer"], each["in_force"]) for each in view["lines"]] == [
        ("STORE", "/ssd COUNT=2", "system config", True),
        ("CKPT", "0 INTERVAL=1 TYPE=XOR", "user config", True),
        ("CKPT", "0 TYPE=RS", "system config", False),
    ]


def test_the_system_file_of_the_scr_on_the_path_is_read(scrtune: Scrtune, here: Path) -> None:
    (here / "bin").mkdir()
    (here / "bin" / "scr_index").write_text("#!/bin/sh\n")
    (here / "bin" / "scr_index").chmod(0o755)
    (here / "etc").mkdir()
    (here / "etc" / "scr.conf").write_text("SCR_LOG_ENABLE=1\n")
    parameters, _ = resolved(scrtune)
    assert parameters["SCR_LOG_ENABLE"]["file"] == str(here / "etc" / "scr.conf")


def test_a_password_is_shown_nowhere(scrtune: Scrtune, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("u").write_text("SCR_LOG_DB_PASS=hush2\n")
    monkeypatch.setenv("SCR_LOG_DB_PASS", "hush1")
    for form in ([], ["--format", "json"]):
        shown = scrtune("env", "--resolved", "--conf", "u", *form)
        assert "(not shown)" in shown.stdout
        assert "hush" not in shown.stdout + shown.stderr


def test_bytes_that_are_no_text_are_shown_as_such(scrtune: Scrtune, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("u").write_bytes(b"SCR_GROUP=n\xe4\nSCR_\xff=1\n\xff\xfe\0\n")
    monkeypatch.setenv("SCR_JOB_NAME", "a\udce4")
    parameters, view = resolved(scrtune, "--conf", "u")
    assert (parameters["SCR_GROUP"]["value"], parameters["SCR_JOB_NAME"]["value"]) == ("n\ufffd", "a\ufffd")
    assert len(view["problems"]) == 2
    assert scrtune("env", "--resolved", "--conf", "u").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--conf", "u"], "--conf and --system-conf are for --resolved"),
        (["--resolved", "--format", "csh"], "a table, or JSON with --format json"),
    ],
)
def test_what_cannot_be_resolved_is_exit_code_2(scrtune: Scrtune, arguments: list[str], text: str) -> None:
    Path("u").touch()
    ran = scrtune("env", *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert text in ran.stderr


@pytest.mark.parametrize("option", ["--conf", "--system-conf"])
@pytest.mark.parametrize(
    ("name", "why"),
    [("nowhere", "No such file or directory"), (".", "is no regular file"), ("fifo", "is no regular file")],
)
def test_a_file_that_was_named_and_cannot_be_read_is_exit_code_1(
    scrtune: Scrtune, option: str, name: str, why: str
) -> None:
    os.mkfifo("fifo")
    ran = scrtune("env", "--resolved", option, name)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"scrtune: {name}: {why}; name a ")


def test_a_file_that_nobody_named_and_nobody_may_read_is_reported_with_the_remedy(
    scrtune: Scrtune, here: Path
) -> None:
    (here / ".scrconf").touch(mode=0)
    us = os.geteuid()
    if us == 0:  # root reads everything: be somebody else
        here.chmod(0o755)
        os.seteuid(65534)
    try:
        ran = scrtune("env", "--resolved")
    finally:
        os.seteuid(us)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == f"scrtune: {here / '.scrconf'}: Permission denied; name a file that can be read\n"


def test_what_scr_makes_of_a_text_that_is_no_value_is_shown(scrtune: Scrtune) -> None:
    Path("u").write_text("SCR_FLUSH=ten\nSCR_DEBUG=1\n")
    parameters, _ = resolved(scrtune, "--conf", "u")
    flush = parameters["SCR_FLUSH"]
    assert (flush["value"], flush["in_scr"]) == (10, "SCR reads it as 0")
    assert (flush["wrong"]["value"], flush["wrong"]["line"]) == ("ten", 1)
    assert (parameters["SCR_DEBUG"]["wrong"], parameters["SCR_DEBUG"]["in_scr"]) == (None, "")
    told = " ".join(scrtune("env", "--resolved", "--conf", "u").stdout.split())
    assert "SCR_FLUSH 10 default src/scr_conf.h:196 'ten': SCR reads it as 0 SCR_FLUSH_ASYNC" in told


def test_no_job_is_made_or_asked(scrtune: Scrtune, here: Path) -> None:
    assert scrtune("env", "--resolved").exit_code == 0
    assert not (here / "runs").exists()
