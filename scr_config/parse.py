"""SCR's config files, read as SCR reads them (scr_config.c), with a problem for each thing that SCR fails on.

``KEY=VALUE [KEY=VALUE ...]`` a line: the first pair is the parent, the others are its children. Blanks are
spaces and tabs; they end a token, and so does ``=``. There is no quoting. ``#`` starts a comment only where a
key could start. In a value a backslash takes the next character as it is (or as C does, a t for a tab), and
``$NAME`` takes letters and ``_`` only and must be set. A key is upper-cased.

Where SCR's reader crashes, never ends or reads memory it never wrote, this one notes an error, keeps what
stood before on the line and goes on with the next line.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from .catalogue import CATALOGUE, SCRIPT_KEYS, TOKEN_LIMIT_BYTES, suggestion
from .problems import Code, ConfigProblem, Severity

DESCRIPTORS = ("STORE", "CKPT", "GROUPS")
"""Keys that may occur many times, each value with children of its own."""

_BYTE_ORDER_MARK = "\ufeff"
_BOM_REMEDY = "save the file as UTF-8 without a byte order mark (BOM)"
_UNIX_LINE_ENDS = "convert the file to Unix line ends"
_MOST_SUGGESTIONS = 100  # a file with more unknown names is no config file, and each costs a millisecond
_PAIR = re.compile(r"(?P<key>[^ \t=]+)[ \t]*(?P<equals>=?)[ \t]*(?P<value>[^ \t=]*)[ \t]*")
_EXPANSION = re.compile(r"\\(?P<escaped>.?)|\$(?P<variable>[A-Za-z_]*)", re.DOTALL)
_BRACED = re.compile(r"\{([A-Za-z_]+)\}")
_VARIABLE = re.compile(r"\$([A-Za-z_]+)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_UPPER = {ord(low): low.upper() for low in "abcdefghijklmnopqrstuvwxyz"}


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One ``KEY=VALUE`` where it stands: `raw` as written, `value` as SCR takes it.

    Positions count characters from 1 and are 0 outside files; `file` is as the caller named it.
    """

    key: str
    raw: str
    value: str
    line: int = 0
    column: int = 0
    value_column: int = 0
    file: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether the value has no variable left that only the job can expand."""
        return "$" not in self.value


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: its first pair, and the others."""

    parent: Pair
    children: tuple[Pair, ...] = ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Return all pairs of the line, in order."""
        return (self.parent, *self.children)

    def child(self, key: str) -> Pair | None:
        """Return the first child with that key, None when there is none."""
        return next((pair for pair in self.children if pair.key == key), None)


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file: its lines in order, and what is wrong with them."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()

    @property
    def values(self) -> dict[str, Pair]:
        """Return the pair that rank 0 takes for each key that is no descriptor.

        With a duplicate that is the last value not seen before: kvtree inserts at the head of its list.
        """
        found: dict[str, Pair] = {}
        seen: set[tuple[str, str]] = set()
        for parent in (entry.parent for entry in self.entries):
            if parent.key not in DESCRIPTORS and (parent.key, parent.value) not in seen:
                seen.add((parent.key, parent.value))
                found[parent.key] = parent
        return found

    @property
    def descriptors(self) -> tuple[Entry, ...]:
        """Return the STORE, CKPT and GROUPS lines."""
        return tuple(entry for entry in self.entries if entry.parent.key in DESCRIPTORS)


class _UnreadableError(Exception):
    """The rest of a line cannot be read; the line number of `problem` is still missing."""

    def __init__(self, code: Code, column: int, parameter: str, what: str, remedy: str) -> None:
        super().__init__(what)
        self.problem = ConfigProblem(Severity.ERROR, code, parameter, what, remedy, column=column)


def parse(text: str, environment: Mapping[str, str], file: str = "") -> ConfigFile:
    """Read `text`, with ``$NAME`` taken from `environment`. Never raises: what is wrong is in `problems`.

    `file` is the name that the pairs carry. Surrogates that stand for undecodable bytes are kept.
    """
    entries: list[Entry] = []
    problems: list[ConfigProblem] = []
    for number, line in enumerate(text.split("\n"), start=1):
        pairs: list[Pair] = []
        try:
            for pair in _pairs(line, number, file, environment):
                pairs.append(pair)  # noqa: PERF402  an error in the middle must not lose what stood before it
        except _UnreadableError as error:
            problems.append(msgspec.structs.replace(error.problem, line=number))
        if pairs:
            entries.append(Entry(parent=pairs[0], children=tuple(pairs[1:])))
    problems.extend(_suspicions(entries))
    problems.sort(key=lambda problem: (problem.line, problem.column))
    return ConfigFile(entries=tuple(entries), problems=tuple(problems))


def assumed(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment`, in which every missing variable that `text` names stands for itself.

    This is for reading a file outside its job: what is not set here may be set there.
    """
    return {name: f"${name}" for name in _VARIABLE.findall(text)} | dict(environment)


