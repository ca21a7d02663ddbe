"""The environment that a job script gives its application, as far as it can be read without running it.

Scripts of sh, bash, zsh, csh and tcsh: ``export NAME=VALUE``, ``declare -x NAME=VALUE``, ``setenv NAME
VALUE``, ``env NAME=VALUE command`` and ``NAME=VALUE command``. A later one wins. Here-documents and comments
are passed over. Scripts of other languages are not read.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import takewhile

import msgspec

from ..parse import Pair

_TOKEN = re.compile(
    r"#[^\n]*"
    r"|\\\n|<<<"
    r"|(?P<heredoc><<-?[ \t]*(?P<mark>['\"]?)(?P<delimiter>[A-Za-z_]\w*)(?P=mark))"
    r"|(?P<separator>[\n;&|()<>])"
    r"|(?P<word>(?:'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"|\\[^\n]|[^\s'\"\\;&|()<>])+)"
)
_PART = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\[\s\S])*)\"|\\([\s\S])|([^'\"\\]+)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([\s\S]*)")
_SCRIPT = re.compile(
    r"^[ \t]*(?:export|setenv)[ \t]+[A-Za-z_]|^#(?:SBATCH|BSUB|PBS)|^#[ \t]*(?:flux|FLUX):", re.MULTILINE
)
_OTHER_LANGUAGE = re.compile(
    r"#!.*?\b(fish|python|perl|ruby|tclsh|lua|pwsh|nu|xonsh|elvish)[0-9.]*(?:[ \t\n]|$)"
)
_NODES = re.compile(
    r"^#(?:SBATCH|BSUB|[ \t]*(?:flux|FLUX):)[^\n]*?[ \t](?:-N|--nodes|-nnodes)[= \t]*(\d{1,7})(?![-\d])",
    re.MULTILINE,
)
_PBS = re.compile(r"^#PBS[ \t]([^\n]*)", re.MULTILINE)
_PBS_CHUNKS = re.compile(r"(?:-l)?(?:nodes|select)=(.*)")
_CHUNK_COUNT = re.compile(r"\d{1,7}(?=$|:)")
_EXPORTS = ("export", "declare", "typeset")
_PREFIXES = ("then", "do", "else", "!", "time", "exec", "if", "elif", "while", "until")


class Assignment(Pair, frozen=True, kw_only=True):
    """One variable of a job script. `exported`: whether it reaches the application.

    The value is ``$`` when it depends on what the script has done before.
    """

    exported: bool


class _Word(msgspec.Struct, frozen=True):
    raw: str
    offset: int


def is_job_script(text: str) -> bool:
    """Return whether `text` is a script: it names an interpreter or a scheduler's options, or it exports."""
    return text.startswith("#!") or _SCRIPT.search(text) is not None


def other_language(file: str, text: str) -> str:
    """Return the language of a script that no shell known here reads; empty for scripts of those shells."""
    if file.endswith(".fish"):
        return "fish"
    match = _OTHER_LANGUAGE.match(text)
    return match[1] if match else ""


def nodes_asked_for(text: str) -> int | None:
    """Return the nodes that the last ``#SBATCH``, ``#BSUB``, ``#PBS`` or ``#flux:`` line with some asks for.

    None when they do not say. A PBS chunk counts as one node.
    """
    if counts := _NODES.findall(text):
        return int(counts[-1])
    found = [
        _PBS_CHUNKS.fullmatch(part) for line in _PBS.findall(text) for part in re.split(r"[ \t,]+", line)
    ]
    chunks = [match[1] for match in found if match and match[1]]
    return sum(map(_nodes_of_chunk, chunks[-1].split("+"))) if chunks else None


def _nodes_of_chunk(chunk: str) -> int:
    """Return 4 for ``4:ppn=8``; a host's name or ``ncpus=8`` is one node."""
    match = _CHUNK_COUNT.match(chunk)
    return int(match[0]) if match else 1


