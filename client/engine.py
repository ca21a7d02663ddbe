"""What the engines share: :mod:`.embedded.engine`, and a real libscr (:mod:`.libscr.engine`)."""

import enum
import os
import pwd
import sys
from contextlib import suppress


class EngineError(RuntimeError):
    """The engine cannot start, was called out of turn, or SCR said no; the text says what to do."""


def say(text: str) -> None:
    """Say `text` on standard error, which may be closed."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"scrtune: {text}\n")


def user_name() -> str:
    """Return the name of the process's user, the number of one that has none, as in some containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


class OutputFlags(enum.IntFlag):
    """SCR's flags of ``SCR_Start_output`` (scr.h)."""

    NONE = 0
    CHECKPOINT = 1
    OUTPUT = 2