def value_oddities(value: str) -> Iterator[tuple[Code, str, str]]:
    """Yield (code, what, remedy) for each thing in a value that SCR reads otherwise than people expect."""
    if "'" in value or '"' in value:
        yield Code.QUOTES_KEPT, "SCR has no quoting: the quotes become part of the value", "leave them out"
    if "#" in value:
        what = "a # within or at the start of a value is part of it"
        yield Code.HASH_KEPT, what, "put a comment on its own line"


def _pairs(line: str, number: int, file: str, environment: Mapping[str, str]) -> Iterator[Pair]:
    """Yield the pairs of one line. Raises _UnreadableError at the first that SCR cannot read."""
    position = len(line) - len(line.lstrip(" \t"))
    while position < len(line) and line[position] != "#":
        match = _PAIR.match(line, position)
        column = position + 1
        if match is None:
            what = "SCR reads memory it never wrote here, for there is no key before this ="
            remedy = "values cannot hold =; give one = to each key"
            raise _UnreadableError(Code.MISSING_KEY, column, "=", what, remedy)
        key, raw, value_column = match["key"].translate(_UPPER), match["value"], match.start("value") + 1
        _check_tokens(match, column, key)
        value = _expand(raw, environment, value_column, key)
        yield Pair(
            key=key, raw=raw, value=value, line=number, column=column, value_column=value_column, file=file
        )
        position = match.end()


def _check_tokens(match: re.Match[str], column: int, key: str) -> None:
    """Raise _UnreadableError for a pair on which SCR fails."""
    shown = key[:40]
    if not match["equals"]:
        what, remedy = f"{shown!r} has no =", "write KEY=VALUE, and values without spaces"
        if key == "\r":
            what, remedy = "the carriage return of a DOS line end is a name without =", _UNIX_LINE_ENDS
        elif key.startswith(_BYTE_ORDER_MARK):
            what, remedy = f"a byte order mark stands before {shown[1:]!r}, which has no =", _BOM_REMEDY
        what += ": rank 0 crashes, hangs or swallows the next line in SCR_Init"
        raise _UnreadableError(Code.NO_EQUALS, column, shown, what, remedy)
    if not match["value"]:
        what = "there is no value: SCR takes whatever is in memory"
        raise _UnreadableError(
            Code.NO_VALUE, match.end("equals"), shown, what, "give a value or delete the line"
        )
    for name in ("key", "value"):
        if "\0" in match[name]:
            what = f"a NUL byte cuts the {name} off"
            raise _UnreadableError(
                Code.NUL, match.start(name) + 1, shown, what, "delete it; is this a text file?"
            )
        if len(match[name].encode(errors="replace")) > TOKEN_LIMIT_BYTES:
            what = f"the {name} is longer than SCR's {TOKEN_LIMIT_BYTES} bytes"
            raise _UnreadableError(Code.TOO_LONG, match.start(name) + 1, shown, what, "shorten it")


