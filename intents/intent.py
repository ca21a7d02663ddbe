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
