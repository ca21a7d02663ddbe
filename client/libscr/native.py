"""The place of libscrtune.so, the library that changes the settings of a real libscr while the job runs."""

from pathlib import Path

NAME = "libscrtune.so"
WHY_NOT = (
    f"{NAME} was not built when scrtune was installed: an application on a real SCR runs untuned. On Linux,"
    " make a C compiler available (Debian: gcc and libc6-dev) and install scrtune again, with pip install"
    " --verbose to see what fails"
)
"""What to tell a user when :func:`libscrtune_path` is None."""


def libscrtune_path() -> Path | None:
    """Return the library's path, None where scrtune was installed without a C compiler."""
    path = Path(__file__).with_name(NAME)
    return path if path.is_file() else None