def _expand(raw: str, environment: Mapping[str, str], column: int, key: str) -> str:
    """Return the value with backslashes and ``$NAME`` expanded, as scr_expand_value does."""

    def replace(match: re.Match[str]) -> str:
        if (escaped := match["escaped"]) is not None:
            return _ESCAPES.get(escaped, escaped)
        name = match["variable"]
        if name in environment:
            return environment[name]
        what = f"${name} is not set (SCR takes letters and _ only): SCR drops the value"
        remedy = f"export {name}" if name else "write the value itself; ${NAME} and $1 do not work here"
        if not name and (braced := _BRACED.match(raw, match.end())):
            what = f"SCR does not know ${braced[0]}: it drops the value"
            remedy = f"write ${braced[1]}"
        raise _UnreadableError(Code.UNSET_VARIABLE, column + match.start(), key[:40], what, remedy)

    value = _EXPANSION.sub(replace, raw)
    if len(value.encode(errors="replace")) > TOKEN_LIMIT_BYTES + 1:
        what = f"with its variables the value is longer than {TOKEN_LIMIT_BYTES + 1} bytes: SCR drops it"
        raise _UnreadableError(Code.TOO_LONG, column, key[:40], what, "shorten it")
    return value


def _suspicions(entries: list[Entry]) -> Iterator[ConfigProblem]:
    """Yield what SCR reads without complaint, and not as it was meant."""
    seen: dict[tuple[str, ...], Pair] = {}
    unknown: set[str] = set()
    for entry in entries:
        parent, is_descriptor = entry.parent, entry.parent.key in (*DESCRIPTORS, *SCRIPT_KEYS)
        if parent.key in CATALOGUE:
            yield from _duplicate(seen, (parent.key,), parent)
        elif not is_descriptor:
            unknown.add(parent.key)
            yield unknown_name(parent, suggest=len(unknown) <= _MOST_SUGGESTIONS)
        for child in entry.children:
            if is_descriptor:
                yield from _duplicate(seen, (parent.key, parent.value, child.key), child)
            else:
                what = f"the second pair of a line belongs to the first ({parent.key}): SCR ignores it"
                yield problem_at(child, Code.IGNORED_CHILD, what, "put it on a line of its own")
        for pair in entry.pairs:
            for code, what, remedy in value_oddities(pair.value):
                yield problem_at(pair, code, what, remedy)
            if pair.value.endswith("\r"):
                what = "the carriage return of a DOS line end is part of the value"
                yield problem_at(pair, Code.CARRIAGE_RETURN, what, _UNIX_LINE_ENDS, Severity.ERROR)


def _duplicate(
    seen: dict[tuple[str, ...], Pair], path: tuple[str, ...], pair: Pair
) -> Iterator[ConfigProblem]:
    """Yield the problem of a `pair` whose key was given at `path` before, with the same value or another."""
    earlier = seen.setdefault(path, pair)
    if earlier is pair:
        return
    if earlier.value == pair.value:
        yield problem_at(pair, Code.REPEATED, f"line {earlier.line} says the same", "delete one of the two")
    else:
        what = f"line {earlier.line} gives another value: ranks take different ones, and the job hangs"
        yield problem_at(pair, Code.DUPLICATE, what, "keep one of the two", Severity.ERROR)


def unknown_name(pair: Pair, *, suggest: bool = True) -> ConfigProblem:
    """Return the problem of a pair that is no parameter, with the name that was meant if `suggest`."""
    what, remedy = "SCR has no such parameter and ignores it", "check the spelling"
    if pair.key.startswith(_BYTE_ORDER_MARK):
        before = f"a byte order mark stands before {pair.key[1:]}, and SCR takes it for part of the name"
        return problem_at(pair, Code.UNKNOWN_NAME, f"{before}: {what}", _BOM_REMEDY)
    return problem_at(pair, Code.UNKNOWN_NAME, what, (suggest and suggestion(pair.key)) or remedy)


def problem_at(
    pair: Pair, code: Code, what: str, remedy: str, severity: Severity = Severity.WARNING
) -> ConfigProblem:
    """Return a problem at the key of `pair`."""
    return ConfigProblem(severity, code, pair.key, what, remedy, pair.line, pair.column)
