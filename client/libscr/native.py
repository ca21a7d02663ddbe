"""Where libscrtune.so is, the library that tunes C, C++ and Fortran applications when it is preloaded."""

from pathlib import Path

NAME = "libscrtune.so"
WHY_NOT = (
    f"{NAME} was not built when scrtune was installed: on Linux, make a C compiler available (Debian: gcc and"
    " libc6-dev) and install scrtune again, with pip install --verbose to see what fails; Python applications"
    " do not need it"
)
"""What to tell a user when :func:`libscrtune_path` is None."""


def libscrtune_path() -> Path | None:
    """The library for LD_PRELOAD, None where scrtune was installed without a C compiler."""
    path = Path(__file__).with_name(NAME)
    return path if path.is_file() else None
