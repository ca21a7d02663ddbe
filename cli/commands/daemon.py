"""`scrtune daemon`: the daemon of a job on this node, in the foreground."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from ...client.paths import JobPaths
from ...daemon.lock import end_at_eof
from ...daemon.loop import Daemon
from ...daemon.options import DaemonOptions
from ..options import MonitoringOptions, UntilEof, command, option


@dataclass(frozen=True)
class DaemonFlags(MonitoringOptions, UntilEof):
    """Options of `scrtune daemon`."""

    job_id: str | None = option(
        "--job-id ID", "The job; default: this environment's, else defjobid as in SCR."
    )
    scr_conf: Path | None = option("--scr-conf", "The SCR config file to rewrite.")
    user_conf: Path | None = option("--user-conf", "Your own SCR config file, to start from.")


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
