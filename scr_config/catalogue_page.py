"""The catalogue as a page for people: `docs/parameters.md` is its output, and a test keeps them equal."""

from collections.abc import Iterable, Iterator

from .catalogue import CATALOGUE, Parameter
from .descriptor_lines import DESCRIPTOR_LINES, Descriptor, Key

_INTRODUCTION = """\
# SCR's parameters

Every name that SCR looks for, as its sources have it (version 3.1.0 and later, commit 85e30b19 of
2024-10-21) and as a real SCR was seen to behave. `scrtune params` shows the same, and `scrtune params NAME`
all there is on one. This page is made with `scrtune params --format markdown > docs/parameters.md`. How SCR
reads its files is in `docs/config.md`.

- **Change**: how a running job can get another value. *live*: while it runs; *re-init*: with `SCR_Finalize`
  and `SCR_Init`; *launch*: in the next run; *none*: SCR reads it and does nothing with it.
- **Ranks**: *equal*: ranks with different values hang or abort; *rank 0*: only its value counts; *any*: they
  may differ.
- **SCR**: the releases in which it works. 1.1 is the oldest there is.
- **Intents**: which of scrtune's intents may set it. What has none, scrtune leaves to you.
"""

_GROUPS = {
    "library": ("The library", "Looked for in `SCR_Init`: environment, config files, `SCR_Config`."),
    "scripts": ("SCR's scripts", "Looked for by `scr_run` and its helpers."),
    "component": ("SCR's components", "Environment variables of the libraries that SCR is made of."),
    "lever": ("scrtune's levers", "SCR has no parameter for these; set them where you set SCR's."),
}


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_INTRODUCTION]
    for scope, (title, what) in _GROUPS.items():
        parts.append(f"\n## {title}\n\n{what}\n\n")
        parts.append(
            _table(
                ("Parameter", "Value", "Default", "Change", "Ranks", "SCR", "Intents", "Meaning", "Source"),
                (_row(entry) for entry in CATALOGUE.values() if entry.scope == scope),
            )
        )
    parts.append(
        "\n## Descriptor lines\n\nOf config files. The first layer that has lines of a kind rules.\n"
    )
    parts.extend(_section(descriptor) for descriptor in DESCRIPTOR_LINES.values())
    return "".join(parts)


def _row(entry: Parameter) -> tuple[str, ...]:
    where = "" if len(entry.layers) == _ALL_LAYERS else f"Only in: {', '.join(entry.layers)}."
    read = "" if entry.read_when == "SCR_Init" else f"Read: {entry.read_when}."
    wrong = f"Otherwise {entry.if_wrong}." if entry.if_wrong else ""
    return (
        f"`{entry.name}`",
        entry.allowed + (f" ({entry.unit})" if entry.unit not in ("", "bytes") else ""),
        entry.default_words,
        entry.change,
        entry.ranks,
        entry.versions,
        ", ".join(entry.intents),
        " ".join(filter(None, (entry.doc, entry.note, wrong, where, read))),
        entry.source,
    )


_ALL_LAYERS = 4


def _section(descriptor: Descriptor) -> str:
    head = (
        f"\n### {descriptor.name}\n\n`{descriptor.name}=`{descriptor.value}. {descriptor.doc}"
        f" {descriptor.note} Change: {descriptor.mutability}: {descriptor.mechanism}."
        f" SCR {descriptor.since} on. Source: {descriptor.source}.\n"
    )
    if not descriptor.keys:
        return head
    columns = ("Key", "Value", "Default", "SCR", "Meaning")
    return f"{head}\n{_table(columns, (_key_row(key) for key in descriptor.keys))}"


def _key_row(key: Key) -> tuple[str, ...]:
    value = ", ".join(key.choices) or {"bool": "0 or 1", "int": "a whole number"}.get(
        key.type, f"a {key.type}"
    )
    inert = "Changes nothing." if key.status == "inert" else ""
    meaning = " ".join(filter(None, (key.doc, inert, key.note)))
    return f"`{key.name}`", value, key.default_text, f"{key.since} on", meaning


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"{line}\n" for line in _lines(columns, rows))


def _lines(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
