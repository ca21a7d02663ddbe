"""The name of an application, by which what its jobs teach is kept."""

import os
import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

_LAUNCHERS = re.compile(
    r"mpi(exec|run)(\.\w+)?|srun|jsrun|aprun|prun|orterun|flux|run|env|nice|numactl|taskset|time|timeout"
)
_INTERPRETERS = re.compile(r"(pypy|python)[\d.]*|(ba|da|k|z)?sh|perl|julia|Rscript|torchrun")
_TAKE_A_VALUE = {"-W", "-X"}
_RUN_A_SCRIPT = {"mpi4py", "mpi4py.run"}
"""Modules that run what stands behind them as Python does."""


def application_of(command: Sequence[str]) -> str:
    """Return program and script of `command`, without launchers and arguments: ``python3 train.py``.

    The text of ``-c`` counts by its checksum, as does a whole command in which no program is found.
    """
    words = iter(command)
    program = next(_programs(words), None)
    name = Path(program or command[0]).name
    if program is None:
        return f"{name} {_checksum(*command)}"
    return f"{name} {_script(words)}".rstrip() if _INTERPRETERS.fullmatch(name) else name


def program_of(command: Sequence[str]) -> str | None:
    """Return the program that `command` starts, without launchers; None if none is found."""
    return next(_programs(iter(command)), None)


def _programs(words: Iterator[str]) -> Iterator[str]:
    """Yield the words that are programs and no launchers; `words` stands behind the last one then."""
    for word in words:
        name = Path(word).name
        is_argument = word.startswith("-") or "=" in word or word.isdigit() or _LAUNCHERS.fullmatch(name)
        if not is_argument and (_INTERPRETERS.fullmatch(name) or shutil.which(word)):
            yield word


def _script(words: Iterator[str]) -> str:
    """Return what an interpreter runs: a script's name, ``-m module``, or ``-c`` and a checksum."""
    for word in words:
        if word in _TAKE_A_VALUE:
            next(words, "")
        elif word == "-m":
            if (module := next(words, "")) not in _RUN_A_SCRIPT:
                return f"-m {module}"
        elif word == "-c":
            return f"-c {_checksum(next(words, ''))}"
        elif not word.startswith("-") and not word.isdigit():
            return Path(word).name
    return ""


def _checksum(*texts: str) -> str:
    return f"{zlib.crc32(os.fsencode(chr(0).join(texts))):08x}"
