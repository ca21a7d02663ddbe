"""Read a config file that was named on the command line, or say why it cannot be read."""

import stat
from pathlib import Path

LARGEST_BYTES = 1024**2
"""A larger file is no configuration, and reading it would keep the user waiting."""


class UnreadableError(OSError):
    """A file that cannot be read. The text says which, why, and what to do."""


def config_text(path: Path) -> str:
    """Return the text at `path` as it is: carriage returns stay, undecodable bytes are surrogates.

    Raises :class:`UnreadableError`, for what is no regular file too: reading a FIFO would never end.
    """
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
        data = _beginning(path) if is_regular else b""
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableError(f"{_shown(path)}: {why}; name a file that can be read") from error
    if not is_regular:
        raise UnreadableError(f"{_shown(path)}: is no regular file; name a config file or a job script")
    if len(data) > LARGEST_BYTES:
        raise UnreadableError(
            f"{_shown(path)}: is larger than 1 MiB, which no config file or job script is; name another"
        )
    return data.decode("utf-8", "surrogateescape")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_BYTES + 1)


def _shown(path: Path) -> str:
    text = str(path)
    return text if text.isprintable() else repr(text)
