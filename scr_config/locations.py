"""The places of SCR's files, and reading them as rank 0 does in SCR_Init."""

import errno
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .parse import parse
from .resolution import expand, resolve

COMPILED_SYSTEM_CONF = Path("/etc/scr.conf")
"""The system's config file when SCR's build names none (src/scr_conf.h:91)."""

PLACES = frozenset(
    {
        "SCR_CACHE_BASE",
        "SCR_CNTL_BASE",
        "SCR_CONF_FILE",
        "SCR_END_TIME",
        "SCR_JOB_ID",
        "SCR_JOB_NAME",
        "SCR_PREFIX",
        "SCR_USER_NAME",
    }
)
"""What distinguishes one job from another. scrtune tunes none of it: it stays where it was set."""

_SCRIPTS_CONFIG = Path("libexec/python/scrjob/config.py")
_PATH_IN_SCRIPTS = re.compile(r"^SCR_CONFIG_FILE = '([^'\n]+)'", re.MULTILINE)


def user_conf_path(environment: Mapping[str, str], cwd: Path | None = None) -> Path:
    """Return the path of the user's file: $SCR_CONF_FILE, else .scrconf in $SCR_PREFIX, else in `cwd`.

    `cwd` is the working directory of the application's ranks (default: that of this process).
    """
    base = cwd or Path.cwd()
    if "SCR_CONF_FILE" in environment:
        return base / expand(environment["SCR_CONF_FILE"], environment)
    return base / expand(environment.get("SCR_PREFIX", ""), environment) / ".scrconf"


def user_conf_text(environment: Mapping[str, str], programmatic: str = "") -> str | None:
    """Return the text of the user's config file, None when there is none. Raises OSError.

    `programmatic` is what was given to SCR_Config, a line each: it can name the file (scr_param.c:326-352),
    unless the environment does.
    """
    given = {name: pair.value for name, pair in parse(programmatic, environment).values.items()}
    path = user_conf_path({**given, **environment})
    return path.read_text("utf-8", errors="replace") if path.is_file() else None


def system_conf_path(search_path: str | None = None) -> Path:
    """Return the path compiled into the SCR whose programs are on `search_path` (default: $PATH).

    SCR's scripts are installed with the very path (scripts/python/scrjob/config.py.in:6); without them it is
    ``<install>/etc/scr.conf`` (SCR_OPTIONS.cmake:57), without an SCR COMPILED_SYSTEM_CONF. The file need not
    exist. Never raises.
    """
    if (program := shutil.which("scr_index", path=search_path)) is None:
        return COMPILED_SYSTEM_CONF
    install = Path(program).resolve().parent.parent
    try:
        scripts = (install / _SCRIPTS_CONFIG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        scripts = ""
    if match := _PATH_IN_SCRIPTS.search(scripts):
        return Path(match[1])
    # GNUInstallDirs: the sysconf directory of /usr is /etc
    return COMPILED_SYSTEM_CONF if install == Path("/usr") else install / "etc" / "scr.conf"


def app_conf_path(
    environment: Mapping[str, str], cwd: Path, user_conf: str | None, system_conf: str | None
) -> Path:
    """Return where SCR keeps what the application gave to SCR_Config in its last run, which need not exist.

    `user_conf` and `system_conf` are the texts of the files, by which the prefix directory is found.
    """
    prefix = resolve(environment, user_conf, None, system_conf).settings.get("SCR_PREFIX", "")
    return cwd / str(prefix) / ".scr" / "app.conf"


def file_lines(path: Path) -> Sequence[str]:
    """Return the lines of a file, none when there is no such file.

    Raises OSError, also for what is no regular file: reading it could block.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    return path.read_text("utf-8", errors="replace").split("\n") if path.exists() else []
