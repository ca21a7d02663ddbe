"""Change values in a config file of the user's and keep its comments, blank lines and order.

What SCR cannot read, or hangs on, becomes a comment that says why.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ..intents.events import Value, ValueSource
from .catalogue import CATALOGUE, SCRIPT_KEYS, ParameterError, coerce, text_of
from .constraints import fatal, unfit_for_file
from .parse import DESCRIPTORS, ConfigFile, Entry, Pair, assumed, parse
from .problems import Code, Severity
from .render import refuse

HEADING = "# Added by scrtune:"
"""Stands above the parameters that were not in the file."""

_HEADING_LINE = rf"^[^\S\n]*{re.escape(HEADING)}[^\S\n]*\n"
_HEADED = re.compile(rf"{_HEADING_LINE}(?:.*\S.*\n)*", re.MULTILINE)
_EMPTY_HEADING = re.compile(rf"(?:^[^\S\n]*\n)?(?:{_HEADING_LINE})+(?=[^\S\n]*(?:\n|\Z))", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_READABLE = (Code.DUPLICATE, Code.CARRIAGE_RETURN)
_DIFFERENT = "ranks take different ones of two values, and the job hangs"


class _Cut(msgspec.Struct, frozen=True):
    """A piece of a line that must not stay: from `start` up to `end`, for the reason `why`."""

    start: int
    end: int
    why: str


def rewrite(text: str, changes: Mapping[str, str | None]) -> str:
    """Return `text` with these parameters as given (None: taken out), and every other line as it was.

    A value changes where it stands, in the line that counts for SCR; one that was not there is added at the
    end, below HEADING. With a line that goes, its comment stays.

    Turned into comments that say why: what SCR cannot read (from there to the end of the line), all but one
    of the lines that give a parameter, keys of a descriptor line that contradict each other, and values that
    are none of their parameter. Carriage returns at line ends go.

    Raises ValueError for a name that is no parameter and for a value that a config file cannot carry.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if not lines[-1]:
        lines.pop()  # the end of the last line, no line of its own
    plain = "\n".join(lines)
    file = parse(plain, assumed(plain, {}))
    counting = file.values
    parents = {entry.parent.line: entry.parent for entry in file.entries}
    cuts = _cuts(file, counting, lines, changes)
    left = {name: value for name, value in changes.items() if value is not None}
    rewritten: list[str] = []
    for number, line in enumerate(lines, start=1):
        above, rest = _cut(line, cuts.get(number, []))
        rewritten += above
        pair = parents.get(number)
        if not rest.strip() and above:
            continue
        if pair is None or pair.key not in changes:
            rewritten.append(rest)
        elif pair.key in left:
            start = pair.value_column - 1
            rewritten.append(rest[:start] + left.pop(pair.key) + rest[_end(pair) :])
        else:
            rewritten += _as_comment(rest[_end(pair) :])
    added = "".join(f"{name}={value}\n" for name, value in sorted(left.items()))
    result = _with_added("".join(f"{line}\n" for line in rewritten), added)
    _check(result, changes)
    return result


def file_values(settings: Mapping[str, Value]) -> dict[str, str]:
    """Return those of `settings` that a config file can hold: the others came from the environment.

    Raises RenderError for settings that are :func:`fatal`.
    """
    refuse(fatal(settings))
    unfit = {problem.parameter for problem in unfit_for_file(settings)}
    return {
        name: text_of(value)
        for name, value in settings.items()
        if name not in unfit and CATALOGUE[name].in_files
    }


def raw_values(text: str) -> dict[str, str]:
    """Return each parameter's value as it stands in `text`; without what is no value of its parameter."""
    values = parse(text, assumed(text, {})).values
    return {name: pair.raw for name, pair in values.items() if not _is_none(pair)}


def _check(text: str, changes: Mapping[str, str | None]) -> None:
    said = raw_values(text)
    for name, value in changes.items():
        if name not in CATALOGUE or said.get(name) != value:
            raise ValueError(f"a config file of SCR's cannot say {name}={value}; nothing was changed")


