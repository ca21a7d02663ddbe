"""The header of a config file that scrtune wrote, with a digest by which later changes are noticed."""

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
    """The value that scrtune wrote for a parameter, and that of the user's own line (None: no line)."""

    text: str
    own: str | None


def signed(reason: str, body: str, above: str = "", tuned: Mapping[str, Tuned] | None = None) -> str:
    """Return `body` below a header: scrtune wrote it, for which `reason`, and the digest of the body.

    The header also has the `tuned` values with those before, because it outlives the job. `above` are the
    user's lines above the header, see :func:`taken_apart`.
    """
    said = " ".join(f"{_AUTHOR} {reason}".split())
    before = [_tuned_line(name, each) for name, each in sorted((tuned or {}).items())]
    return above + "\n".join(
        [*comment_lines(f"{said}\n{_INVITATION}. {_OMISSION}"), *before, _MARK + _digest(body), body]
    )


def tuned(text: str) -> dict[str, Tuned]:
    """Return the tuned values in the header of `text`; none without a header."""
    digest, body = _split(text)
    head = text[: len(text) - len(body)] if digest else ""
    matches = filter(None, map(_TUNED_LINE.fullmatch, head.split("\n")))
    return {match["name"]: Tuned(match["text"], match["own"]) for match in matches}


def taken_apart(text: str) -> tuple[str, str]:
    """Return the user's comments above the header of `text`, and all the rest of it but the header.

    A line above it that is no comment belongs to the rest, because SCR reads it.
    """
    above, body = _without_header(text)
    return (above, body) if _is_silent(above) else ("", above + body)


def signature(text: str) -> str:
    """Return the digest in the header of `text`, or empty when scrtune did not write it."""
    return _split(text)[0]


def is_as_written(text: str) -> bool:
    """Return whether scrtune wrote `text` and it is unchanged (except for comments above the digest)."""
    digest, body = _split(text)
    return bool(digest) and digest == _digest(body) and _is_silent(_without_header(text)[0])


def back_up_foreign(path: Path, known: str = "") -> None:
    """Call :func:`back_up` before the file at `path` is overwritten, unless scrtune wrote it.

    The text `known` needs no backup: it is somewhere else too. Raises :class:`ConfigWriteError`.
    """
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return  # there is no file, or none that could be overwritten
    if text.strip() and text != known and not signature(text):
        back_up(path)


def _tuned_line(name: str, tuned: Tuned) -> str:
    """Return a comment in which no line of the file is found: the user may replace one everywhere."""
    return f"{_TUNED}{name}: {'not set' if tuned.own is None else tuned.own} -> {tuned.text}"


def _split(text: str) -> tuple[str, str]:
    """Return the digest in the header, and everything below its line."""
    _, mark, rest = ("\n" + text).partition("\n" + _MARK)
    digest, _, body = rest.partition("\n")
    return (digest.strip(), body) if mark else ("", text)


def _without_header(text: str) -> tuple[str, str]:
    """Return the text above the header, and that below it. Without a digest nothing is above."""
    digest, body = _split(text)
    head = text[: len(text) - len(body)] if digest else text
    own = "\n".join(line for line in head.split("\n") if not line.startswith(_HEADER))
    return (own, body) if digest else ("", own)


def _is_silent(text: str) -> bool:
    """Return whether all of it is comments and blank lines."""
    return all(line.strip(" \t")[:1] in ("", "#") for line in text.split("\n"))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
