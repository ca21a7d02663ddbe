"""`scrtune node`: what `scrtune run` starts with srun on each node of an allocation; hidden from users."""

import logging
from pathlib import Path
from typing import Annotated

import click

from ...client.paths import JobPaths
from ...daemon.launch.environment import ConfigFiles, Job
from ...daemon.launch.slurm import serve_node
from ..options import PATH, MonitoringOptions, command
from .run import TraceOption


class NodeOptions(MonitoringOptions, frozen=True, kw_only=True):
    """Options of `scrtune node`."""

    prolog: Annotated[Path, click.option("--prolog", type=PATH, required=True)]
    scr_conf: Annotated[Path, click.option("--scr-conf", type=PATH, required=True)]
    user_conf: Annotated[Path | None, click.option("--user-conf", type=PATH)]
    library: Annotated[Path | None, click.option("--library", type=PATH)]
    trace: TraceOption


@command(NodeOptions)
def node(options: NodeOptions) -> None:
    """Daemon and forwarder of one node of an allocation (started by `scrtune run` with srun)."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    files = ConfigFiles(scr_conf=options.scr_conf, user_conf=options.user_conf)
    job = Job(files=files, trace=options.trace, library=options.library, monitoring=options.monitoring)
    serve_node(JobPaths.of(), job, options.prolog)
