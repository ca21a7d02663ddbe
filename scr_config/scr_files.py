"""SCR's files as rank 0 reads them in SCR_Init, for whoever looks through SCR's layers (`resolution.py`)."""

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path

from .parse import parse
from .resolution import user_conf_path

_SAYS_WHERE = ("SCR_PREFIX", "SCR_CONF_FILE")


def user_conf_text(environment: Mapping[str, str], programmatic: str = "") -> str | None:
    """The user's config file, None when there is none. Raises OSError.

    `programmatic` is what was given to SCR_Config, a line each: it may say where the file is
    (scr_param.c:326-352), unless the environment does.
    """
    given = parse(programmatic, environment).values
    place = {name: given[name].value for name in _SAYS_WHERE if name in given}
    path = user_conf_path({**place, **environment})
    return path.read_text("utf-8", errors="replace") if path.is_file() else None


def file_lines(path: Path) -> Sequence[str]:
    """The lines of a file, none when there is no such file.

    Raises OSError, also for what would keep its reader waiting.
    """
    if not path.exists():
        return []
    if not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    return path.read_text("utf-8", errors="replace").split("\n")
