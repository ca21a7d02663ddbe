"""`scrtune off` and `scrtune on`: stop tuning a running job, and tune it again."""

import time

import click

from ...client.paths import JobPaths
from ...daemon.views import SwitchView
from ..errors import CommandError
from ..find_job import find
from ..job_state import ask
from ..options import OneJob, command
from ..text import tables

PUBLISHED_LIMIT_S = 15.0  # the daemon tries again every 5 s
_PAUSE_S = 0.2


@command(OneJob)
def off(options: OneJob) -> None:
    """Stop tuning a running job: your own settings are active from its next SCR_Start_output.

    Returns when they are published. The job is still observed, and `scrtune on` has it tuned again.
    """
    click.echo(tables.switched(switch(find(options.job_id, no_other=True), on=False), on=False))


@command(OneJob)
def on(options: OneJob) -> None:
    """Tune a running job again, after `scrtune off`, from the settings that are active."""
    click.echo(tables.switched(switch(find(options.job_id, no_other=True), on=True), on=True))


def switch(paths: JobPaths, *, on: bool, limit_s: float = PUBLISHED_LIMIT_S) -> SwitchView:
    """Turn the tuning of a running job on or off; returns when what follows from that is published.

    Raises DaemonUnavailable, and CommandError when it is not published within `limit_s`: tuning is as was
    ordered then, and the daemon goes on trying.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        view = ask(paths, "on" if on else "off", SwitchView)
        if view.is_published:
            return view
        if time.monotonic() >= deadline_s:
            why = view.failure or "the config file was edited just now, and that is taken in first"
            raise CommandError(
                f"job {view.job_id}: tuning is {'on' if on else 'off'}, but the settings that follow are not"
                f" active yet: {why}. The daemon goes on trying; ask `scrtune status`"
            )
        time.sleep(_PAUSE_S)
