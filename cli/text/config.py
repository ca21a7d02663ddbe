"""SCR's configuration as people read it: the catalogue, and what is active here."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ...scr_config.catalogue import Descriptor, Parameter
from ...scr_config.resolution import DEFAULT
from ..format import value_text as shown
from ..views.config import LineView, ParameterView, PlaceView, ResolvedView
from .tables import plain_table

_CLASS_STYLES = {"live": "green", "re-init": "yellow", "launch": "cyan", "none": "red"}


def params(entries: Sequence[Parameter], lines: Sequence[Descriptor] = ()) -> RenderableType:
    """Return one row for each parameter and line."""
    table = plain_table("parameter", "type", "default", "change", "ranks", "SCR", "meaning")
    for entry in entries:
        change = Text(entry.mutability, style=_CLASS_STYLES[entry.mutability])
        table.add_row(
            entry.name, entry.type, entry.default_words, change, entry.ranks, entry.versions, entry.doc
        )
    for line in lines:
        change = Text(line.mutability, style=_CLASS_STYLES[line.mutability])
        table.add_row(line.name, "line", "none", change, "equal", f"{line.since} on", line.doc)
    return table


def parameter(entry: Parameter) -> RenderableType:
    """Return all there is on one parameter."""
    ranks = {
        "equal": "must be equal on all ranks, else the job hangs or aborts",
        "rank 0": "rank 0's value alone counts",
        "any": "may differ between ranks",
    }
    compiled = f" ({entry.default_source})" if entry.default_source else ""
    return _facts(
        entry.name,
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
    )


def descriptor(line: Descriptor) -> RenderableType:
    """Return the kind of line, and its keys."""
    facts = _facts(
        line.name,
        {
            "meaning": line.doc,
            "value": line.value + (", then names of your own" if line.open_keys else ""),
            "set in": ", ".join(line.layers),
            "read": f"{line.read_when} ({line.source})",
            "change": f"{line.mutability}: {line.mechanism}",
            "SCR": f"{line.since} on",
            "note": line.note,
        },
    )
    if not line.keys:
        return facts
    keys = plain_table("key", "type", "default", "SCR", "meaning")
    for key in line.keys:
        inert = "Changes nothing." if key.status == "inert" else ""
        choices = f"One of {', '.join(key.choices)}." if key.choices else ""
        meaning = " ".join(filter(None, (key.doc, choices, inert, key.note)))
        keys.add_row(key.name, key.type, key.default_text, f"{key.since} on", meaning)
    return Group(facts, "", keys)


def _facts(name: str, facts: dict[str, str]) -> RenderableType:
    table = plain_table("", "", title=name)
    for what, text in facts.items():
        if text:
            table.add_row(Text(what, style="bold"), text)
    return table


def resolved(view: ResolvedView) -> RenderableType:
    """Return the files that count, each parameter with its place, and what is wrong."""
    files = plain_table("", "")
    for file in view.files:
        files.add_row(Text(file.layer, style="bold"), file.path + ("" if file.found else " (not there)"))
    table = plain_table("parameter", "value", "from", "shadows")
    for row in view.parameters:
        style = "" if row.layer == DEFAULT else "bold"
        table.add_row(
            Text(row.name, style=style), _value(row), _from(row), "\n".join(map(_shadow, row.shadows))
        )
    for line in view.lines:
        of = "" if line.in_force else "shadowed: "
        table.add_row(Text(line.name, style="bold" if line.in_force else ""), line.text, of + _from(line), "")
    parts: list[RenderableType] = [files, "", table]
    if view.problems:
        parts += ["", *(Text(f"{each.source}: {each}", style="red") for each in view.problems)]
    return Group(*parts)


def _value(row: ParameterView) -> str:
    value = shown(row.value) if row.value is not None else f"({row.default})"
    if row.wrong is None:
        return value
    return f"{value}\n{shown(row.wrong.value)!r}: {row.in_scr}"


def _from(place: ParameterView | PlaceView | LineView) -> str:
    where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
    return f"{place.layer} {where}".rstrip()


def _shadow(place: PlaceView) -> str:
    return f"{shown(place.value)} ({_from(place)})"
