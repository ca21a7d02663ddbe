"""Times as the command line takes them: one grammar for every option."""

import re

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})\s*([a-z]*)", re.ASCII)
EXAMPLES = "600 (seconds), 10m or 10min, 2.5h or 1d"


def duration_s(text: str) -> float:
    """Seconds of ``600``, ``10m``, ``10min``, ``2.5h`` or ``1d``; above 0. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS_S or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is no time: say {EXAMPLES}")
    return float(match[1]) * _UNITS_S[match[2]]
