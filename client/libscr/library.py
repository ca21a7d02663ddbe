"""A real libscr.so in this process, with libscrtune.so before it: SCR's functions by ctypes.

A C application has libscrtune.so preloaded. Python loads libscr while it runs: there libscrtune.so is loaded
before, with its names open to all. Either way libscr, whose own calls of `AXL_Dispatch` or
`scr_reddesc_recover` go by name, finds libscrtune.so first, and that finds libscr behind itself (RTLD_NEXT).
"""

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..engine import EngineError
from .find import LibscrUnavailable, mapped_libraries, unusable_reason

SUCCESS = 0
MAX_FILENAME = 1024
"""SCR_MAX_FILENAME of scr.h."""

LIBSCRTUNE = "libscrtune.so"
WHY_NOT = (
    f"{LIBSCRTUNE} was not built when scrtune was installed: an application on a real SCR runs untuned. On"
    " Linux, make a C compiler available (Debian: gcc and libc6-dev) and install scrtune again, with pip"
    " install --verbose to see what fails"
)
"""What to say to a user when :func:`libscrtune_path` is None."""
_MISSING = re.compile(r"^([^/:]+\.so[^:]*): cannot open shared object file")
_VARIABLES = ("SCRTUNE_DECISION_FILE", "SCRTUNE_EVENTS_FILE")


class Library:
    """The libscr at `path`, loaded with its symbols open to all. Raises :class:`LibscrUnavailable`."""

    def __init__(self, path: Path) -> None:
        if why := unusable_reason(path, mapped_libraries()):
            raise LibscrUnavailable(f"{path}: {why}")
        self._tuning = _libscrtune()  # before libscr, whose calls it stands before
        self._library = _load(path)
        missing = [name for name in ("SCR_Init", "SCR_Start_output") if not hasattr(self._library, name)]
        if missing:
            raise LibscrUnavailable(f"{path}: it has no {' and no '.join(missing)}: it is not SCR's library")

    def config(self, text: str) -> str | None:
        """``SCR_Config``: ask (``NAME``), or, before SCR_Init, set (``NAME=value``) and unset (``NAME=``)."""
        function = self._function("SCR_Config")
        function.restype = ctypes.c_char_p
        value: bytes | None = function(os.fsencode(text))
        return None if value is None else os.fsdecode(value)

    def call(self, name: str, *arguments: Any) -> None:
        """Call SCR's function `name`. Raises :class:`.EngineError` when it fails."""
        if not self.succeeds(name, *arguments):
            raise EngineError(f"{name} failed")

    def succeeds(self, name: str, *arguments: Any) -> bool:
        """Call SCR's function `name`; return whether it says SCR_SUCCESS."""
        return bool(self._function(name)(*arguments) == SUCCESS)

    def flag(self, name: str, *arguments: Any) -> bool:
        """Call SCR's function `name` and return the flag that it sets first. Raises :class:`.EngineError`."""
        flag = ctypes.c_int()
        self.call(name, ctypes.byref(flag), *arguments)
        return bool(flag.value)

    def add_step(self, number: int, start_s: float, end_s: float) -> None:
        """Report a step of the main loop (epoch seconds), where libscrtune.so is."""
        if self._tuning is not None:
            times = ctypes.c_double(start_s), ctypes.c_double(end_s)
            self._tuning["scrtune_step"](ctypes.c_longlong(number), *times)

    def integer(self, symbol: str, otherwise: int = 0) -> int:
        """Return the value of the exported int `symbol`, or `otherwise`: another SCR may not have it."""
        with suppress(ValueError):
            return ctypes.c_int.in_dll(self._library, symbol).value
        return otherwise

    def string(self, symbol: str) -> str:
        """Return the value of the exported char* `symbol`, empty where there is none."""
        with suppress(ValueError):
            return os.fsdecode(ctypes.c_char_p.in_dll(self._library, symbol).value or b"")
        return ""

    def _function(self, name: str) -> Any:
        """Return the function that an application would call: libscrtune.so's, where it has one."""
        if self._tuning is not None and hasattr(self._tuning, name):
            return self._tuning[name]
        return self._library[name]


def libscrtune_path(directory: Path = Path(__file__).parent) -> Path | None:
    """Return the path of libscrtune.so, None where scrtune was installed without a C compiler."""
    path = directory / LIBSCRTUNE
    return path if path.is_file() else None


def _libscrtune() -> ctypes.CDLL | None:
    """Return libscrtune.so, perhaps a preloaded one; None where nothing is tuned or it was not built."""
    if not any(os.environ.get(name) for name in _VARIABLES):
        return None
    process, path = ctypes.CDLL(None), libscrtune_path()
    if hasattr(process, "scrtune_step"):
        return process
    with suppress(OSError):
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL) if path else None
    return None


def _load(path: Path) -> ctypes.CDLL:
    """Load `path`, and before it what it needs, from the same directory, where the loader does not look."""
    waiting, tried = [path], {path}
    while True:
        try:
            loaded = ctypes.CDLL(str(waiting[-1]), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            missing = _MISSING.match(str(error))
            near = path.with_name(missing[1]) if missing else None
            if near is None or not near.is_file() or near in tried:
                remedy = f"; start the application with LD_LIBRARY_PATH={path.parent}" if missing else ""
                raise LibscrUnavailable(f"{path} cannot be loaded: {error}{remedy}") from error
            tried.add(near)
            waiting.append(near)
        else:
            waiting.pop()
            if not waiting:
                return loaded
