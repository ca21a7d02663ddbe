"""The environment that a job script gives its application, as far as it can be read without running it.

Scripts of sh, bash, zsh, csh and tcsh: ``export NAME=VALUE``, ``declare -x NAME=VALUE``, ``setenv NAME
VALUE``, ``env NAME=VALUE command`` and ``NAME=VALUE command``. A later one wins. Here-documents and comments
are passed over. Scripts of other languages are not read.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping

import msgspec

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


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One variable. `text` is None when it is known only as the script runs. Positions count from 1.

    `exported`: whether it reaches the application.
    """

    name: str
    text: str | None
    line: int
    column: int
    value_column: int
    exported: bool


class _Word(msgspec.Struct, frozen=True):
    raw: str
    offset: int


def is_job_script(text: str) -> bool:
    """Whether `text` is a script and no config file: an interpreter, a scheduler's options, or an export."""
    return text.startswith("#!") or _SCRIPT.search(text) is not None


def other_language(file: str, text: str) -> str:
    """The language of a script that is none of the shells that are read; empty for those."""
    if file.endswith(".fish"):
        return "fish"
    match = _OTHER_LANGUAGE.match(text)
    return match[1] if match else ""


def nodes_asked_for(text: str) -> int | None:
    """How many nodes its ``#SBATCH``, ``#BSUB``, ``#PBS`` or ``#flux:`` lines ask for; the last one counts.

    None when they do not say. A chunk of PBS's is taken for a node.
    """
    if counts := _NODES.findall(text):
        return int(counts[-1])
    found = [
        _PBS_CHUNKS.fullmatch(part) for line in _PBS.findall(text) for part in re.split(r"[ \t,]+", line)
    ]
    chunks = [match[1] for match in found if match and match[1]]
    return sum(map(_nodes_of_chunk, chunks[-1].split("+"))) if chunks else None


def _nodes_of_chunk(chunk: str) -> int:
    """Of ``4:ppn=8``; a host's name or ``ncpus=8`` is one."""
    match = _CHUNK_COUNT.match(chunk)
    return int(match[0]) if match else 1


def assignments(text: str) -> tuple[Assignment, ...]:
    """The variables that `text` sets and does not unset again, in order. Never raises."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: list[Assignment] = []
    exported: set[str] = set()
    unset: dict[str, int] = {}
    for words in _commands(text):
        command = words[0].raw
        if command in ("unset", "unsetenv"):
            unset.update((word.raw, len(found)) for word in words[1:])
        elif _exports(words):
            exported.update(word.raw.partition("=")[0] for word in words[1:])
        for name, raw, offset, value_offset, reaches in _assigned(words):
            line = bisect_right(starts, offset)
            value_line = bisect_right(starts, value_offset)
            found.append(
                Assignment(
                    name=name,
                    text=_unquoted(raw),
                    line=line,
                    column=offset - starts[line - 1] + 1,
                    value_column=value_offset - starts[value_line - 1] + 1,
                    exported=reaches,
                )
            )
    return tuple(
        msgspec.structs.replace(entry, exported=entry.exported or entry.name in exported)
        for index, entry in enumerate(found)
        if index >= unset.get(entry.name, 0)
    )


def _commands(text: str) -> Iterator[list[_Word]]:
    """The words of each simple command."""
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
    """Where the script goes on after the here-documents that began on the line before."""
    for delimiter in delimiters:
        ends = line_ends.get(delimiter, [])
        index = bisect_right(ends, position)
        if index < len(ends):  # without an end it was no here-document but a shift in an expression
            position = ends[index]
    return position


def _line_ends(text: str) -> dict[str, list[int]]:
    """Where lines that are one word end, by that word."""
    found: dict[str, list[int]] = {}
    for match in re.finditer(r"^[ \t]*(\w+)[ \t]*$", text, re.MULTILINE):
        found.setdefault(match[1], []).append(match.end())
    return found


def _assigned(words: list[_Word]) -> Iterator[tuple[str, str, int, int, bool]]:
    """(name, raw value, offset, offset of the value, whether it reaches the application) of one command."""
    first, rest = words[0].raw, words[1:]
    if first == "setenv":
        if len(rest) > 1:
            yield rest[0].raw, rest[1].raw, rest[0].offset, rest[1].offset, True
        return
    by_command = first in (*_EXPORTS, "env")
    leading = [] if by_command else _leading(words)
    reaches = first == "env" or _exports(words) if by_command else len(leading) < len(words)
    for word in rest if by_command else leading:
        if match := _ASSIGNMENT.fullmatch(word.raw):
            yield match[1], match[2], word.offset, word.offset + match.start(2), reaches


def _exports(words: list[_Word]) -> bool:
    """Whether its variables reach the application: ``export`` but with -n, the others with -x."""
    options = "".join(word.raw for word in words[1:] if word.raw.startswith("-"))
    if words[0].raw == "export":
        return "n" not in options
    return words[0].raw in _EXPORTS and "x" in options


def _leading(words: list[_Word]) -> list[_Word]:
    """The assignments before the command."""
    for count, word in enumerate(words):
        if not _ASSIGNMENT.fullmatch(word.raw):
            return words[:count]
    return words


def _unquoted(raw: str) -> str | None:
    """What the shell makes of a word; None when it depends on what the script has done before."""
    parts: list[str] = []
    for single, double, escaped, plain in _PART.findall(raw):
        if any(mark in (double or plain) for mark in "$`"):
            return None
        parts.append(single or re.sub(r'\\([\\$`"\n])', r"\1", double) or escaped or plain)
    return "".join(parts)