def _cuts(
    file: ConfigFile, counting: Mapping[str, Pair], lines: list[str], changes: Mapping[str, str | None]
) -> dict[int, list[_Cut]]:
    """Return what must not stay, by line, from left to right. One that takes a whole line is alone there."""
    entries = {entry.parent.line: entry for entry in file.entries}
    cuts: dict[int, list[_Cut]] = {}
    for pair, why in _contradicting_children(file.descriptors):
        following = (each.column - 1 for each in entries[pair.line].children if each.column > pair.column)
        cuts.setdefault(pair.line, []).append(_Cut(pair.column - 1, next(following, _end(pair)), why))
    for problem in file.problems:
        if problem.severity is Severity.ERROR and problem.code not in _READABLE:
            number = problem.line
            start = _end(entries[number].pairs[-1]) if number in entries else 0
            cuts.setdefault(number, []).append(_Cut(start, len(lines[number - 1]), problem.what))
    for number, entry in entries.items():
        why = _unfit(entry, counting, changes)
        if why:
            cuts[number] = [_Cut(0, len(lines[number - 1]), why)]
    return cuts


def _unfit(entry: Entry, counting: Mapping[str, Pair], changes: Mapping[str, str | None]) -> str:
    """Return why a whole line must become a comment; empty when it need not."""
    pair = entry.parent
    if any(each.value.endswith("\r") for each in entry.pairs):
        return "a carriage return is part of a value"
    if pair.key in (*DESCRIPTORS, *SCRIPT_KEYS):
        return ""
    if pair is not counting[pair.key]:
        same = pair.value == counting[pair.key].value
        return f"{pair.key} stands in another line too" + ("" if same else f": {_DIFFERENT}")
    return "" if changes.get(pair.key) is not None else _is_none(pair)


def _is_none(pair: Pair) -> str:
    """Return why it is no value of its parameter; empty when it is one, or only the job knows."""
    parameter = CATALOGUE.get(pair.key)
    if parameter is not None and ValueSource.USER_CONFIG in parameter.layers and "$" not in pair.value:
        try:
            coerce(pair.key, pair.value)
        except ParameterError as error:
            return f"{error.text!r} is not {error.allowed}"
    return ""


def _contradicting_children(descriptors: Iterable[Entry]) -> Iterator[tuple[Pair, str]]:
    """Yield the keys of descriptor lines that contradict another one, but for those that count."""
    found: dict[tuple[str, str, str], dict[str, Pair]] = {}
    children = [
        ((entry.parent.key, entry.parent.value, pair.key), pair)
        for entry in descriptors
        for pair in entry.children
    ]
    for path, pair in children:
        found.setdefault(path, {}).setdefault(pair.value, pair)
    for path, pair in children:
        *_, counting = found[path].values()  # the last not seen before, as with parameters
        if len(found[path]) > 1 and pair is not counting:
            yield pair, f"{pair.key} is given twice: {_DIFFERENT}"


def _cut(line: str, cuts: list[_Cut]) -> tuple[list[str], str]:
    """Return what is cut out of `line`, as comments, and what is left of it."""
    said = [
        _comment(f"scrtune took this out ({cut.why}): {line[cut.start : cut.end].strip()}") for cut in cuts
    ]
    for cut in reversed(cuts):
        line = (line[: cut.start] + line[cut.end :]).rstrip(" \t")
    return said, line


def _as_comment(rest: str) -> list[str]:
    """Return what is left of a line whose parameter goes: its comment, and what SCR ignored."""
    stripped = rest.strip()
    if not stripped or stripped.startswith("#"):
        return [stripped] if stripped else []
    return [_comment(stripped)]


def _comment(text: str) -> str:
    return "# " + _CONTROL.sub(" ", text)


def _with_added(text: str, added: str) -> str:
    """Return `text` with the lines `added` below HEADING, which goes when nothing is left below it."""
    text = _EMPTY_HEADING.sub("", text)
    if not added:
        return text
    if block := _HEADED.search(text):
        return text[: block.end()] + added + text[block.end() :]
    gap = "\n" if text.rpartition("\n")[0].rpartition("\n")[2] else ""
    return f"{text}{gap}{HEADING}\n{added}"


def _end(pair: Pair) -> int:
    """Return where its value ends in its line, counted from 0."""
    return pair.value_column - 1 + len(pair.raw)
