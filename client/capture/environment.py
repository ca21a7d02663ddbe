"""The environment under which DFTracer's files can be followed live."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

Mode = Literal["preload", "function"]

_LIVE = {
    "DFTRACER_ENABLE": "1",
    # without it no record has its file and size
    "DFTRACER_INC_METADATA": "1",
    # a gzip member a line costs 20 us an event
    "DFTRACER_TRACE_COMPRESSION": "0",
}
_BUFFER_BYTES = {
    # the default of 16 MiB shows nothing before it is full or the process ends
    False: 0,
    # more than an output may fill: libscrtune.so writes it out when the output has ended
    True: 4 * 1024 * 1024,
}
OBSERVE = "SCRTUNE_OBSERVE"
"""Says to libscrtune.so that DFTracer is scrtune's own, to be paused but while outputs are written."""
_LIBRARY = Path("lib64", "libdftracer_preload.so")
_EVERYTHING = "all"  # DFTracer's word for "trace every path"


class CaptureUnavailableError(RuntimeError):
    """DFTracer cannot be set up here; the text says why and what to do."""


def capture_environment(
    log_prefix: Path,
    data_dirs: Sequence[Path],
    mode: Mode,
    inherited: Mapping[str, str],
    *,
    gated: bool = False,
) -> dict[str, str]:
    """Return the variables to add to `inherited` so that a program is traced live into `<log_prefix>-*.pfw`.

    Files below `data_dirs` and the user's own DFTRACER_DATA_DIR are traced. `mode` is ``preload`` for any
    program, or ``function`` for one that calls ``dftracer.initialize_log``. `gated`: libscrtune.so is in the
    program, and lets DFTracer look while outputs are written, no longer. Raises
    :class:`CaptureUnavailableError`.
    """
    environment = {
        **_LIVE,
        "DFTRACER_LOG_FILE": str(log_prefix.absolute()),
        "DFTRACER_DATA_DIR": _data_dir(data_dirs, inherited.get("DFTRACER_DATA_DIR", "")),
        "DFTRACER_INIT": mode.upper(),
        "DFTRACER_WRITE_BUFFER_SIZE": str(_BUFFER_BYTES[gated]),
    }
    if gated:
        environment[OBSERVE] = "outputs"
    if mode == "preload":
        environment["LD_PRELOAD"] = _preload(str(preload_library()), inherited.get("LD_PRELOAD", ""))
    return environment


def preload_library() -> Path:
    """Find DFTracer's preload library without importing DFTracer, which would start it in this process."""
    spec = importlib.util.find_spec("dftracer")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    if not folders:
        raise CaptureUnavailableError("dftracer is not installed for this Python; run: pip install dftracer")
    found = next((folder / _LIBRARY for folder in folders if (folder / _LIBRARY).is_file()), None)
    if found is None:
        raise CaptureUnavailableError(
            f"{folders[0] / _LIBRARY}: missing from the installed dftracer; install it again,"
            " or call dftracer.initialize_log in the application and use the mode 'function'"
        )
    return found


def _preload(library: str, inherited: str) -> str:
    if any(separator in library for separator in ": "):
        raise CaptureUnavailableError(
            f"{library}: LD_PRELOAD takes no path with a space or a colon; install scrtune elsewhere,"
            " or call dftracer.initialize_log in the application and use the mode 'function'"
        )
    others = [item for item in inherited.replace(":", " ").split() if item != library]
    return ":".join([library, *others])


def _data_dir(data_dirs: Sequence[Path], inherited: str) -> str:
    if inherited == _EVERYTHING:
        return inherited
    named = [str(form) for path in data_dirs for form in (path.absolute(), path.resolve())]
    if bad := next((path for path in named if ":" in path), None):
        raise CaptureUnavailableError(
            f"{bad}: DFTRACER_DATA_DIR takes no path with a colon; use another directory"
        )
    wanted = dict.fromkeys([*named, *filter(None, inherited.split(":"))])
    # of two prefixes of which one begins with the other DFTracer 2.2 traces the longer alone
    return ":".join(each for each in wanted if not any(each != o and each.startswith(o) for o in wanted))
