"""Read a config file that was named on the command line, or say why it cannot be read."""

import stat
from io import BytesIO
from pathlib import Path

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
