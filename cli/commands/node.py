"""`scrtune node`: what `scrtune run` starts with srun on each node of an allocation; hidden from users."""

import logging
from dataclasses import dataclass
from pathlib import Path

from ...client.paths import JobPaths
from ...daemon.launch.environment import ConfigFiles, Job
from ...daemon.launch.slurm import serve_node
from ..options import MonitoringOptions, command, option
from .run import Traced


@dataclass(frozen=True)
class NodeOptions(MonitoringOptions, Traced):
    """Options of `scrtune node`."""

    prolog: Path = option("--prolog")
    scr_conf: Path = option("--scr-conf")
    user_conf: Path | None = option("--user-conf")
    library: Path | None = option("--library")


@command(NodeOptions)
def node(options: NodeOptions) -> None:
    """Daemon and forwarder of one node of an allocation (started by `scrtune run` with srun)."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    files = ConfigFiles(scr_conf=options.scr_conf, user_conf=options.user_conf)
    job = Job(files=files, trace=options.trace, library=options.library, monitoring=options.monitoring)
    serve_node(JobPaths.of(), job, options.prolog)
