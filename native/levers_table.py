# ruff: noqa: INP001  these are C sources, and this is how one of them is made
"""Write the C table of levers from `scr_config/parameters.json`, where each parameter is described once.

`setup.py` calls it before it compiles; it needs the standard library only.
"""

import json
from pathlib import Path

_CLASSES = {"": "LAUNCH", "reinit": "REINIT"}
"""The class of a parameter by its means; all other means are live."""

_BOUNDS = {"int": (-(2**31), 2**31 - 1), "bytes": (0, 2**53)}
"""The bounds of a type that an entry leaves out, as in `scr_config/catalogue.py`."""


def levers_table(parameters: Path) -> str:
    """Return the initializers of `levers[]` for `parameters`, the JSON file, in the order of the names."""
    entries = json.loads(parameters.read_bytes())
    flat = ((name, {**each, **each["value"], **each.get("change", {})}) for name, each in entries.items())
    rows = (_row(name, entry) for name, entry in sorted(flat))
    return "".join(f"{{{row}}},\n" for row in rows)


def _row(name: str, entry: dict[str, object]) -> str:
    """Return the initializers of one `lever` (scrtune.h)."""
    means, choices = str(entry.get("means", "")), entry.get("choices")
    least, most = _BOUNDS.get(str(entry["type"]), (None, None))
    fields = {
        "name": _text(name),
        "type": f"TYPE_{entry['type']}".upper(),
        "minimum": _integer(entry.get("minimum", least)),
        "maximum": _integer(entry.get("maximum", most)),
        "choices": _text(f" {' '.join(choices)} ") if isinstance(choices, list) else "NULL",
        "class": f"CLASS_{_class(entry, means)}",
        "means": f"BY_{means or 'nothing'}".upper(),
        "symbol": _text(entry.get("symbol", name.lower())) if means else "NULL",
    }
    return ", ".join(f".{field} = {value}" for field, value in fields.items())


def _class(entry: dict[str, object], means: str) -> str:
    if entry.get("mutability") == "none":
        return "INERT"
    live = "LIVE_ON_RANK_0" if entry.get("rank_0_decides") else "LIVE"
    return _CLASSES.get(means, live)


def _integer(bound: object) -> str:
    """Return a bound as a C constant: a long long, since the smallest `int` is none."""
    return f"{bound}LL" if isinstance(bound, int) else "0"


def _text(text: object) -> str:
    return json.dumps(text)
