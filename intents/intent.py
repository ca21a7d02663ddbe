"""The parts of every intent: its evidence, and a sentence for people."""

from math import inf
from typing import ClassVar

import msgspec

from .events import TextEnum

_LOW, _MEDIUM, _HIGH = 1, 3, 10


class Confidence(TextEnum):
    """The confidence in an intent: NONE, LOW (1 or 2 observations), MEDIUM (up to 9), HIGH, or DECLARED."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    DECLARED = "declared"


class Evidence(msgspec.Struct, frozen=True):
    """The basis of an intent: `count` observations over `window_s` seconds, from `source`, or `declared`.

    `end_s` is the epoch time of the newest, 0 when there is none. `is_partial`: most of what should have been
    observed was not; the confidence is then low, however many there are.
    """

    count: int = 0
    window_s: float = 0.0
    end_s: float = 0.0
    source: str = ""
    declared: bool = False
    is_partial: bool = False

    @property
    def confidence(self) -> Confidence:
        """The confidence that follows from the number of observations."""
        if self.declared:
            return Confidence.DECLARED
        if self.is_partial:
            return Confidence.LOW
        if self.count >= _HIGH:
            return Confidence.HIGH
        if self.count >= _MEDIUM:
            return Confidence.MEDIUM
        return Confidence.LOW if self.count >= _LOW else Confidence.NONE


class EvidenceWindow:
    """When something was observed: from the first time to the last one (epoch seconds)."""

    def __init__(self) -> None:
        self.start_s, self.end_s = inf, 0.0

    def add(self, start_s: float, end_s: float) -> None:
        """Take in an observation that lasted from `start_s` to `end_s`."""
        self.start_s, self.end_s = min(self.start_s, start_s), max(self.end_s, end_s)

    def evidence(self, count: int, source: str, **more: bool) -> Evidence:
        """Return the evidence of `count` observations in this time; `more` as in :class:`Evidence`."""
        return Evidence(count, max(0.0, self.end_s - self.start_s), self.end_s, source, **more)


class Intent:
    """One of the study's intents, as observed so far: a Struct with its `evidence`.

    `title` is its name in ``scrtune explain``, `number` the study's. Without evidence its sentence is
    `unseen`, where that is not empty.
    """

    __slots__ = ()
    title: ClassVar[str]
    number: ClassVar[int]
    unseen: ClassVar[str] = ""

    @property
    def evidence(self) -> Evidence:
        """The basis of the intent."""
        raise NotImplementedError

    def sentence(self) -> str:
        """Return the intent in one line, with units, for people."""
        return self._text() if self.evidence.count or not self.unseen else self.unseen

    def _text(self) -> str:
        raise NotImplementedError
