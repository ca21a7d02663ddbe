"""TOML files that users write: what is wrong in one is said with its file, line and key."""

import re
from pathlib import Path
from typing import NamedTuple

from .errors import TomlError

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([\w\"'. -]+?)\s*=")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)")


class TomlFile(NamedTuple):
    """The text of a file, for what is wrong in it to be found there."""

    path: Path
    text: str

    def error(self, why: str, *keys: str) -> TomlError:
        """Return the error that says file, line and key."""
        return self._error(self._line(keys), f"{'.'.join(keys) or 'the file'}: {why}")

    def decoded(self) -> dict[str, object]:
        """Return what the file says. Raises TomlError."""
        import msgspec  # noqa: PLC0415 - only where there is a file

        try:
            content: dict[str, object] = msgspec.toml.decode(self.text)
        except msgspec.DecodeError as error:
            at = _AT_LINE.search(str(error))
            raise self._error(int(at[1]) if at else 1, f"not TOML: {_AT_LINE.sub('', str(error))}") from None
        return content

    def _error(self, line: int, text: str) -> TomlError:
        from .format import printable  # noqa: PLC0415 - only where something is wrong

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
    """Return the file at `path`. Raises :class:`.read_config.UnreadableError`."""
    from .read_config import config_text  # noqa: PLC0415 - only where there is a file

    return TomlFile(path, config_text(path))


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
