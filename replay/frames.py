"""Rows of a study as frames of pandas, polars or pyarrow (`pip install 'scrtune[frames]'`)."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import msgspec

Rows = Iterable[msgspec.Struct] | Iterable[Mapping[str, object]]


def columns(rows: Rows) -> dict[str, list[object]]:
    """Return rows as columns; the fields of a part have its name before theirs (``cache_seconds``)."""
    flat = [flattened(msgspec.to_builtins(row, str_keys=True)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return {name: [row.get(name) for row in flat] for name in names}


def flattened(row: Mapping[str, object]) -> dict[str, object]:
    """Return `row` with the fields of its parts beside its own; a list is a text."""
    found: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}_{key}": each for key, each in flattened(value).items()}
        else:
            found[name] = "; ".join(map(str, value)) if isinstance(value, tuple | list) else value
    return found


def to_pandas(rows: Rows) -> Any:
    """Return a pandas.DataFrame. Raises ModuleNotFoundError."""
    return import_module("pandas").DataFrame(columns(rows))


def to_polars(rows: Rows) -> Any:
    """Return a polars.DataFrame. Raises ModuleNotFoundError."""
    return import_module("polars").DataFrame(columns(rows), infer_schema_length=None)


def to_arrow(rows: Rows) -> Any:
    """Return a pyarrow.Table. Raises ModuleNotFoundError."""
    return import_module("pyarrow").table(columns(rows))
