"""`scrtune status`, `explain`, `off`, `on`, `pin` and `unpin`: the state of a job, and the user's orders."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import click
from rich.console import Console
from rich.live import Live

from ...client.paths import JobPaths
from ...client.transport.wire import Question
from ...daemon.settings.pins import check_name, pinnable
from ...daemon.views import OrderView
from ..blocks import Document
from ..errors import CommandError, extra
from ..jobs import state as job_state
from ..jobs.find import find, find_to_follow, is_running
from ..options import OneJob, ShownJob, command, option
from ..tables import job as tables
from ..terminal import Printable, print_view, rendered
from ..views.story import Story, story

PUBLISHED_LIMIT_S = 15.0  # the daemon tries again every 5 s
_PAUSE_S = 0.2
_EVERY_S = 1.0


@dataclass(frozen=True)
class StatusOptions(ShownJob):
    """Options of `scrtune status`."""

    watch: bool = option("--watch", "Show it until the job ends, or until Ctrl-C, as it changes.")


@command(StatusOptions)
def status(options: StatusOptions) -> None:
    """Show the state of a job: what arrived, what was lost, what is being tried."""
    paths = find(options.job_id)
    if not options.watch:
        print_view(job_state.status(paths), options.form, tables.status)
        return
    if options.form != "table":
        raise click.UsageError("--watch shows tables; ask for --format json as often as you like")
    with suppress(KeyboardInterrupt):
        _watch(paths)


def _watch(paths: JobPaths) -> None:
    """Show the state of a job as it changes, until it has ended; into a pipe only what it is then."""
    if not sys.stdout.isatty():
        while is_running(paths):
            time.sleep(_EVERY_S)
        click.echo(rendered(_frame(paths)), nl=False)
        return
    with Live(console=Console(markup=False, highlight=False), auto_refresh=False) as live:
        while is_running(paths):
            live.update(Printable(_frame(paths)), refresh=True)
            time.sleep(_EVERY_S)
        live.update(Printable(_frame(paths)), refresh=True)


def _frame(paths: JobPaths) -> Document:
    return tables.watched(job_state.status(paths), job_state.explain(paths), job_state.goodput(paths))


@dataclass(frozen=True)
class ExplainOptions(OneJob):
    """Options of `scrtune explain`."""

    about: tuple[str, ...] = option("[INTENT|PARAMETER]...")
    form: Literal["table", "json", "html"] = option("--format", "Output form.", default="table")


@command(ExplainOptions)
def explain(options: ExplainOptions) -> None:
    """Show why the settings are what they are: intents with evidence, every change with its reason.

    With the name or the number of an intent, or the name of a parameter, the story of that one.
    """
    view = job_state.explain(find(options.job_id))
    if not options.about and options.form != "html":
        print_view(view, options.form, tables.explain)
    else:
        print_view(story(view, options.about), options.form, tables.story, _page)


def _page(told: Story) -> str:
    with extra("--format html needs", "report"):
        from ..html.templates import story_page  # noqa: PLC0415 - an extra
    return story_page(told, version=version("scrtune"))


@command(OneJob)
def off(options: OneJob) -> None:
    """Stop tuning a running job: your own settings are active from its next SCR_Start_output.

    Returns when they are published. The job is still observed, and `scrtune on` has it tuned again.
    """
    click.echo(tables.switched(order(find_to_follow(options.job_id), Question(command="off")), on=False))


@command(OneJob)
def on(options: OneJob) -> None:
    """Tune a running job again, after `scrtune off`, from the settings that are active."""
    click.echo(tables.switched(order(find_to_follow(options.job_id), Question(command="on")), on=True))


def _assignment(given: str) -> tuple[str, str]:
    """Return name and text of ``NAME=VALUE``. Raises ValueError."""
    name, is_given, text = given.partition("=")
    if not is_given:
        raise ValueError(f"{given!r} is no NAME=VALUE")
    pinnable(name.upper(), text)
    return name.upper(), text


def _name(given: str) -> str:
    check_name(given.upper())
    return given.upper()


@dataclass(frozen=True)
class PinOptions(OneJob):
    """Options of `scrtune pin`."""

    values: tuple[tuple[str, str], ...] = option("NAME=VALUE...", parse=_assignment)


@command(PinOptions)
def pin(options: PinOptions) -> None:
    """Fix parameters of a running job: they are yours, and not tuned any more.

    As if you had written them into its config file; `scrtune unpin` takes it back. Returns when they are
    published.
    """
    if len(values := dict(options.values)) < len(options.values):
        raise click.UsageError("each NAME once")
    view = order(find_to_follow(options.job_id), Question(command="pin", values=values))
    click.echo(tables.fixed(view, [*map("=".join, values.items())], "yours, and not tuned"))


@dataclass(frozen=True)
class UnpinOptions(OneJob):
    """Options of `scrtune unpin`."""

    names: tuple[str, ...] = option("NAME...", parse=_name)


@command(UnpinOptions)
def unpin(options: UnpinOptions) -> None:
    """Take `scrtune pin` back: what was there before is active again, and tuned."""
    view = order(find_to_follow(options.job_id), Question(command="unpin", names=options.names))
    click.echo(tables.fixed(view, options.names, "as before `scrtune pin`, and tuned again"))


def order(paths: JobPaths, question: Question, limit_s: float = PUBLISHED_LIMIT_S) -> OrderView:
    """Give an order to the daemon of a running job; returns when what follows from it is published.

    Raises DaemonUnavailable, and CommandError when it is refused, or not published within `limit_s`: the
    order counts then, and the daemon goes on trying.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        view = job_state.ask(paths, question, OrderView)
        if view.refused:
            raise CommandError(f"job {view.job_id}: {view.refused}")
        if view.is_published:
            return view
        if time.monotonic() >= deadline_s:
            why = view.failure or "the config file was edited just now, and that is taken in first"
            raise CommandError(
                f"job {view.job_id}: `{question.command}` counts, but the settings that follow are not active"
                f" yet: {why}. The daemon goes on trying; ask `scrtune status`"
            )
        time.sleep(_PAUSE_S)
