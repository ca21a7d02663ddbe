# ruff: noqa: INP001  these are C sources, and this is how one of them is made
"""Write the C table of levers from `scr_config/parameters.json`, where each parameter is described once.

`setup.py` calls it before it compiles; it needs the standard library only.
"""

import json
from pathlib import Path

_CLASSES = {"": "LAUNCH", "reinit": "REINIT"}
"""The class of a parameter by its means; all other means are live."""


def levers_table(parameters: Path) -> str:
    """Return the initializers of `levers[]` for `parameters`, the JSON file, in the order of the names."""
    entries = json.loads(parameters.read_bytes())
    return "".join(f"{{{_row(entry)}}},\n" for entry in sorted(entries, key=lambda entry: entry["name"]))


def _row(entry: dict[str, object]) -> str:
    """Return the initializers of one `lever` (scrtune.h)."""
    means, choices = str(entry.get("means", "")), entry.get("choices")
    fields = {
        "name": _text(entry["name"]),
        "type": f"TYPE_{entry['type']}".upper(),
        "minimum": _integer(entry.get("minimum")),
        "maximum": _integer(entry.get("maximum")),
        "choices": _text(f" {' '.join(choices)} ") if isinstance(choices, list) else "NULL",
        "class": f"CLASS_{_class(entry, means)}",
        "means": f"BY_{means or 'nothing'}".upper(),
        "symbol": _text(entry["symbol"]) if means else "NULL",
    }
    return ", ".join(f".{name} = {value}" for name, value in fields.items())


def _class(entry: dict[str, object], means: str) -> str:
    if entry.get("status") == "inert":
        return "INERT"
    live = "LIVE_ON_RANK_0" if entry.get("rank_0_decides") else "LIVE"
    return _CLASSES.get(means, live)


def _integer(bound: object) -> str:
    """Return a bound as a C constant: a long long, since the smallest `int` is none."""
    return f"{bound}LL" if isinstance(bound, int) else "0"


def _text(text: object) -> str:
    return json.dumps(text)
