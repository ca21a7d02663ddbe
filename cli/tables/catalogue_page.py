"""The catalogue as a page in Markdown: `docs/parameters.md` is its output, and a test keeps them equal."""

from collections.abc import Iterable

from ...scr_config.catalogue import CATALOGUE, DESCRIPTOR_LINES, LAYERS, Descriptor, Key, Parameter

_INTRODUCTION = """\
# SCR's parameters

Every parameter of SCR, from its sources (version 3.1.0 and later, commit 85e30b19 of 2024-10-21) and from
the behaviour of a real SCR. `scrtune params` shows the same, and `scrtune params NAME` the details of one.
This page is made with `scrtune params --format markdown > docs/parameters.md`. How SCR reads its files is in
`docs/config.md`.

- **Change**: how a running job can get another value. *live*: while it runs; *re-init*: with `SCR_Finalize`
  and `SCR_Init`; *launch*: in the next run; *none*: SCR reads it and does nothing with it.
- **Ranks**: *equal*: ranks with different values hang or abort; *rank 0*: only its value counts; *any*: they
  may differ.
- **SCR**: the releases in which it works. 1.1 is the oldest there is.
- **Intents**: the intents of scrtune's that may set it. scrtune does not change a parameter without any.
"""

_GROUPS = {
    "library": ("The library", "Looked for in `SCR_Init`: environment, config files, `SCR_Config`."),
    "scripts": ("SCR's scripts", "Looked for by `scr_run` and its helpers."),
    "component": ("SCR's components", "Environment variables of the libraries that SCR is made of."),
    "lever": ("scrtune's levers", "SCR has no parameter for these; set them where you set SCR's."),
}
_COLUMNS = ("Parameter", "Value", "Default", "Change", "Ranks", "SCR", "Intents", "Meaning", "Source")


def catalogue_page() -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION]
    for scope, (title, what) in _GROUPS.items():
        rows = (_row(entry) for entry in CATALOGUE.values() if entry.scope == scope)
        parts.append(f"\n## {title}\n\n{what}\n\n{_table(_COLUMNS, rows)}")
    what = "Of config files. SCR takes all lines of a kind from the first layer that has some."
    return "".join([*parts, f"\n## Descriptor lines\n\n{what}\n", *map(_section, DESCRIPTOR_LINES.values())])


def _row(entry: Parameter) -> tuple[str, ...]:
    where = "" if len(entry.layers) == len(LAYERS) else f"Only in: {', '.join(entry.layers)}."
    read = "" if entry.read_when == "SCR_Init" else f"Read: {entry.read_when}."
    wrong = f"Otherwise {entry.if_wrong}." if entry.if_wrong else ""
    return (
        f"`{entry.name}`",
        entry.value_words,
        entry.default_words,
        entry.change,
        entry.ranks,
        entry.versions,
        ", ".join(entry.intents),
        " ".join(filter(None, (entry.doc, entry.note, wrong, where, read))),
        entry.source,
    )


def _section(descriptor: Descriptor) -> str:
    head = (
        f"\n### {descriptor.name}\n\n`{descriptor.name}=`{descriptor.value}. {descriptor.doc}"
        f" {descriptor.note} Change: {descriptor.mutability}: {descriptor.mechanism}."
        f" SCR {descriptor.since} on. Source: {descriptor.source}.\n"
    )
    columns = ("Key", "Value", "Default", "SCR", "Meaning")
    return head + (f"\n{_table(columns, map(_key_row, descriptor.keys))}" if descriptor.keys else "")


def _key_row(key: Key) -> tuple[str, ...]:
    kinds = {"bool": "0 or 1", "int": "a whole number"}
    value = ", ".join(key.choices) or kinds.get(key.type, f"a {key.type}")
    return f"`{key.name}`", value, key.default_text, f"{key.since} on", key.meaning


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (columns, *rows)]
    return "".join(f"| {line} |\n" for line in lines).replace("\n", f"\n|{'---|' * len(columns)}\n", 1)
