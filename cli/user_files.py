"""Files that users write, SCR's configuration and TOML: read, or said why they cannot be."""

import re
import stat
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from .errors import TomlError
from .format import printable

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([\w\"'. -]+?)\s*=")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)")

LARGEST_BYTES = 1024**2
"""A larger file is no configuration, and reading it would keep the user waiting."""


class UnreadableError(OSError):
    """A file that cannot be read. The text says which, why, and what to do."""


def config_text(path: Path) -> str:
    """Return the text at `path` as it is: carriage returns stay, undecodable bytes are surrogates.

    Raises :class:`UnreadableError`, for what is no regular file too: reading a FIFO would never end.
    """
    shown = str(path) if str(path).isprintable() else repr(str(path))
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
        with path.open("rb") if is_regular else BytesIO() as file:
            data = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableError(f"{shown}: {why}; name a file that can be read") from error
    if not is_regular:
        raise UnreadableError(f"{shown}: is no regular file; name a config file or a job script")
    if len(data) > LARGEST_BYTES:
        raise UnreadableError(
            f"{shown}: is larger than 1 MiB, which no config file or job script is; name another"
        )
    return data.decode("utf-8", "surrogateescape")


class TomlFile(NamedTuple):
    """The text of a file, for what is wrong in it to be found there."""

    path: Path
    text: str

    def error(self, why: str, *keys: str) -> TomlError:
        """Return the error that says file, line and key."""
        return self._error(self._line(keys), f"{'.'.join(keys) or 'the file'}: {why}")

    def decoded(self) -> dict[str, object]:
        """Return what the file says. Raises TomlError."""
        try:
            content: dict[str, object] = msgspec.toml.decode(self.text)
        except msgspec.DecodeError as error:
            at = _AT_LINE.search(str(error))
            raise self._error(int(at[1]) if at else 1, f"not TOML: {_AT_LINE.sub('', str(error))}") from None
        return content

    def _error(self, line: int, text: str) -> TomlError:
        return TomlError(printable(f"{self.path}:{line}: {text}"))

    def _line(self, keys: tuple[str, ...]) -> int:
        """Return the first line that names `keys`, or as many of the first of them as any line does."""
        plain = [key.partition("[")[0] for key in keys]
        best, found = 0, 1
        table: list[str] = []
        for number, line in enumerate(self.text.splitlines(), start=1):
            here: list[str] = []
            if header := _HEADER.match(line):
                here = table = _parts(header[1])
            elif key := _KEY.match(line):
                here = table + _parts(key[1])
            same = next((at for at, (a, b) in enumerate(zip(here, plain, strict=False)) if a != b), len(here))
            if min(same, len(plain)) > best:
                best, found = min(same, len(plain)), number
        return found


def read_toml(path: Path) -> TomlFile:
    """Return the file at `path`. Raises UnreadableError."""
    return TomlFile(path, config_text(path))


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
