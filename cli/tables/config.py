"""SCR's configuration as people read it: the catalogue, and what is active here."""

from collections.abc import Sequence

from ...intents.mutability import Mutability
from ...scr_config.catalogue import Descriptor, Key, Parameter
from ...scr_config.resolution import DEFAULT
from ..blocks import Cell, Document, Section, Styled, facts, table
from ..format import value_text as shown
from ..views.config import Located, ParameterView, ResolvedView

_CLASS_STYLES = {
    Mutability.LIVE: "green",
    Mutability.REINIT: "yellow",
    Mutability.LAUNCH: "cyan",
    Mutability.INERT: "red",
}


def params(entries: Sequence[Parameter | Descriptor]) -> Document:
    """Return one row for each parameter and kind of line."""
    headings = ("parameter", "type", "default", "change", "ranks", "SCR", "meaning")
    return [[table(*headings, rows=map(_row, entries))]]


def _row(entry: Parameter | Descriptor) -> Sequence[Cell]:
    change = Styled(entry.mutability, _CLASS_STYLES[entry.mutability])
    if isinstance(entry, Descriptor):
        return entry.name, "line", "none", change, "equal", f"{entry.since} on", entry.doc
    return entry.name, entry.type, entry.default_words, change, entry.ranks, entry.versions, entry.doc


def details(entries: Sequence[Parameter | Descriptor]) -> Document:
    """Return all there is on each of `entries`."""
    return [
        section
        for entry in entries
        for section in (_descriptor(entry) if isinstance(entry, Descriptor) else [_parameter(entry)])
    ]


def _parameter(entry: Parameter) -> Section:
    ranks = {
        "equal": "must be equal on all ranks, else the job hangs or aborts",
        "rank 0": "rank 0's value alone counts",
        "any": "may differ between ranks",
    }
    compiled = f" ({entry.default_source})" if entry.default_source else ""
    return [
        facts(
            {
                "meaning": entry.doc,
                "value": entry.value_words,
                "otherwise": entry.if_wrong,
                "default": entry.default_words + compiled,
                "set in": ", ".join(entry.layers),
                "read": f"{entry.read_when} ({entry.source})",
                "change": entry.change,
                "ranks": ranks[entry.ranks],
                "intents": ", ".join(entry.intents) or "none: scrtune leaves it to you",
                "SCR": f"{entry.versions}; {entry.status}",
                "note": entry.note,
            },
            entry.name,
        )
    ]


def _descriptor(line: Descriptor) -> Document:
    described = facts(
        {
            "meaning": line.doc,
            "value": line.value + (", then names of your own" if line.open_keys else ""),
            "set in": ", ".join(line.layers),
            "read": f"{line.read_when} ({line.source})",
            "change": f"{line.mutability}: {line.mechanism}",
            "SCR": f"{line.since} on",
            "note": line.note,
        },
        line.name,
    )
    rows = ((key.name, key.type, key.default_text, f"{key.since} on", _meaning(key)) for key in line.keys)
    keys = table("key", "type", "default", "SCR", "meaning", rows=rows)
    return [[described], [keys] if keys.rows else []]


def _meaning(key: Key) -> str:
    choices = f" One of {', '.join(key.choices)}." if key.choices else ""
    return key.meaning + choices


def resolved(view: ResolvedView) -> Document:
    """Return the files that count, each parameter with its place, and what is wrong."""
    files = {file.layer: file.path + ("" if file.found else " (not there)") for file in view.files}
    rows: list[Sequence[Cell]] = []
    for row in view.parameters:
        name = row.name if row.layer == DEFAULT else Styled(row.name)
        shadows = "\n".join(f"{shown(each.value)} ({_from(each)})" for each in row.shadows)
        rows.append((name, _value(row), _from(row), shadows))
    for line in view.lines:
        kind = Styled(line.name) if line.in_force else line.name
        rows.append((kind, line.text, ("" if line.in_force else "shadowed: ") + _from(line), ""))
    table_of_all = table("parameter", "value", "from", "shadows", rows=rows)
    return [
        [facts(files)],
        [table_of_all],
        [Styled(f"{each.source}: {each}", "red") for each in view.problems],
    ]


def _value(row: ParameterView) -> str:
    value = shown(row.value) if row.value is not None else f"({row.default})"
    if row.wrong is None:
        return value
    return f"{value}\n{shown(row.wrong.value)!r}: {row.in_scr}"


def _from(place: Located) -> str:
    where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
    return f"{place.layer} {where}".rstrip()
