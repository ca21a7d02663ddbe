"""`scrtune daemon`: the daemon of a job on this node, in the foreground."""

import logging
import sys
from pathlib import Path
from typing import Annotated

import click

from ...client.paths import JobPaths
from ...daemon.loop import Daemon
from ...daemon.options import DaemonOptions
from ...daemon.process import end_at_eof
from ..options import PATH, MonitoringOptions, UntilEof, command


class DaemonFlags(MonitoringOptions, frozen=True, kw_only=True):
    """Options of `scrtune daemon`."""

    job_id: Annotated[
        str | None,
        click.option(
            "--job-id", metavar="ID", help="The job; default: this environment's, else defjobid as in SCR."
        ),
    ]
    scr_conf: Annotated[
        Path | None, click.option("--scr-conf", type=PATH, help="The SCR config file to rewrite.")
    ]
    user_conf: Annotated[
        Path | None,
        click.option("--user-conf", type=PATH, help="Your own SCR config file, to start from."),
    ]
    until_eof: UntilEof


@command(DaemonFlags)
def daemon(options: DaemonFlags) -> None:
    """Run the daemon of a job on this node, in the foreground; SIGTERM ends it.

    `scrtune run` starts it for you. Started again after a crash it goes on from its journal.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    paths = JobPaths.of(options.job_id)
    if options.until_eof:
        end_at_eof(sys.stdin.fileno())
    Daemon(
        DaemonOptions(
            paths=paths,
            scr_conf=options.scr_conf or paths.scr_conf,
            user_conf=options.user_conf,
            monitoring=options.monitoring,
        )
    ).run()
