"""What the engines share: :mod:`.embedded.engine`, and a real libscr (:mod:`.libscr.engine`)."""

import enum
import os
import pwd
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from ..intents.declared import VARIABLE, Declared, from_text
from ..intents.events import SettingsObserved
from ..intents.observe.observation import DEFAULT_BUDGET
from ..scr_config.catalogue import SECRETS

_UNREPORTED = SECRETS | {"SCR_CONF_FILE"}
"""Secrets, and a path that `scrtune run` itself has set: no setting of the user's."""


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


def declared(observed: SettingsObserved, environment: Mapping[str, str]) -> SettingsObserved:
    """Return `observed` without what is nobody's business, and with what `environment` declares."""
    mode = environment.get("SCRTUNE_MODE", "")
    return msgspec.structs.replace(
        observed,
        settings={name: value for name, value in observed.settings.items() if name not in _UNREPORTED},
        sources={name: source for name, source in observed.sources.items() if name not in _UNREPORTED},
        floor=environment.get("SCRTUNE_REDUNDANCY_FLOOR", ""),
        durability=environment.get("SCRTUNE_DURABILITY", ""),
        interval=environment.get("SCRTUNE_INTERVAL", ""),
        override=environment.get("SCRTUNE_OVERRIDE", "0") != "0",
        tuning=mode in ("", "auto"),
        recommend=mode != "observe",
        declared=_declared(environment.get(VARIABLE, "")),
        observe_budget=_budget(environment.get("SCRTUNE_OBSERVE_BUDGET", "")),
    )


def _declared(text: str) -> Declared:
    try:
        return from_text(text)
    except ValueError as error:
        say(f"{VARIABLE} is not what scrtune run writes ({error}); it counts as not declared")
        return Declared()


def _budget(text: str) -> float:
    """Return the declared share of the job's time, 0 to 1; the default for what is none."""
    try:
        share = float(text)
    except ValueError:
        return DEFAULT_BUDGET
    return share if 0 <= share <= 1 else DEFAULT_BUDGET


class OutputFlags(enum.IntFlag):
    """SCR's flags of ``SCR_Start_output`` (scr.h)."""

    NONE = 0
    CHECKPOINT = 1
    OUTPUT = 2
