"""SCR's config files, read as SCR reads them (scr_config.c), but telling what SCR would stumble over.

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

from .catalogue import CATALOGUE, TOKEN_LIMIT_BYTES
from .problems import Problem, Severity

DESCRIPTORS = ("STORE", "CKPT", "GROUPS")
"""Keys that may occur many times, each value with children of its own."""
SCRIPT_KEYS = ("CNTLDIR", "CACHEDIR")
"""Likewise, but read by SCR's scripts only (scripts/python/scrjob/nodetests/dir_capacity.py)."""

_PAIR = re.compile(r"(?P<key>[^ \t=]+)[ \t]*(?P<equals>=?)[ \t]*(?P<value>[^ \t=]*)")
_BLANKS = re.compile(r"[ \t]*")
_EXPANSION = re.compile(r"\\(?P<escaped>.?)|\$(?P<variable>[A-Za-z_]*)", re.DOTALL)
_BRACED = re.compile(r"\{([A-Za-z_]+)\}")
_VARIABLE = re.compile(r"\$([A-Za-z_]+)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_UPPER = {ord(low): low.upper() for low in "abcdefghijklmnopqrstuvwxyz"}


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One ``KEY=VALUE``: `raw` as written, `value` as SCR takes it. Positions count characters from 1."""

    key: str
    raw: str
    value: str
    line: int
    column: int
    value_column: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: its first pair, and the others."""

    parent: Pair
    children: tuple[Pair, ...] = ()


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file: what it says, in order, and what is wrong with it."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def values(self) -> dict[str, Pair]:
        """The pair that rank 0 takes for each key that is no descriptor.

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
        """The STORE, CKPT and GROUPS lines."""
        return tuple(entry for entry in self.entries if entry.parent.key in DESCRIPTORS)


class _FaultError(Exception):
    """The rest of a line cannot be read."""

    def __init__(self, code: str, column: int, parameter: str, what: str, remedy: str) -> None:
        super().__init__(what)
        self.code, self.column, self.parameter, self.what, self.remedy = code, column, parameter, what, remedy


def parse(text: str, environment: Mapping[str, str]) -> ConfigFile:
    """Read `text`, with ``$NAME`` taken from `environment`. Never raises: what is wrong is in `problems`.

    Undecodable bytes may come as surrogates (``errors="surrogateescape"``); they are kept.
    """
    entries: list[Entry] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), start=1):
        pairs: list[Pair] = []
        try:
            for pair in _pairs(line, number, environment):
                pairs.append(pair)  # noqa: PERF402  a fault in the middle must not lose what stood before it
        except _FaultError as fault:
            problems.append(
                Problem(
                    severity="error",
                    code=fault.code,
                    parameter=fault.parameter,
                    what=fault.what,
                    remedy=fault.remedy,
                    line=number,
                    column=fault.column,
                )
            )
        if pairs:
            entries.append(Entry(parent=pairs[0], children=tuple(pairs[1:])))
    problems.extend(_suspicions(entries))
    problems.sort(key=lambda problem: (problem.line, problem.column))
    return ConfigFile(entries=tuple(entries), problems=tuple(problems))


def assumed(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, in which every variable that `text` names and that is not there stands for itself.

    For reading a file outside its job: what is not set here may well be set there.
    """
    return {name: f"${name}" for name in _VARIABLE.findall(text)} | dict(environment)


def value_oddities(value: str) -> Iterator[tuple[str, str, str]]:
    """(code, what, remedy) for each thing in a value that SCR takes otherwise than most people expect."""
    if "'" in value or '"' in value:
        yield "quotes-kept", "SCR has no quoting: the quotes become part of the value", "leave them out"
    if "#" in value:
        yield (
            "hash-kept",
            "a # within or at the start of a value is part of it",
            "put a comment on its own line",
        )


def _pairs(line: str, number: int, environment: Mapping[str, str]) -> Iterator[Pair]:
    """The pairs of one line. Raises _FaultError at the first that SCR cannot read."""
    position = _after_blanks(line, 0)
    while position < len(line) and line[position] != "#":
        match = _PAIR.match(line, position)
        column = position + 1
        if match is None:
            what = "SCR reads memory it never wrote here, for there is no key before this ="
            raise _FaultError(
                "missing-key", column, "=", what, "values cannot hold =; give one = to each key"
            )
        key = match["key"].translate(_UPPER)
        _check_tokens(match, column, key)
        raw = match["value"]
        value = _expand(raw, environment, match.start("value") + 1, key)
        yield Pair(
            key=key, raw=raw, value=value, line=number, column=column, value_column=match.start("value") + 1
        )
        position = _after_blanks(line, match.end())


def _after_blanks(line: str, position: int) -> int:
    blanks = _BLANKS.match(line, position)
    return blanks.end() if blanks else position


def _check_tokens(match: re.Match[str], column: int, key: str) -> None:
    """Raise _FaultError for a pair on which SCR fails."""
    shown = key[:40]
    if not match["equals"]:
        what = f"{shown!r} has no =: rank 0 crashes, hangs or swallows the next line in SCR_Init"
        raise _FaultError("no-equals", column, shown, what, "write KEY=VALUE, and values without spaces")
    if not match["value"]:
        what = "there is no value: SCR takes whatever is in memory"
        raise _FaultError("no-value", match.end("equals"), shown, what, "give a value or delete the line")
    for name in ("key", "value"):
        if "\0" in match[name]:
            what = f"a NUL byte cuts the {name} off"
            raise _FaultError("nul", match.start(name) + 1, shown, what, "delete it; is this a text file?")
        if len(match[name].encode(errors="replace")) > TOKEN_LIMIT_BYTES:
            what = f"the {name} is longer than SCR's {TOKEN_LIMIT_BYTES} bytes"
            raise _FaultError("too-long", match.start(name) + 1, shown, what, "shorten it")


def _expand(raw: str, environment: Mapping[str, str], column: int, key: str) -> str:
    """Backslashes and ``$NAME`` of a value, as scr_expand_value does."""

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
        raise _FaultError("unset-variable", column + match.start(), key[:40], what, remedy)

    value = _EXPANSION.sub(replace, raw)
    if len(value.encode(errors="replace")) > TOKEN_LIMIT_BYTES + 1:
        what = f"with its variables the value is longer than {TOKEN_LIMIT_BYTES + 1} bytes: SCR drops it"
        raise _FaultError("too-long", column, key[:40], what, "shorten it")
    return value


def _suspicions(entries: list[Entry]) -> Iterator[Problem]:
    """What SCR reads without complaint, and not as it was meant."""
    seen: dict[tuple[str, ...], Pair] = {}
    for entry in entries:
        parent, is_descriptor = entry.parent, entry.parent.key in (*DESCRIPTORS, *SCRIPT_KEYS)
        if parent.key in CATALOGUE:
            yield from _duplicate(seen, (parent.key,), parent)
        elif not is_descriptor:
            what = "SCR has no such parameter and ignores it"
            yield _about(parent, "unknown-name", what, "check the spelling")
        for child in entry.children:
            if is_descriptor:
                yield from _duplicate(seen, (parent.key, parent.value, child.key), child)
            else:
                what = f"the second pair of a line belongs to the first ({parent.key}): SCR ignores it"
                yield _about(child, "ignored-child", what, "put it on a line of its own")
        for pair in (parent, *entry.children):
            for code, what, remedy in value_oddities(pair.value):
                yield _about(pair, code, what, remedy)
            if pair.value.endswith("\r"):
                what = "the carriage return of a DOS line end is part of the value"
                yield _about(pair, "carriage-return", what, "convert the file to Unix line ends", "error")


def _duplicate(seen: dict[tuple[str, ...], Pair], path: tuple[str, ...], pair: Pair) -> Iterator[Problem]:
    """Whether `pair` says again, or otherwise, what was said before at `path`."""
    earlier = seen.setdefault(path, pair)
    if earlier is pair:
        return
    if earlier.value == pair.value:
        yield _about(pair, "repeated", f"line {earlier.line} says the same", "delete one of the two")
    else:
        what = f"line {earlier.line} gives another value: ranks take different ones, and the job hangs"
        yield _about(pair, "duplicate", what, "keep one of the two", "error")


def _about(pair: Pair, code: str, what: str, remedy: str, severity: Severity = "warning") -> Problem:
    return Problem(
        severity=severity,
        code=code,
        parameter=pair.key,
        what=what,
        remedy=remedy,
        line=pair.line,
        column=pair.column,
    )
