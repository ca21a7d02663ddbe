"""Who wrote a config file: a header that says it, with a digest by which later changes are noticed."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .files import back_up
from .render import comment_lines

_AUTHOR = "Written by scrtune"
_INVITATION = "Edit what you like: what you write here wins, and `scrtune explain` says so"
_OMISSION = "What is only on trial is not in here."
_TUNED = "# scrtune-tuned: "
_MARK = "# scrtune-sha256: "
_HEADER = (f"# {_AUTHOR}", f"# {_INVITATION}", _TUNED.rstrip(), _MARK.rstrip())
_TUNED_LINE = re.compile(rf"{_TUNED}(?P<name>\w+): (?:(?P<own>\S+)|not set) -> (?P<text>\S+)")


class Tuned(msgspec.Struct, frozen=True):
    """What scrtune wrote for a parameter, and what the user's own line said (None: there was no line)."""

    text: str
    own: str | None


def signed(reason: str, body: str, above: str = "", tuned: Mapping[str, Tuned] | None = None) -> str:
    """`body` below a header: that scrtune wrote it, for which `reason`, and the digest of the body.

    The header also says what of it was `tuned`, and from what: it outlives the job. `above` are the lines of
    the user's that stand above the header, see :func:`taken_apart`.
    """
    said = " ".join(f"{_AUTHOR} {reason}".split())
    before = [_tuned_line(name, each) for name, each in sorted((tuned or {}).items())]
    return above + "\n".join(
        [*comment_lines(f"{said}\n{_INVITATION}. {_OMISSION}"), *before, _MARK + _digest(body), body]
    )


def tuned(text: str) -> dict[str, Tuned]:
    """What the header of `text` says was tuned, and from what; none without a header."""
    digest, body = _split(text)
    head = text[: len(text) - len(body)] if digest else ""
    matches = filter(None, map(_TUNED_LINE.fullmatch, head.split("\n")))
    return {match["name"]: Tuned(match["text"], match["own"]) for match in matches}


def taken_apart(text: str) -> tuple[str, str]:
    """The user's comments above the header of `text`, and all the rest of it but the header.

    What is no comment up there belongs to the rest, for SCR reads it.
    """
    above, body = _without_header(text)
    return (above, body) if _is_silent(above) else ("", above + body)


def signature(text: str) -> str:
    """The digest in the header of `text`, or empty when scrtune did not write it."""
    return _split(text)[0]


def is_as_written(text: str) -> bool:
    """Whether scrtune wrote `text` and nobody changed it since (comments above the digest aside)."""
    digest, body = _split(text)
    return bool(digest) and digest == _digest(body) and _is_silent(_without_header(text)[0])


def back_up_foreign(path: Path, known: str = "") -> None:
    """Before the file at `path` is overwritten: :func:`back_up` what scrtune did not write.

    None is needed of the text `known`, which is somewhere else too. Raises :class:`ConfigWriteError`.
    """
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return  # there is no file, or none that could be overwritten
    if text.strip() and text != known and not signature(text):
        back_up(path)


def _tuned_line(name: str, tuned: Tuned) -> str:
    """Nothing in it looks like a line of the file: who replaces one everywhere must not replace this."""
    return f"{_TUNED}{name}: {'not set' if tuned.own is None else tuned.own} -> {tuned.text}"


def _split(text: str) -> tuple[str, str]:
    """The digest in the header, and everything below its line."""
    _, mark, rest = ("\n" + text).partition("\n" + _MARK)
    digest, _, body = rest.partition("\n")
    return (digest.strip(), body) if mark else ("", text)


def _without_header(text: str) -> tuple[str, str]:
    """What stands above the header, and what below it. Without a digest nothing is above."""
    digest, body = _split(text)
    head = text[: len(text) - len(body)] if digest else text
    own = "\n".join(line for line in head.split("\n") if not line.startswith(_HEADER))
    return (own, body) if digest else ("", own)


def _is_silent(text: str) -> bool:
    """Whether all of it is comments and blank lines."""
    return all(line.strip(" \t")[:1] in ("", "#") for line in text.split("\n"))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
