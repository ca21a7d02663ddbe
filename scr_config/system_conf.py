"""Where SCR's system config file lies: a path compiled into SCR.

It is what CMake was told (``-DSCR_CONFIG_FILE=``), else ``<install>/etc/scr.conf`` (SCR_OPTIONS.cmake:57);
the ``/etc/scr.conf`` of src/scr_conf.h:91 stands only in builds without CMake. SCR's scripts are installed
with the very path (scripts/python/scrjob/config.py.in:6): there it can be read without running SCR.
"""

import re
import shutil
from pathlib import Path

COMPILED = Path("/etc/scr.conf")
"""What SCR's source says when the build says nothing."""

_PROGRAM = "scr_index"
_SCRIPTS_CONFIG = Path("libexec/python/scrjob/config.py")
_PATH_IN_SCRIPTS = re.compile(r"^SCR_CONFIG_FILE = '([^'\n]+)'", re.MULTILINE)


def system_conf_path(search_path: str | None = None) -> Path:
    """The path compiled into the SCR whose programs are on `search_path` (default: $PATH).

    Without one it is /etc/scr.conf. Says nothing on whether the file is there. Never raises.
    """
    program = shutil.which(_PROGRAM, path=search_path)
    if program is None:
        return COMPILED
    install = Path(program).resolve().parent.parent
    try:
        scripts = (install / _SCRIPTS_CONFIG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        scripts = ""
    if match := _PATH_IN_SCRIPTS.search(scripts):
        return Path(match[1])
    # GNUInstallDirs: the sysconf directory of /usr is /etc
    return COMPILED if install == Path("/usr") else install / "etc" / "scr.conf"
