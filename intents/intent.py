"""What every intent has: its evidence, and a sentence that says it."""

from typing import Protocol

import msgspec

_LOW, _MEDIUM, _HIGH = 1, 3, 10


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What an intent rests on: `count` observations over `window_s` seconds, from `source`.

    What was `declared` is no observation: it has neither count nor confidence to speak of.
    """

    count: int = 0
    window_s: float = 0.0
    source: str = ""
    declared: bool = False

    @property
    def confidence(self) -> str:
        """``none``, ``low`` (1 or 2 observations), ``medium`` (up to 9), ``high``, or ``declared``."""
        if self.declared:
            return "declared"
        if self.count >= _HIGH:
            return "high"
        if self.count >= _MEDIUM:
            return "medium"
        return "low" if self.count >= _LOW else "none"


class Intent(Protocol):
    """One of the study's intents, as observed so far."""

    @property
    def evidence(self) -> Evidence:
        """What it rests on."""
        ...

    def sentence(self) -> str:
        """The intent in one line, with units, for people."""
        ...


def counted(count: int, what: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def bytes_text(count: float) -> str:
    """`count` bytes as people write it: 320 B, 4 KiB, 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:  # noqa: PLR2004
            return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"  # noqa: PLR2004
        count /= 1024
    return f"{count:.3g} TiB"
