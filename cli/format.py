"""Texts that the terminal and the page have in common: names, values of parameters, verdicts."""

from ..intents.events import Value, Values
from ..intents.tune.decisions import Verdict

VERDICT_WORDS = {
    Verdict.TRIAL: "on trial",
    Verdict.ACCEPTED: "kept",
    Verdict.REVERTED: "taken back",
    Verdict.REQUIRED: "required",
    Verdict.VETOED: "vetoed",
    Verdict.BASELINE: "yours again",
    Verdict.PENDING: "pending",
}


def printable(text: str) -> str:
    """Return `text` with question marks for undecodable bytes and blanks for control characters."""
    shown = text.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in shown)


def value_text(value: Value | None) -> str:
    """Return a parameter's value; ``-`` if it is not set, ``""`` if it is empty."""
    return "-" if value is None else str(value) or '""'


def changes_text(before: Values, after: Values) -> str:
    """Return ``NAME old -> new`` for each change, sorted by name."""
    return ", ".join(
        f"{name} {value_text(before.get(name))} -> {value_text(value)}"
        for name, value in sorted(after.items())
    )
