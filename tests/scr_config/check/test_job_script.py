"""What a job script gives its application, read without running it."""

import os
import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.scr_config.check.job_script import assignments, is_job_script, nodes_asked_for, other_language


def values(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in assignments(text) if entry.exported}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export A=1 B=2", {"A": "1", "B": "2"}),
        ("declare -x A=1", {"A": "1"}),
        ("declare A=1; typeset B=2", {}),
        ("declare -i A=1\ndeclare -x A", {"A": "1"}),
        ("typeset -ix A=1", {"A": "1"}),
        ("A=1\nexport -n A", {}),
        ("A=1 B=2 srun ./app", {"A": "1", "B": "2"}),
        ("env A=1 ./app", {"A": "1"}),
        ("if x; then export A=1; else export A=2; fi", {"A": "2"}),
        ("export A=1 \\\n  B=2", {"A": "1", "B": "2"}),
        ("A=1\nexport A", {"A": "1"}),
        ("export A\nA=1", {"A": "1"}),
        ("A=1", {}),
        ("# export A=1", {}),
        ("# don't\nexport A=1", {"A": "1"}),
        ("export A=1 # not 2", {"A": "1"}),
        ("export A=1#2", {"A": "1#2"}),
        ("echo 'export A=1'", {}),
        ('echo "\nexport A=1\n"', {}),
        ("cat <<EOF\nexport A=1\nEOF\nexport B=2", {"B": "2"}),
        ("cat <<-'END' >x\n\texport A=1\n\tEND\nexport B=2", {"B": "2"}),
        ("cat <<<EOF\nexport B=2", {"B": "2"}),
        ("x=$((1<<y))\nexport B=2", {"B": "2"}),
        ('export A=a\\ b\'c d\'"e\\"f"', {"A": 'a bc de"f'}),
        ("export A=$B", {"A": "$"}),
        ("export A='$B'", {"A": "$B"}),
        ("export A=`date`", {"A": "$"}),
        ("export A=$(date +%s) B=1", {"A": "$"}),
        ("export A=", {"A": ""}),
        ("function f { export A=1; }", {"A": "1"}),
        ("export B=1\nexport A='not closed", {"B": "1", "A": ""}),
    ],
)
def test_what_reaches_the_application(text: str, expected: dict[str, str]) -> None:
    assert values(text) == expected


def test_every_one_has_its_place() -> None:
    text = "#!/bin/sh\n  export A=1 \\\n    B='x\ny' C=3\n"
    places = [(one.key, one.line, one.column, one.value_column) for one in assignments(text)]
    assert places == [("A", 2, 10, 12), ("B", 3, 5, 7), ("C", 4, 4, 6)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/bin/bash\nSCR_FLUSH=1\n", True),
        ("#SBATCH -N 4\n", True),
        ("# comment\n  export SCR_FLUSH=1\n", True),
        ("#FLUX: -N 1\n", True),
        ("SCR_FLUSH=1\n# export this\n", False),
        ("", False),
    ],
)
def test_a_script_is_told_from_a_config_file_by_what_it_says(text: str, expected: bool) -> None:
    assert is_job_script(text) is expected


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("#SBATCH -N 4", 4),
        ("#SBATCH -N4", 4),
        ("#SBATCH --time=1 --nodes=16", 16),
        ("#SBATCH --nodes 2\n#SBATCH -n 64", 2),
        ("#BSUB -nnodes 8", 8),
        ("#flux: -N 2", 2),
        ("#FLUX: -N 2", 2),
        ("# flux: --nodes=3", 3),
        ("#PBS -l nodes=4:ppn=8", 4),
        ("#PBS -l walltime=1:00:00,nodes=1:ppn=8", 1),
        ("#PBS -lnodes=n1:ppn=2+n2", 2),
        ("#PBS -l select=2:ncpus=4+1:ncpus=1 -N name", 3),
        ("#PBS -l select=ncpus=4", 1),
        ("#PBS -N 4", None),
        ("#PBS -l walltime=1:00:00", None),
        ("#SBATCH -N 4\n#SBATCH -N 1", 1),
        ("#SBATCH -N 2-4", None),
        ("#SBATCH -n 4", None),
        ("# SBATCH -N 4", None),
        ("srun -N 4 app", None),
    ],
)
def test_how_many_nodes_it_asks_for(text: str, nodes: int | None) -> None:
    assert nodes_asked_for(text) == nodes


@pytest.mark.parametrize(
    ("file", "text", "language"),
    [
        ("job", "#!/usr/bin/env fish\n", "fish"),
        ("job.fish", "set -gx SCR_FLUSH 1\n", "fish"),
        ("job", "#!/bin/tcsh -f\n", "tcsh"),
        ("job.csh", "setenv SCR_FLUSH 1\n", "csh"),
        ("job", "#!/usr/bin/python3.11 -u\n", "python"),
        ("job", "#!/bin/bash -l\n# python3\n", ""),
        ("job", "#!/opt/python/bin/bash\n", ""),
        ("job", "#!/usr/bin/env -S zsh -f\n", ""),
        ("scr.conf", "# fish\nSCR_FLUSH=1\n", ""),
    ],
)
def test_scripts_that_are_not_read_are_known(file: str, text: str, language: str) -> None:
    assert other_language(file, text) == language


WORDS = st.text(alphabet="ab \"'\\#;&|()<>=~*?[]{}!\n", max_size=12)


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh")
@settings(max_examples=25)
@given(texts=st.lists(WORDS, min_size=1, max_size=4))
def test_a_quoted_value_is_what_the_shell_makes_of_it(texts: list[str]) -> None:
    quoted = ["'" + text.replace("'", "'\\''") + "'" for text in texts]
    names = [f"SCR_T{index}" for index in range(len(texts))]
    script = "".join(f"export {name}={text}\n" for name, text in zip(names, quoted, strict=True))
    shown = "".join(f"printf '%s\\0' \"${name}\"\n" for name in names)
    ran = subprocess.run(["sh", "-c", script + shown], capture_output=True, check=True, env=dict(os.environ))
    assert list(values(script).values()) == ran.stdout.decode().split("\0")[:-1]


@given(text=st.text(alphabet="AB=1 \t\n'\"\\#;&|()<>$`exportunsvE", max_size=120))
def test_any_text_is_read_and_every_place_holds_the_name(text: str) -> None:
    lines = text.split("\n")
    for entry in assignments(text):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|[^\s;&|()<>]+", entry.key)
        assert lines[entry.line - 1].startswith(entry.key.split("\n")[0], entry.column - 1)
