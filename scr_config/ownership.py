"""The header of a config file that scrtune wrote, with a digest by which later changes are noticed."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .files import write_config
from .render import comment_lines

BACKUP_SUFFIX = ".scrtune-backup"
_AUTHOR = "Written by scrtune"
_INVITATION = "Edit what you like: what you write here wins, and `scrtune explain` says so"
_TUNED = "# scrtune-tuned: "
_MARK = "# scrtune-sha256: "
_HEADER = (f"# {_AUTHOR}", f"# {_INVITATION}", _TUNED.rstrip(), _MARK.rstrip())
_HOST = re.compile(rf"^# {_AUTHOR} at \S+ on (?P<host>[\w.-]+), generation ", re.ASCII | re.MULTILINE)
_TUNED_LINE = re.compile(rf"{_TUNED}(?P<name>\w+): (?:(?P<own>\S+)|not set) -> (?P<text>\S+)")


class Tuned(msgspec.Struct, frozen=True):
    """The value that scrtune wrote for a parameter, and that of the user's own line (None: no line)."""

    text: str
    own: str | None


def signed(reason: str, body: str, above: str = "", tuned: Mapping[str, Tuned] | None = None) -> str:
    """Return `body` below a header: scrtune wrote it, for which `reason`, and the digest of the body.

    The header also has the `tuned` values with those before, because it outlives the job; no line of the file
    is found in it, for the user may replace one everywhere. `above` are the user's lines above the header.
    """
    said = " ".join(f"{_AUTHOR} {reason}".split())
    lines = comment_lines(f"{said}\n{_INVITATION}. What is only on trial is not in here.")
    for name, each in sorted((tuned or {}).items()):
        lines.append(f"{_TUNED}{name}: {'not set' if each.own is None else each.own} -> {each.text}")
    return above + "\n".join([*lines, _MARK + _digest(body), body])


def written_on(text: str) -> str:
    """Return the host of the daemon that wrote `text`, or empty where its header names none."""
    found = _HOST.search(_split(text)[0])
    return found["host"] if found else ""


def tuned(text: str) -> dict[str, Tuned]:
    """Return the tuned values in the header of `text`; none without a header."""
    head, digest, _ = _split(text)
    matches = filter(None, map(_TUNED_LINE.fullmatch, head.split("\n") if digest else ()))
    return {match["name"]: Tuned(match["text"], match["own"]) for match in matches}


def taken_apart(text: str) -> tuple[str, str]:
    """Return the user's comments above the header of `text`, and all the rest of it but the header.

    A line above it that is no comment belongs to the rest, because SCR reads it.
    """
    head, digest, body = _split(text)
    own = "\n".join(line for line in head.split("\n") if not line.startswith(_HEADER))
    return (own, body) if digest and _is_silent(own) else ("", own + body)


def signature(text: str) -> str:
    """Return the digest in the header of `text`, or empty when scrtune did not write it."""
    return _split(text)[1]


def is_as_written(text: str) -> bool:
    """Return whether scrtune wrote `text` and it is unchanged (except for comments above the digest)."""
    head, digest, body = _split(text)
    return bool(digest) and digest == _digest(body) and _is_silent(head)


def back_up_foreign(path: Path, known: str = "") -> None:
    """Copy the file at `path` to ``<name>.scrtune-backup`` beside it, unless scrtune wrote it.

    A copy that is there stays. The text `known` needs no copy: it is somewhere else too. Raises
    :class:`ConfigWriteError`.
    """
    original = Path(os.path.realpath(path))
    backup = original.with_name(original.name + BACKUP_SUFFIX)
    try:
        text = original.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return  # there is no file, or none that could be overwritten
    if text.strip() and text != known and not signature(text) and not backup.exists():
        write_config(backup, text)


def _split(text: str) -> tuple[str, str, str]:
    """Return the header with all above it, its digest, and the rest; without a digest it is all in front."""
    _, _, rest = ("\n" + text).partition("\n" + _MARK)
    digest, _, body = rest.partition("\n")
    return (text[: len(text) - len(body)], digest.strip(), body) if digest.strip() else (text, "", "")


def _is_silent(text: str) -> bool:
    """Return whether all of it is comments and blank lines."""
    return all(line.strip(" \t")[:1] in ("", "#") for line in text.split("\n"))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
