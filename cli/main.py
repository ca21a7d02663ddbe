"""The `scrtune` command: which commands there are, and how an error ends one."""

import gc
import os
import sys
from importlib import import_module
from typing import Any

import click

from .defaults import WITHOUT_DEFAULTS, defaults
from .errors import error_text, exit_code

COMMANDS = {
    "check": "Find what is wrong in SCR config files, job scripts, the environment.",
    "clean": "Remove what jobs that have ended left behind; never a checkpoint that may be needed.",
    "daemon": "Run the daemon of a job in the foreground; SIGTERM ends it.",
    "demo": "Run a job with poor settings and see it tuned, in about two minutes.",
    "env": 'Print the recommended SCR environment: eval "$(scrtune env)".',
    "explain": "Show why the settings are what they are, with the evidence.",
    "forward": "Follow DFTracer's files and push their lines to a daemon.",
    "goodput": "Show where a job's time went, from its daemon or from its logs.",
    "init": "Write a file of defaults for options, to be edited.",
    "jobs": "List the jobs that run and ran on this host.",
    "node": "",
    "off": "Stop tuning a running job: your own settings come back.",
    "on": "Tune a running job again, after `scrtune off`.",
    "params": "Show what is known of SCR's parameters, or all there is on NAME.",
    "pin": "Fix parameters of a running job: NAME=VALUE is yours, and not tuned.",
    "record": "Append an event of a job to its goodput log.",
    "replay": "Print what recorded traces recommend, with the reasons.",
    "run": "Run COMMAND with the tuner beside it, and exit with its exit code.",
    "status": "Show the state of a job: what arrived, and what was lost.",
    "study": "Compare runs of a job by their traces: one row a run, and what differs.",
    "unpin": "Have parameters tuned again, after `scrtune pin`.",
}
"""Each command with its line in `scrtune --help`; a hidden one has none."""


_MODULES = {
    **{name: f"config.{name}" for name in ("check", "env", "init", "params")},
    "clean": "jobs",
    **dict.fromkeys(("daemon", "forward", "node"), "services"),
    **dict.fromkeys(("explain", "off", "on", "pin", "status", "unpin"), "job"),
}
"""The module of each command that has none of its own."""


def configurable() -> list[str]:
    """Return the commands whose options may have defaults in a file."""
    return [name for name in COMMANDS if name not in WITHOUT_DEFAULTS]


def load_command(name: str) -> click.Command:
    """Return the command of that name; its module is imported."""
    gc.disable()  # nothing of what is imported goes away again
    try:
        module = import_module(f"..commands.{_MODULES.get(name, name)}", __name__)
    finally:
        gc.enable()
    command: click.Command = getattr(module, name)
    return command


class Commands(click.Group):
    """Knows :data:`COMMANDS` by their lines of help; one is loaded when it is used."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command that is asked for, the command, and its arguments."""
        name, known, rest = super().resolve_command(ctx, args)
        if known is None:
            return name, None, rest
        command, known_name = load_command(str(known.name)), str(known.name)
        if known_name in configurable() and not ctx.resilient_parsing:
            ctx.default_map = {known_name: defaults(known_name, command, configurable())}
        return name, command, rest

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; a reader that has seen enough (head, less) ends it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.exit(0)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command; our own errors become one line on standard error and an exit code."""
        try:
            return super().main(*arguments, **options)
        except Exception as error:
            code = exit_code(error)
            if code is None:
                raise
            click.echo(f"scrtune: {error_text(error)}", err=True)
            sys.exit(code)
        finally:
            _give_up_what_cannot_be_written()


def _give_up_what_cannot_be_written() -> None:
    """Keep the interpreter from trying again at its end: it would make the exit code 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None where the shell has closed it
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@click.group(
    cls=Commands,
    commands=[click.Command(name, short_help=text, hidden=not text) for name, text in COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="scrtune")
def main() -> None:
    """Tune checkpointing with SCR while the job runs.

    \b
    scrtune run -- mpiexec -n 2 python app.py     a job with the tuner beside it
    eval "$(scrtune env)"                         the recommended SCR environment
    scrtune explain                               what was changed, and why
    scrtune replay TRACE...                       what recorded traces recommend
    """  # noqa: D301
