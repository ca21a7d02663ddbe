"""`scrtune status`, `explain`, `off` and `on`: the state of a job, and the switch of its tuning."""

import time

import click

from ...client.paths import JobPaths
from ...daemon.views import SwitchView
from .. import job_state
from ..errors import CommandError
from ..find_job import find
from ..options import OneJob, ShownJob, command
from ..text import job as text
from ..text.tables import print_view

PUBLISHED_LIMIT_S = 15.0  # the daemon tries again every 5 s
_PAUSE_S = 0.2


@command(ShownJob)
def status(options: ShownJob) -> None:
    """Show the state of a job: what arrived, what was lost, what is being tried."""
    print_view(job_state.status(find(options.job_id)), options.form, text.status)


@command(ShownJob)
def explain(options: ShownJob) -> None:
    """Show why the settings are what they are: intents with evidence, every change with its reason."""
    print_view(job_state.explain(find(options.job_id)), options.form, text.explain)


@command(OneJob)
def off(options: OneJob) -> None:
    """Stop tuning a running job: your own settings are active from its next SCR_Start_output.

    Returns when they are published. The job is still observed, and `scrtune on` has it tuned again.
    """
    click.echo(text.switched(switch(find(options.job_id, no_other=True), on=False), on=False))


@command(OneJob)
def on(options: OneJob) -> None:
    """Tune a running job again, after `scrtune off`, from the settings that are active."""
    click.echo(text.switched(switch(find(options.job_id, no_other=True), on=True), on=True))


def switch(paths: JobPaths, *, on: bool, limit_s: float = PUBLISHED_LIMIT_S) -> SwitchView:
    """Turn the tuning of a running job on or off; returns when what follows from that is published.

    Raises DaemonUnavailable, and CommandError when it is not published within `limit_s`: tuning is as was
    ordered then, and the daemon goes on trying.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        view = job_state.ask(paths, "on" if on else "off", SwitchView)
        if view.is_published:
            return view
        if time.monotonic() >= deadline_s:
            why = view.failure or "the config file was edited just now, and that is taken in first"
            raise CommandError(
                f"job {view.job_id}: tuning is {'on' if on else 'off'}, but the settings that follow are not"
                f" active yet: {why}. The daemon goes on trying; ask `scrtune status`"
            )
        time.sleep(_PAUSE_S)
