"""The decision file: the settings to be active, for whoever applies them inside an application.

    scrtune-decision 1
    generation 12
    crc32 1a2b3c4d
    SCR_COPY_TYPE=SINGLE
    SCR_FILE_BUF_SIZE=8388608
    end

The checksum is that of the line ``generation`` and of everything behind the line ``crc32``. A decision holds
all that is explicit or was ever tuned: to apply it twice is to apply it once. There is one file for each job
and node. `native/decision.c` accepts and refuses the same texts.
"""

import re
import zlib
from pathlib import Path

import msgspec

from ..intents.effects import Advice
from ..intents.events import Values
from .catalogue import ParameterError, coerce, text_of
from .files import file_identity, read_own

DECISION_LIMIT_BYTES = 64 * 1024
_FORM = re.compile(
    rb"scrtune-decision 1\n(?P<generation>generation [0-9]{1,9}\n)crc32 (?P<crc>[0-9a-f]{8})\n"
    rb"(?P<rest>(?P<lines>(?:[A-Z][A-Z0-9_]*=[^\n\0]*\n)*)end\n)"
)
_LINE_END = re.compile(r"[\n\0]")


class DecisionError(ValueError):
    """A text that is no decision; nothing of it is applied."""


class ParsedDecision(msgspec.Struct, frozen=True):
    """The `generation` of the advice and its values as SCR reads them, by name."""

    generation: int
    values: dict[str, str]

    def settings(self) -> Values:
        """Return the values by their types. Raises :class:`DecisionError` for a value that is none."""
        try:
            return {name: coerce(name, text) for name, text in self.values.items()}
        except ParameterError as error:
            raise DecisionError(str(error)) from error


def decision_text(advice: Advice) -> str:
    """Return the settings of `advice` as a decision.

    A value of several lines is left out: it came from the environment, where it stays active. Raises
    :class:`DecisionError` for what the form cannot carry.
    """
    texts = {name: text_of(value) for name, value in sorted(advice.settings.items())}
    lines = "".join(f"{name}={text}\n" for name, text in texts.items() if not _LINE_END.search(text))
    generation, rest = f"generation {advice.generation}\n", f"{lines}end\n"
    crc = _crc(f"{generation}{rest}".encode("utf-8", "surrogateescape"))
    text = f"scrtune-decision 1\n{generation}crc32 {crc}\n{rest}"
    parse_decision(text)
    return text


def parse_decision(text: str | bytes) -> ParsedDecision:
    """Return the decision that `text` holds, names and values unchecked. Raises :class:`DecisionError`."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > DECISION_LIMIT_BYTES:
        raise DecisionError(f"a decision has {DECISION_LIMIT_BYTES} bytes at most, this has {len(data)}")
    if (match := _FORM.fullmatch(data)) is None:
        raise DecisionError("this is no whole decision of version 1")
    if _crc(match["generation"] + match["rest"]) != match["crc"].decode():
        raise DecisionError("the checksum of the decision is wrong: it was not written as it is")
    lines = match["lines"].decode("utf-8", "surrogateescape").split("\n")[:-1]
    values = dict(line.split("=", 1) for line in lines)
    if len(values) < len(lines) or list(values) != sorted(values):
        raise DecisionError("the names of a decision are sorted, and each comes once")
    return ParsedDecision(int(match["generation"].split()[1]), values)


class DecisionFile:
    """The decision file at `path`, looked at again and again: a look at one that is unchanged is one stat."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: tuple[int, ...] = ()

    def look(self) -> ParsedDecision | None:
        """Return the decision, or None when the file is the one of the last look, or not there.

        No link is followed and nothing is waited for, whatever lies there. Raises :class:`DecisionError` for
        what is no decision of ours, once for each file.
        """
        try:
            seen = file_identity(self._path.lstat())
        except OSError:
            return None
        if seen == self._last:
            return None
        self._last = seen
        try:
            data = read_own(self._path, DECISION_LIMIT_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DecisionError(f"{self._path}: it cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise DecisionError(f"{self._path}: {error}") from error
        return parse_decision(data)


def _crc(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"
