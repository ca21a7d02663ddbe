"""SCR's configuration as people read it: the catalogue, and what is active here."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ...intents.mutability import Mutability
from ...scr_config.catalogue import Descriptor, Key, Parameter, Status
from ...scr_config.resolution import DEFAULT
from ..format import value_text as shown
from ..views.config import Located, ParameterView, ResolvedView
from .tables import facts, plain_table

_CLASS_STYLES = {
    Mutability.LIVE: "green",
    Mutability.REINIT: "yellow",
    Mutability.LAUNCH: "cyan",
    Mutability.INERT: "red",
}


def params(entries: Sequence[Parameter | Descriptor]) -> RenderableType:
    """Return one row for each parameter and kind of line."""
    headings = ("parameter", "type", "default", "change", "ranks", "SCR", "meaning")
    return plain_table(*headings, rows=map(_row, entries))


def _row(entry: Parameter | Descriptor) -> Sequence[str | Text]:
    change = Text(entry.mutability, style=_CLASS_STYLES[entry.mutability])
    if isinstance(entry, Descriptor):
        return entry.name, "line", "none", change, "equal", f"{entry.since} on", entry.doc
    return entry.name, entry.type, entry.default_words, change, entry.ranks, entry.versions, entry.doc


def details(entries: Sequence[Parameter | Descriptor]) -> RenderableType:
    """Return all there is on each of `entries`."""
    return Group(
        *(_descriptor(entry) if isinstance(entry, Descriptor) else _parameter(entry) for entry in entries)
    )


def _parameter(entry: Parameter) -> RenderableType:
    ranks = {
        "equal": "must be equal on all ranks, else the job hangs or aborts",
        "rank 0": "rank 0's value alone counts",
        "any": "may differ between ranks",
    }
    compiled = f" ({entry.default_source})" if entry.default_source else ""
    return facts(
        {
            "meaning": entry.doc,
            "value": entry.allowed + (f", in {entry.unit}" if entry.unit not in ("", "bytes") else ""),
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


def _descriptor(line: Descriptor) -> RenderableType:
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
    if not line.keys:
        return described
    rows = ((key.name, key.type, key.default_text, f"{key.since} on", _meaning(key)) for key in line.keys)
    return Group(described, "", plain_table("key", "type", "default", "SCR", "meaning", rows=rows))


def _meaning(key: Key) -> str:
    inert = "Changes nothing." if key.status is Status.INERT else ""
    choices = f"One of {', '.join(key.choices)}." if key.choices else ""
    return " ".join(filter(None, (key.doc, choices, inert, key.note)))


def resolved(view: ResolvedView) -> RenderableType:
    """Return the files that count, each parameter with its place, and what is wrong."""
    files = {file.layer: file.path + ("" if file.found else " (not there)") for file in view.files}
    rows = []
    for row in view.parameters:
        name = Text(row.name, style="" if row.layer == DEFAULT else "bold")
        shadows = "\n".join(f"{shown(each.value)} ({_from(each)})" for each in row.shadows)
        rows.append((name, _value(row), _from(row), shadows))
    for line in view.lines:
        name = Text(line.name, style="bold" if line.in_force else "")
        rows.append((name, line.text, ("" if line.in_force else "shadowed: ") + _from(line), ""))
    table = plain_table("parameter", "value", "from", "shadows", rows=rows)
    parts: list[RenderableType] = [facts(files), "", table]
    if view.problems:
        parts += ["", *(Text(f"{each.source}: {each}", style="red") for each in view.problems)]
    return Group(*parts)


def _value(row: ParameterView) -> str:
    value = shown(row.value) if row.value is not None else f"({row.default})"
    if row.wrong is None:
        return value
    return f"{value}\n{shown(row.wrong.value)!r}: {row.in_scr}"


def _from(place: Located) -> str:
    where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
    return f"{place.layer} {where}".rstrip()
