"""Who wrote a config file: a header that says it, with a digest by which later changes are noticed."""

import hashlib
from pathlib import Path

from .render import comment_lines
from .write import back_up

_MARK = "# scrtune-sha256: "


def signed(comment: str, body: str) -> str:
    """`body` below a header: `comment`, and the digest of the body."""
    return "\n".join([*comment_lines(comment), _MARK + _digest(body), body])


def signature(text: str) -> str:
    """The digest in the header of `text`, or empty when scrtune did not write it."""
    return _split(text)[0]


def is_as_written(text: str) -> bool:
    """Whether scrtune wrote `text` and nobody changed it since (comments above the digest aside)."""
    digest, body = _split(text)
    return bool(digest) and digest == _digest(body)


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


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
