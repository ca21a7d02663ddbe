"""`scrtune env`: the recommended SCR environment; with `--resolved` what SCR would find here without a job."""

import os
from pathlib import Path
from typing import Annotated, get_args

import click
import msgspec

from ...daemon.launch.environment import to_follow, variables_by_hand
from ...daemon.launch.preload import export_text
from ...scr_config.render import Form
from .. import find_job, job_state
from ..options import command
from ..output import print_view
from ..text import config
from ..views.config import resolved_view
from .run import PreloadOption

_CONF = click.Path(path_type=Path, readable=False)


class EnvOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `scrtune env`."""

    job_id: Annotated[
        str | None,
        click.option(
            "--job-id",
            metavar="ID",
            help="The job; default: this environment's, else the one that runs on this host.",
        ),
    ]
    form: Annotated[
        Form,
        click.option(
            "--format",
            "form",
            type=click.Choice(get_args(Form)),
            default="sh",
            show_default=True,
            help="For which shell; JSON; for a Slurm task prolog; options of flux run; or as SCR's config"
            " file.",
        ),
    ]
    resolved: Annotated[
        bool,
        click.option(
            "--resolved",
            is_flag=True,
            help="Show what SCR would find here, without a job: a table, or JSON with --format json.",
        ),
    ]
    conf: Annotated[
        Path | None,
        click.option(
            "--conf",
            type=_CONF,
            help="With --resolved: this for the user's config file; default: where SCR looks.",
        ),
    ]
    system_conf: Annotated[
        Path | None,
        click.option(
            "--system-conf",
            type=_CONF,
            help="With --resolved: this for the system's config file; default: as compiled into SCR.",
        ),
    ]
    preload: PreloadOption


@command(EnvOptions)
def env(options: EnvOptions) -> None:
    """Print the recommended SCR environment: eval "$(scrtune env)".

    It is what the job's next SCR_Start_output gets: your own settings with what was tuned; and while its
    daemon runs, what an application needs to be tuned by it, LD_PRELOAD among it: yours stays behind ours.
    Prints nothing but that on standard output, and nothing at all when there is no job. Without --job-id it
    is about this environment's job, else the one that runs on this host. Where a job has its files and what
    it is called (SCR_PREFIX, SCR_CACHE_BASE and the like) stays as it is here.

    With --resolved: the value of each parameter, the layer and the place it comes from, and what it shadows.
    """
    if options.resolved:
        if options.form not in {"sh", "json"}:  # sh is what stands when --format is not given
            raise click.UsageError("--resolved shows a table, or JSON with --format json")
        view = resolved_view(os.environ, Path.cwd(), options.conf, options.system_conf)
        print_view(view, options.form, config.resolved)
        return
    if options.conf or options.system_conf:
        raise click.UsageError("--conf and --system-conf are for --resolved")
    paths = find_job.find_to_follow(options.job_id)
    settings = to_follow(job_state.advice(paths).settings)
    by_hand = find_job.is_running(paths)
    variables = variables_by_hand(paths, settings, options.preload, os.environ) if by_hand else {}
    text = export_text(settings, variables, options.form, os.environ.get("LD_PRELOAD", ""))
    click.echo(text, nl=False)
