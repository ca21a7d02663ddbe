"""The decision file: the settings to be in force, for whoever applies them inside an application.

    scrtune-decision 1
    generation 12
    crc32 1a2b3c4d
    SCR_COPY_TYPE=SINGLE
    SCR_FILE_BUF_SIZE=8388608
    end

The checksum is that of the line ``generation`` and of everything behind the line ``crc32``. A decision holds
all that is explicit or was ever tuned, not only what changed: to apply it twice is to apply it once. The
library in `native/` reads the same text.
"""

import re
import zlib

import msgspec

from ...intents.effects import Advice
from ...scr_config.catalogue import text_of

DECISION_LIMIT_BYTES = 64 * 1024
_FORM = re.compile(
    rb"scrtune-decision 1\n(?P<generation>generation [0-9]{1,9}\n)crc32 (?P<crc>[0-9a-f]{8})\n"
    rb"(?P<rest>(?P<lines>(?:[A-Z][A-Z0-9_]*=[^\n\0]*\n)*)end\n)"
)


class DecisionError(ValueError):
    """A text that is no decision, or cannot become one; nothing of it is applied."""


class Decision(msgspec.Struct, frozen=True):
    """The `generation` of the advice and its values as SCR reads them, by name."""

    generation: int
    values: dict[str, str]


def decision_text(advice: Advice) -> str:
    """`advice` as a decision. Raises :class:`DecisionError` for what the form cannot carry."""
    lines = "".join(f"{name}={text_of(value)}\n" for name, value in sorted(advice.settings.items()))
    generation, rest = f"generation {advice.generation}\n", f"{lines}end\n"
    text = f"scrtune-decision 1\n{generation}crc32 {_crc(generation + rest)}\n{rest}"
    if parse_decision(text).values.keys() != advice.settings.keys():
        raise DecisionError("a decision cannot carry a value of several lines")
    return text


def parse_decision(text: str | bytes) -> Decision:
    """The decision that `text` holds, its names and values unchecked. Raises :class:`DecisionError`."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > DECISION_LIMIT_BYTES:
        raise DecisionError(f"a decision has {DECISION_LIMIT_BYTES} bytes at most, this has {len(data)}")
    match = _FORM.fullmatch(data)
    if match is None:
        raise DecisionError("this is no whole decision of version 1")
    if _crc(match["generation"] + match["rest"]) != match["crc"].decode():
        raise DecisionError("the checksum of the decision is wrong: it was not written as it is")
    pairs = [
        line.partition("=") for line in match["lines"].decode("utf-8", "surrogateescape").split("\n")[:-1]
    ]
    names = [name for name, _, _ in pairs]
    if names != sorted(set(names)):
        raise DecisionError("the names of a decision are sorted, and each comes once")
    return Decision(int(match["generation"].split()[1]), {name: value for name, _, value in pairs})


def _crc(data: str | bytes) -> str:
    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return f"{zlib.crc32(data):08x}"
