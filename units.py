"""Durations, sizes and counts as people write and read them: one grammar for the whole project.

SCR's own sizes (`scr_config.catalogue`) follow SCR's grammar, not this one.
"""

import re

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})\s*([a-z]*)", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,9})?|\.\d{1,9})\s*(?:([kmgt])(i?))?b?", re.ASCII)
_TWO_MINUTES_S = 120
_TEN_YEARS_S = 10 * 365 * 86_400.0


def parse_duration_s(text: str) -> float:
    """Return the seconds of ``600``, ``10m``, ``10min``, ``2.5h`` or ``1d``; above 0. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS_S or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a duration: write 600 (seconds), 10m or 10min, 2.5h or 1d")
    return float(match[1]) * _UNITS_S[match[2]]


def parse_rate(text: str) -> float:
    """Return the bytes a second of ``4GiB/s`` or ``500MB``; above 0. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip().lower().removesuffix("/s"))
    rate = (
        float(match[1]) * (1024 if match[3] else 1000) ** (" kmgt".index(match[2] or " ")) if match else 0.0
    )
    if rate <= 0:
        raise ValueError(f"{text!r} is not a rate: write 4GiB/s or 500MB/s")
    return rate


def seconds_text(seconds: float) -> str:
    """Return a short duration with its unit: ``12.3 ms``, ``4.56 s``."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def duration_text(seconds: float) -> str:
    """Return any duration with its units: ``12.3 ms``, ``4.56 s``, ``5 min 02 s``, ``3 h 07 min``."""
    sign, size_s = ("-", -seconds) if seconds < 0 else ("", seconds)
    if size_s < _TWO_MINUTES_S:
        return sign + seconds_text(size_s)
    minutes, rest = divmod(round(size_s), 60)
    hours, minutes = divmod(minutes, 60)
    return sign + (f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s")


def rounded_duration_text(seconds: float) -> str:
    """Return an estimated duration in the one unit that suits it: ``4.56 s``, ``2.0 min``, ``11.6 d``."""
    if seconds >= _TEN_YEARS_S:
        return "over 10 years"
    for unit, size_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.1f} {unit}"
    return seconds_text(seconds)


def bytes_text(count: float) -> str:
    """Return a size with its binary unit: ``320 B``, ``4 KiB``, ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:  # noqa: PLR2004
            return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"  # noqa: PLR2004
        count /= 1024
    return f"{count:.3g} TiB"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return ``1 node``, ``2 nodes``; `plural` is for nouns that take more than an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"