def assignments(text: str, file: str = "") -> tuple[Assignment, ...]:
    """Return the variables that the script `file` sets and does not unset again, in order. Never raises."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: list[Assignment] = []
    exported: set[str] = set()
    unset: dict[str, int] = {}
    for words in _commands(text):
        if words[0].raw in ("unset", "unsetenv"):
            unset.update((word.raw, len(found)) for word in words[1:])
        elif _exports(words):
            exported.update(word.raw.partition("=")[0] for word in words[1:])
        for name, value, reaches in _assigned(words):
            line, column = _position(starts, name.offset)
            found.append(
                Assignment(
                    key=name.raw,
                    raw=value.raw,
                    value=_unquoted(value.raw),
                    line=line,
                    column=column,
                    value_column=_position(starts, value.offset)[1],
                    file=file,
                    exported=reaches,
                )
            )
    return tuple(
        msgspec.structs.replace(entry, exported=entry.exported or entry.key in exported)
        for index, entry in enumerate(found)
        if index >= unset.get(entry.key, 0)
    )


def _position(starts: list[int], offset: int) -> tuple[int, int]:
    """Return line and column, counted from 1."""
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


def _commands(text: str) -> Iterator[list[_Word]]:
    """Yield the words of each simple command."""
    words: list[_Word] = []
    waiting: list[str] = []
    line_ends = _line_ends(text)
    position = 0
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["heredoc"]:
            waiting.append(match["delimiter"])
        elif match["word"] == "{":
            words = []  # what stands before it is the name of a function
        elif match["word"]:
            if words or match["word"] not in _PREFIXES:
                words.append(_Word(match["word"], match.start()))
        elif match["separator"]:
            if words:
                yield words
            words = []
            if match["separator"] == "\n":
                position = _after_documents(line_ends, position, waiting)
                waiting = []
    if words:
        yield words


def _after_documents(line_ends: Mapping[str, list[int]], position: int, delimiters: list[str]) -> int:
    """Return where the script goes on after the here-documents that began on the line before."""
    for delimiter in delimiters:
        ends = line_ends.get(delimiter, [])
        index = bisect_right(ends, position)
        if index < len(ends):  # without an end it was no here-document but a shift in an expression
            position = ends[index]
    return position


def _line_ends(text: str) -> dict[str, list[int]]:
    """Return the ends of the lines that are one word, by that word."""
    found: dict[str, list[int]] = {}
    for match in re.finditer(r"^[ \t]*(\w+)[ \t]*$", text, re.MULTILINE):
        found.setdefault(match[1], []).append(match.end())
    return found


def _assigned(words: list[_Word]) -> Iterator[tuple[_Word, _Word, bool]]:
    """Yield (name, value, whether it reaches the application) of each assignment of one command."""
    first, rest = words[0].raw, words[1:]
    if first == "setenv":
        if len(rest) > 1:
            yield rest[0], rest[1], True
        return
    if first in (*_EXPORTS, "env"):
        reaches = first == "env" or _exports(words)
    else:
        rest = list(takewhile(lambda word: _ASSIGNMENT.fullmatch(word.raw), words))
        reaches = len(rest) < len(words)
    for word in rest:
        if match := _ASSIGNMENT.fullmatch(word.raw):
            yield _Word(match[1], word.offset), _Word(match[2], word.offset + match.start(2)), reaches


def _exports(words: list[_Word]) -> bool:
    """Return whether its variables reach the application: ``export`` but with -n, the others with -x."""
    options = "".join(word.raw for word in words[1:] if word.raw.startswith("-"))
    if words[0].raw == "export":
        return "n" not in options
    return words[0].raw in _EXPORTS and "x" in options


def _unquoted(raw: str) -> str:
    """Return what the shell makes of a word; ``$`` when it depends on what the script has done before."""
    parts: list[str] = []
    for single, double, escaped, plain in _PART.findall(raw):
        if any(mark in (double or plain) for mark in "$`"):
            return "$"
        parts.append(single or re.sub(r'\\([\\$`"\n])', r"\1", double) or escaped or plain)
    return "".join(parts)
