"""Who wrote a config file: a header that says it, with a digest by which later changes are noticed."""

import hashlib
from pathlib import Path

from .render import comment_lines
from .write import back_up

_AUTHOR = "Written by scrtune"
_INVITATION = "Edit what you like: what you write here wins, and `scrtune explain` says so."
_MARK = "# scrtune-sha256: "
_HEADER = (f"# {_AUTHOR}", f"# {_INVITATION}", _MARK.rstrip())


def signed(reason: str, body: str, above: str = "") -> str:
    """`body` below a header: that scrtune wrote it and for which `reason`, and the digest of the body.

    `above` are the lines of the user's that stand above the header, see :func:`taken_apart`.
    """
    said = " ".join(f"{_AUTHOR} {reason}".split())
    return above + "\n".join([*comment_lines(f"{said}\n{_INVITATION}"), _MARK + _digest(body), body])


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
