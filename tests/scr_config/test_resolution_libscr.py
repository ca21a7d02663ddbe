"""Where a real libscr is found: its own query says of files and environment what our `resolve` says.

SCR_Config("NAME") gives the text that the highest layer has, and nothing for a compiled default. So texts are
compared, before anybody makes numbers of them.
"""

import ctypes.util
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from scrtune.scr_config.catalogue import CATALOGUE, text_of
from scrtune.scr_config.locations import system_conf_path, user_conf_path
from scrtune.scr_config.render import rendered_config
from scrtune.scr_config.resolution import expand, resolve

from .test_render import FILE_TEXT, names_of_a_file, settings_with, values_of

QUERY = Path(__file__).parents[1] / "apps" / "libscr_query.py"
# each example starts a process, for SCR reads its files once in each
REAL = hypothesis.settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
VARIABLES = {"HOME_OF_A": "/home/a", "EMPTY": "", "Blank": "with a blank", "A_1": "one", "A_": "under"}
NAMES = [name for name, each in CATALOGUE.items() if not each.is_lever and name != "SCR_CONF_FILE"]
"""What is asked for. SCR_CONF_FILE says where the file is that the case is about."""


def candidates() -> Iterator[Path]:
    """Where a libscr may be: $SCR_ROOT, what the loader finds, the usual places."""
    roots = [os.environ["SCR_ROOT"]] if os.environ.get("SCR_ROOT") else []
    for root in (*roots, "/usr/local", "/opt/scr"):
        yield from (Path(root) / directory / "libscr.so" for directory in ("lib", "lib64"))
    directories = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    yield from (Path(directory) / "libscr.so" for directory in directories if directory)
    if name := ctypes.util.find_library("scr"):
        yield Path(name)


@functools.cache
def libscr() -> Path:
    """The libscr to ask; skips the test, and says why, when there is none that can be loaded."""
    places = list(candidates())
    library = next((place for place in places if place.is_file() or not place.is_absolute()), None)
    if library is None:
        pytest.skip("no libscr.so that this process can use; set SCR_ROOT to an installed SCR")
    ran = ask(library, Case(), Path.cwd(), ["SCR_FLUSH"])
    if ran.returncode:
        pytest.skip(f"{library} cannot be asked: {ran.stderr.strip()[-300:]}")
    return library


@dataclass(frozen=True)
class Case:
    """What SCR finds: the environment, the text of the user's file, what was given to SCR_Config."""

    environment: Mapping[str, str] = field(default_factory=dict)
    user_conf: str | None = None
    programmatic: Mapping[str, str] = field(default_factory=dict)


