"""What commands raise, and the exit code of every error (`docs/cli.md`)."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

FAILURE = 1
USAGE = 2
NO_JOB = 3
ALREADY_RUNNING = 4
RUN_DIRECTORY = 5


class CommandError(Exception):
    """A command cannot do what it was asked for; the text says why and what to do."""


class TomlError(CommandError):
    """A TOML file of the user's is wrong; the text says where, and what to do."""


class UnknownJobError(CommandError):
    """There is no such job, or it left nothing; the text says which there are, or what to do."""


@contextmanager
def extra(what: str, name: str) -> Iterator[None]:
    """Say which extra has to be installed when `what` finds a library missing. Raises click.UsageError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise click.UsageError(f"{what} {error.name}: pip install 'scrtune[{name}]'") from error


def error_text(error: Exception) -> str:
    """Return what to say of an error, with nothing that a terminal would obey."""
    from .format import printable  # noqa: PLC0415 - as below

    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:  # as of a write
            text = f"what was to be written could not be: {error.strerror}; write to where there is room"
        elif error.filename2 is None:
            text = f"{error.filename}: {error.strerror}"
    return "\n".join(map(printable, text.split("\n")))


_CODES = {
    "UnknownJobError": NO_JOB,
    "DaemonUnavailable": NO_JOB,
    "AlreadyRunningError": ALREADY_RUNNING,
    "RunDirectoryError": RUN_DIRECTORY,
    "JournalError": RUN_DIRECTORY,
    "TomlError": USAGE,
    **dict.fromkeys(("CommandError", "CaptureUnavailableError", "IntervalError", "RenderError"), FAILURE),
    "OSError": FAILURE,
}
"""By the names of classes, which are there once: the rooms below are not loaded for it."""


def exit_code(error: Exception) -> int | None:
    """Return the exit code that says `error`; None for a bug, and for what click itself answers."""
    return next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), None)
