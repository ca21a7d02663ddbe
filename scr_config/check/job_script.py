"""The environment that a job script gives its application, as far as it can be read without running it.

Scripts of sh, bash and zsh: ``export NAME=VALUE``, ``declare -x NAME=VALUE``, ``env NAME=VALUE command`` and
``NAME=VALUE command``. A later one wins. Here-documents and comments are passed over. Scripts of other
languages are not read.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

from ..parse import Pair

_TOKEN = re.compile(
    r"#[^\n]*|\\\n|<<<"
    r"|<<-?[ \t]*(?P<quote>['\"]?)(?P<mark>[A-Za-z_]\w*)(?P=quote)(?:[^\n]*\n)+?[ \t]*(?P=mark)[ \t]*$"
    r"|(?P<separator>[\n;&|()<>])"
    r"|(?P<word>(?:'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"|\\[^\n]|[^\s'\"\\;&|()<>])+)",
    re.MULTILINE,
)
_LITERAL = re.compile(r"'[^']*'|(\"(?:[^\"\\]|\\[\s\S])*\")|\\[\s\S]")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([\s\S]*)")
_SCRIPT = re.compile(
    r"^[ \t]*export[ \t]+[A-Za-z_]|^#(?:SBATCH|BSUB|PBS)|^#[ \t]*(?:flux|FLUX):", re.MULTILINE
)
_LANGUAGES = "t?csh|fish|python|perl|ruby|tclsh|lua|pwsh|nu|xonsh|elvish"
_OTHER_LANGUAGE = re.compile(rf"#!.*?\b({_LANGUAGES})[0-9.]*(?:[ \t\n]|$)")
_ENDING = re.compile(r"\.(t?csh|fish|py)$")
_NAMES = {"py": "python, which is no shell script and no config file"}
_NODES = re.compile(
    r"^#(?:SBATCH|BSUB|[ \t]*(?:flux|FLUX):)[^\n]*?[ \t](?:-N|--nodes|-nnodes)[= \t]*(\d{1,7})(?![-\d])",
    re.MULTILINE,
)
_PBS_CHUNKS = re.compile(r"^#PBS[^\n]*?[ \t,](?:-l)?(?:nodes|select)=([^\s,]+)", re.MULTILINE)
_CHUNK_COUNT = re.compile(r"(\d{1,7})(?:$|:)")
_DECLARES = ("declare", "typeset")
_PREFIXES = ("then", "do", "else", "!", "time", "exec", "if", "elif", "while", "until", "{")

_Words = list[re.Match[str]]


class Assignment(Pair, frozen=True, kw_only=True):
    """One variable of a job script. `exported`: whether it reaches the application.

    The value is ``$`` when it depends on what the script has done before.
    """

    exported: bool


def is_job_script(text: str) -> bool:
    """Return whether `text` is a script: it names an interpreter or a scheduler's options, or it exports."""
    return text.startswith("#!") or _SCRIPT.search(text) is not None


def other_language(file: str, text: str) -> str:
    """Return the language of a script that is not read; empty for scripts of sh, bash and zsh."""
    match = _ENDING.search(file) or _OTHER_LANGUAGE.match(text)
    return _NAMES.get(match[1], match[1]) if match else ""


def nodes_asked_for(text: str) -> int | None:
    """Return the nodes that the last ``#SBATCH``, ``#BSUB``, ``#PBS`` or ``#flux:`` line with some asks for.

    None when they do not say. A PBS chunk without a number, such as ``ncpus=8`` or a host, is one node.
    """
    if counts := _NODES.findall(text):
        return int(counts[-1])
    if not (found := _PBS_CHUNKS.findall(text)):
        return None
    matches = map(_CHUNK_COUNT.match, found[-1].split("+"))
    return sum(int(match[1]) if match else 1 for match in matches)


def assignments(text: str, file: str = "") -> tuple[Assignment, ...]:
    """Return the variables that the script `file` sets, in order. Never raises."""
    commands = list(_commands(text))
    exported = {word[0].partition("=")[0] for words in commands if _exports(words) for word in words[1:]}
    return tuple(
        Assignment(
            key=match[1],
            raw=match[2],
            value=_unquoted(match[2]),
            line=text.count("\n", 0, word.start()) + 1,
            column=(column := word.start() - text.rfind("\n", 0, word.start())),
            value_column=column + match.start(2),
            file=file,
            exported=reaches or match[1] in exported,
        )
        for words in commands
        for word, match, reaches in _assigned(words)
    )


def _commands(text: str) -> Iterator[_Words]:
    """Yield the words of each simple command."""
    words: _Words = []
    for token in _TOKEN.finditer(text):
        if token["separator"] or token["word"] == "{":  # what stands before { is the name of a function
            if words:
                yield words
            words = []
        elif token["word"] and (words or token["word"] not in _PREFIXES):
            words.append(token)
    if words:
        yield words


def _exports(words: _Words) -> bool:
    """Return whether its variables reach the application: ``export`` but with -n, the others with -x."""
    options = "".join(word[0] for word in words if word[0].startswith("-"))
    if words[0][0] == "export":
        return "n" not in options
    return words[0][0] in _DECLARES and "x" in options


def _assigned(words: _Words) -> Iterator[tuple[re.Match[str], re.Match[str], bool]]:
    """Yield (word, name and value in it, whether it reaches the application) of each assignment."""
    first = words[0][0]
    if first in ("export", "env", *_DECLARES):
        rest, reaches = words[1:], first == "env" or _exports(words)
    else:
        rest = list(takewhile(lambda word: _ASSIGNMENT.fullmatch(word[0]), words))
        reaches = len(rest) < len(words)
    for word in rest:
        if match := _ASSIGNMENT.fullmatch(word[0]):
            yield word, match, reaches


def _unquoted(raw: str) -> str:
    """Return what the shell makes of a word; ``$`` when it depends on what the script has done before."""
    return "$" if re.search("[$`]", _LITERAL.sub(r"\1", raw)) else "".join(shlex.split(raw))