def ask(library: Path, case: Case, cwd: Path, names: list[str]) -> "subprocess.CompletedProcess[str]":
    """Start a process that asks `library` about `case`."""
    paths = [str(library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    started_with = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": ":".join(path for path in paths if path not in ("", ".")),
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    return subprocess.run(
        [sys.executable, str(QUERY), str(library)],
        input=json.dumps({"programmatic": dict(case.programmatic), "names": names}),
        env={**started_with, **case.environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        errors="surrogateescape",
    )


def what_scr_says(case: Case, cwd: Path, names: list[str]) -> dict[str, str | None]:
    ran = ask(libscr(), case, cwd, names)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("answers: ")]
    assert lines, f"SCR did not answer ({ran.returncode}): {ran.stderr}"
    answers: dict[str, str | None] = json.loads(lines[-1].removeprefix("answers: "))
    return answers


def what_we_say(case: Case, names: list[str]) -> dict[str, str | None]:
    """The text of the highest layer that has the parameter, whether it is a value of it or not.

    SCR's query expands variables once more than SCR_Init does, but for the environment's: scr_param_get_hash,
    which it calls first, puts the expanded text in the place of the other (scr_param.c:247).
    """
    system_conf = system_conf_path(str(libscr().parent.parent / "bin"))
    resolved = resolve(
        case.environment,
        case.user_conf,
        case.programmatic,
        system_conf.read_text() if system_conf.is_file() else None,
    )
    stacks = {name: resolved.found.get(name, ()) for name in names}
    told = {
        name: each.text if each.layer == "environment" else expand(each.text, case.environment)
        for name, stack in stacks.items()
        for each in stack[:1]
        if each.layer != "default"
    }
    return {name: told.get(name) for name in names}


def in_a_file(directory: Path, case: Case) -> Case:
    """The case with its text in a file that SCR_CONF_FILE names."""
    if case.user_conf is None:
        return case
    path = directory / "scr.conf"
    path.write_bytes(os.fsencode(case.user_conf))
    return Case({**case.environment, "SCR_CONF_FILE": str(path)}, case.user_conf, case.programmatic)


def texts_in(layer: str, texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    """Texts for any of the parameters that SCR looks for in `layer`."""
    names = [name for name in NAMES if layer in CATALOGUE[name].layers]
    return st.dictionaries(st.sampled_from(names), texts, max_size=12)


VALID = st.sampled_from(NAMES).flatmap(lambda name: values_of(CATALOGUE[name], FILE_TEXT)).map(text_of)
PIECES = ["a", "B", "9", "/", ".", "_", "#", "'", '"', "é", "\udce4", "-", ",", ":", "{", "}", "~", "%"]
VARIABLE_PIECES = ["${HOME_OF_A}", "${EMPTY}", "${A_1}", "$HOME_OF_A", "$A_1", "$NOT_SET", "${NOT_SET}", "$"]
FILE_PIECES = ["$A_1", "$HOME_OF_A/", "$EMPTY.", "$Blank-", "\\\\", "\\x", "\\$A_1", "\\t"]


def made_of(pieces: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), min_size=1, max_size=8).map("".join)


IN_THE_ENVIRONMENT = VALID | made_of([*PIECES, *VARIABLE_PIECES, " ", "=", "\n", "\\"]) | st.just("")
IN_A_FILE = VALID | made_of([*PIECES, *FILE_PIECES])
IN_SCR_CONFIG = VALID | made_of([*PIECES, *VARIABLE_PIECES])


@st.composite
def user_files(draw: st.DrawFn) -> str:
    """Files as people write them; nothing on which SCR crashes or hangs."""
    lines = []
    for name, text in draw(texts_in("user config", IN_A_FILE)).items():
        key = draw(st.sampled_from([name, name.lower(), name.title()]))
        equals = draw(st.sampled_from(["=", " = ", "\t=", "=  "]))
        tail = draw(st.sampled_from(["", " ", " # a comment", "\t#", " SCR_CHILD=1"]))
        lines += [
            *draw(st.lists(st.sampled_from(["", "# SCR_FLUSH=1", "  ", "CKPT=0 TYPE=XOR"]), max_size=2))
        ]
        lines.append(f"{draw(st.sampled_from(['', '  ', chr(9)]))}{key}{equals}{text}{tail}")
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


CASES = st.builds(
    Case,
    environment=texts_in("environment", IN_THE_ENVIRONMENT).map(lambda texts: {**VARIABLES, **texts}),
    user_conf=st.none() | user_files(),
    programmatic=texts_in("SCR_Config", IN_SCR_CONFIG),
)


@REAL
@given(case=CASES)
def test_scr_and_we_find_the_same_text_for_every_parameter(tmp_path: Path, case: Case) -> None:
    case = in_a_file(tmp_path, case)
    assert what_scr_says(case, tmp_path, NAMES) == what_we_say(case, NAMES)


@REAL
@given(settings=settings_with(FILE_TEXT))
def test_scr_reads_what_we_render(tmp_path: Path, settings: dict[str, int | float | str]) -> None:
    case = in_a_file(tmp_path, Case({}, rendered_config(settings, "rendered by scrtune")))
    names = [name for name in NAMES if "user config" in CATALOGUE[name].layers]
    expected = {name: text_of(settings[name]) for name in names_of_a_file(settings) if name in names}
    said = what_scr_says(case, tmp_path, names)
    assert {name: said[name] for name in expected} == expected
    assert said == what_we_say(case, names), "and what the file does not say is what the system's says"


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({}, ".scrconf"),
        ({"SCR_PREFIX": "{base}/prefix"}, "prefix/.scrconf"),
        ({"SCR_PREFIX": "$BASE/prefix"}, "prefix/.scrconf"),
        ({"SCR_PREFIX": "prefix"}, "prefix/.scrconf"),
        ({"SCR_CONF_FILE": "{base}/my.conf", "SCR_PREFIX": "{base}/prefix"}, "my.conf"),
        ({"SCR_CONF_FILE": "my.conf"}, "my.conf"),
        ({"SCR_CONF_FILE": "${{BASE}}/my.conf"}, "my.conf"),
    ],
)
def test_scr_and_we_look_for_the_users_file_in_the_same_place(
    tmp_path: Path, environment: dict[str, str], where: str
) -> None:
    (tmp_path / "prefix").mkdir()
    for number, name in enumerate((".scrconf", "prefix/.scrconf", "my.conf")):
        (tmp_path / name).write_text(f"SCR_FLUSH={number}\n")
    case = Case({"BASE": str(tmp_path), **{k: v.format(base=tmp_path) for k, v in environment.items()}})
    path = user_conf_path(case.environment, tmp_path)
    assert path.resolve() == tmp_path / where
    assert what_scr_says(case, tmp_path, ["SCR_FLUSH"])["SCR_FLUSH"] == path.read_text()[len("SCR_FLUSH=")]
