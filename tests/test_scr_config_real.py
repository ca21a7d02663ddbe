"""The layers, compared with what a real SCR answers to its own query, `SCR_Config("NAME")`.

It runs where the programs of an SCR that was built with mpi4py's MPI are on $PATH, and is skipped elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.scr_config.parameters import CATALOGUE
from scrtune.scr_config.resolution import DEFAULT, LAYERS, resolve
from scrtune.scr_config.system_conf import system_conf_path

PROGRAM = shutil.which("scr_index")
LIBRARY = Path(PROGRAM).resolve().parent.parent / "lib" / "libscr.so" if PROGRAM else Path("libscr.so")

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(not LIBRARY.is_file(), reason="no SCR on $PATH: put its bin directory there"),
]

ASK = """
import ctypes, json, sys
from mpi4py import MPI
scr = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
scr.SCR_Config.restype = ctypes.c_char_p
asked = json.load(sys.stdin)
for name, text in asked["given"].items():
    scr.SCR_Config(f"{name}={text}".encode())
answers = {name: scr.SCR_Config(name.encode()) for name in asked["names"]}
print(json.dumps({name: text and text.decode() for name, text in answers.items()}))
"""

NAMES = [name for name, entry in CATALOGUE.items() if entry.layers == LAYERS and name != "SCR_PREFIX"]
TEXTS = [
    "0",
    "1",
    "2",
    "4MB",
    "1.5g",
    "ten",
    "XOR",
    "partner",
    "/a/b",
    "$TOP/x",
    "$T2/x",
    "a\\$b",
    "x#y",
    '"q"',
    "-1",
]
GIVEN = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS))


def real_answers(environment: dict[str, str], given: dict[str, str]) -> dict[str, str | None]:
    """What SCR says of every name, None where no layer has it."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("SCR")}
    libraries = f"{LIBRARY.parent}:{inherited.get('LD_LIBRARY_PATH', '')}"
    ran = subprocess.run(
        [sys.executable, "-c", ASK, str(LIBRARY)],
        input=json.dumps({"given": given, "names": NAMES}),
        env={**inherited, **environment, "LD_LIBRARY_PATH": libraries},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers: dict[str, str | None] = json.loads(ran.stdout.splitlines()[-1])
    return answers


@settings(deadline=None, max_examples=10)
@given(environment=GIVEN, in_file=GIVEN, given_by_program=GIVEN)
def test_every_parameter_has_the_text_that_a_real_scr_finds(
    environment: dict[str, str], in_file: dict[str, str], given_by_program: dict[str, str]
) -> None:
    system = system_conf_path()
    text = "# mine\n" + "".join(f" {name.lower()} = {value} # note\n" for name, value in in_file.items())
    with TemporaryDirectory() as prefix:
        (Path(prefix) / ".scrconf").write_text(text)
        variables = {"TOP": "/top", "T": "tee", "T2": "two", "SCR_PREFIX": prefix, **environment}
        answers = real_answers(variables, given_by_program)
    resolved = resolve(
        variables, text, dict(given_by_program), system.read_text() if system.is_file() else None
    )
    ours = {
        name: next((each.text for each in resolved.found.get(name, ()) if each.layer != DEFAULT), None)
        for name in NAMES
    }
    assert ours == answers
