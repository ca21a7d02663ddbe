"""What an application gets to see of libscrtune.so, by which every program on a real SCR is tuned.

It reads the node's decision file and appends to the node's events file. In a process that has no SCR it does
nothing, so it may be in the environment of launchers and shells too.
"""

import logging
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from ...client.libscr.library import WHY_NOT, libscrtune_path
from ...client.paths import JobPaths
from ...intents.events import Values
from ...scr_config.render import Form, environment_text

log = logging.getLogger("scrtune.run")

EVENTS_FILE = "SCRTUNE_EVENTS_FILE"
"""Names the file to which the library writes, and which the forwarder follows."""

Preload = Literal["auto", "never"]


def library(preload: Preload, find: Callable[[], Path | None] = libscrtune_path) -> Path | None:
    """Return the library to preload, or None; warn where it is wanted and cannot be had."""
    path = None if preload == "never" else find()
    if path is None:
        if preload != "never":
            log.warning("%s", WHY_NOT)
    elif not {" ", ":"}.isdisjoint(str(path)):  # ld.so(8): neither can be said in a path
        log.warning("%s: LD_PRELOAD takes no path with a space or a colon. The library stays out.", path)
        return None
    return path


def library_variables(paths: JobPaths, path: Path | None, preloaded: str) -> dict[str, str]:
    """Return the variables by which the application of this node has the library `path`; none without one.

    It comes before what else is `preloaded` (the value of LD_PRELOAD), so that it is found before SCR.
    """
    if path is None:
        return {}
    return {
        "LD_PRELOAD": ":".join([str(path), *_others(path, preloaded)]),
        "SCRTUNE_DECISION_FILE": str(paths.decision),
        EVENTS_FILE: str(paths.library_events),
    }


def _others(path: Path, preloaded: str) -> list[str]:
    return [each for each in preloaded.replace(" ", ":").split(":") if each and each != str(path)]


def export_text(settings: Values, variables: Mapping[str, str], form: Form, inherited: str) -> str:
    """Return `settings` and `variables` in the `form` asked for, for an application that is started by hand.

    The text for sh puts the library before that shell's own LD_PRELOAD, once, wherever it is evaluated. Every
    other form has the whole value, with the libraries of `inherited`, this environment's LD_PRELOAD.
    """
    others = {name: text for name, text in variables.items() if name != "LD_PRELOAD"}
    path = variables.get("LD_PRELOAD", "")
    if not path:
        return environment_text(settings, form, others)
    if form == "sh":
        return environment_text(settings, form, others) + _PREPENDED.format(path=shlex.quote(path))
    merged = ":".join([path, *_others(Path(path), inherited)])
    return environment_text(settings, form, {**others, "LD_PRELOAD": merged})


_PREPENDED = """\
case ":${{LD_PRELOAD-}}:" in
*:{path}:*) ;;
*) export LD_PRELOAD={path}"${{LD_PRELOAD:+:$LD_PRELOAD}}" ;;
esac
"""
