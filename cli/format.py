"""Texts that the terminal and the page have in common: names, values of parameters, verdicts."""

from typing import NamedTuple

from ..intents.events import Value, Values
from ..intents.tune.decisions import Verdict
from .blocks import Styled

_SMALL_S = 0.1


class VerdictForm(NamedTuple):
    """How a verdict is shown: in a word, its colour on a terminal, its mark (matplotlib) on the page.

    Marks have no colour, since colours stand for time there; that of an active change `is_filled`.
    """

    word: str
    colour: str
    mark: str
    is_filled: bool = False


VERDICTS = {
    Verdict.TRIAL: VerdictForm("on trial", "yellow", "o"),
    Verdict.ACCEPTED: VerdictForm("kept", "green", "^", is_filled=True),
    Verdict.REVERTED: VerdictForm("taken back", "red", "v"),
    Verdict.REQUIRED: VerdictForm("required", "cyan", "s", is_filled=True),
    Verdict.VETOED: VerdictForm("vetoed", "magenta", "x"),
    Verdict.BASELINE: VerdictForm("yours again", "red", "D", is_filled=True),
    Verdict.PENDING: VerdictForm("pending", "blue", "P"),
}


def verdict_cell(verdict: Verdict) -> Styled:
    """Return the verdict on a change in a word."""
    return Styled(VERDICTS[verdict].word, VERDICTS[verdict].colour)


def printable(text: str) -> str:
    """Return `text` with question marks for undecodable bytes and blanks for control characters."""
    shown = text.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in shown)


def value_text(value: Value | None) -> str:
    """Return a parameter's value; ``-`` if it is not set, ``""`` if it is empty."""
    return "-" if value is None else str(value) or '""'


def transitions_text(before: Values, after: Values) -> str:
    """Return ``NAME old -> new`` for each change, sorted by name."""
    return ", ".join(
        f"{name} {value_text(before.get(name))} -> {value_text(value)}"
        for name, value in sorted(after.items())
    )


def seconds_column(seconds: float | None) -> str:
    """Return seconds with two digits after the point, or with two that are not 0; a dash for none."""
    if seconds is None:
        return "-"
    return f"{seconds:#.2g}" if 0 < seconds < _SMALL_S else f"{seconds:,.2f}"
