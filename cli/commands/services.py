"""`scrtune daemon`, `forward` and the hidden `node`: what `scrtune run` starts beside a job."""

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ...client.paths import JobPaths
from ...daemon.launch.environment import ConfigFiles, Job, JobOptions, lay_out
from ...daemon.launch.processes import run_forwarder
from ...daemon.launch.services import check_alone
from ...daemon.launch.slurm import serve_node
from ...daemon.options import DaemonOptions
from ...units import parse_duration_s
from ..job_options import Traced
from ..options import Clustered, MonitoringOptions, Probed, Remembered, command, option


@dataclass(frozen=True)
class UntilEof:
    """The option of a process that its parent ends by closing a pipe."""

    until_eof: bool = option("--until-eof", "The end of standard input ends it as SIGTERM does.")


@dataclass(frozen=True)
class DaemonFlags(Clustered, MonitoringOptions, Probed, Remembered, UntilEof):
    """Options of `scrtune daemon`."""

    job_id: str | None = option(
        "--job-id ID", "The job; default: this environment's, else defjobid as in SCR."
    )
    scr_conf: Path | None = option("--scr-conf", "The SCR config file to rewrite.")
    user_conf: Path | None = option("--user-conf", "Your own SCR config file, to start from.")


@command(DaemonFlags)
def daemon(options: DaemonFlags) -> None:
    """Run the daemon of a job on this node, in the foreground; SIGTERM ends it.

    `scrtune run` starts it for you. Started by hand it first lays out the file of --user-conf as the file to
    rewrite, which the application is to find as $SCR_CONF_FILE. Started again after a crash it goes on from
    its journal.
    """
    from ...daemon.loop import Daemon  # noqa: PLC0415 - the forwarder has no use for it

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    paths = JobPaths.of(options.job_id)
    scr_conf = (options.scr_conf or paths.scr_conf).absolute()
    if options.user_conf and not options.until_eof:  # `scrtune run` has done so
        _begin_with(options.user_conf, scr_conf, paths)
    Daemon(
        DaemonOptions(
            paths=paths,
            scr_conf=scr_conf,
            user_conf=options.user_conf,
            application=options.application or "",
            monitoring=options.monitoring,
            probe=not options.no_probe,
            cluster=options.cluster,
            parent=sys.stdin.fileno() if options.until_eof else None,
        )
    ).run()


def _begin_with(user_conf: Path, scr_conf: Path, paths: JobPaths) -> None:
    """Lay `user_conf` out as `scr_conf`: an application that finds no file runs with SCR's defaults."""
    paths.create()
    check_alone(paths)  # else the file is that daemon's
    if user_conf.is_file() and not (scr_conf.exists() and scr_conf.samefile(user_conf)):
        lay_out(scr_conf, user_conf, paths.begun_with)
        text = "%s is %s now; start the application with SCR_CONF_FILE=%s"
        logging.getLogger("scrtune.daemon").info(text, scr_conf, user_conf, scr_conf)


@dataclass(frozen=True)
class ForwardOptions(UntilEof):
    """Options of `scrtune forward`."""

    log_prefix: Path | None = option("[LOG_PREFIX]")
    endpoint: str | None = option("[ENDPOINT]")


@command(ForwardOptions)
def forward(options: ForwardOptions) -> None:
    """Follow DFTracer's files LOG_PREFIX-*.pfw and push what they say to ENDPOINT, until SIGTERM.

    With them the file that $SCRTUNE_EVENTS_FILE names, to which the preloaded library writes, and SCR's own
    log. Without arguments: those of this environment's job. `scrtune run` starts it for you.
    """
    paths = JobPaths.of()
    events_file = os.environ.get("SCRTUNE_EVENTS_FILE")
    run_forwarder(
        options.log_prefix or paths.trace_prefix,
        options.endpoint or paths.events_endpoint,
        Path(events_file).absolute() if events_file else None,
        sys.stdin.fileno() if options.until_eof else None,
    )


@dataclass(frozen=True)
class NodeOptions(Clustered, MonitoringOptions, Probed, Remembered, Traced):
    """Options of `scrtune node`."""

    prolog: Path = option("--prolog")
    scr_conf: Path = option("--scr-conf")
    user_conf: Path | None = option("--user-conf")
    library: Path | None = option("--library")
    keep_s: float = option("--keep TIME", default="30d", parse=parse_duration_s)


@command(NodeOptions)
def node(options: NodeOptions) -> None:
    """Daemon and forwarder of one node of an allocation (started by `scrtune run` with srun)."""
    from ..jobs.ended import forget_ended  # noqa: PLC0415 - daemon and forwarder have no use for it

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    files = ConfigFiles(scr_conf=options.scr_conf, user_conf=options.user_conf)
    asked = JobOptions(
        trace=options.trace,
        probe=not options.no_probe,
        application=options.application or "",
        monitoring=options.monitoring,
    )
    job = Job(files=files, asked=asked, library=options.library, cluster=options.cluster)
    paths = JobPaths.of()
    serve_node(paths, job, options.prolog)
    forget_ended(paths, options.keep_s)
