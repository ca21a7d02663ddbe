"""`scrtune env`: the recommended SCR environment; with `--resolved` what SCR would find here."""

import os
from dataclasses import dataclass
from pathlib import Path

import click

from ....client.paths import JobPaths
from ....daemon.launch.environment import to_follow, variables_by_hand
from ....daemon.launch.preload import export_text
from ....scr_config.render import Form
from ...errors import UnknownJobError
from ...format import printable
from ...job_options import Preloaded
from ...jobs import find as find_job
from ...jobs import state as job_state
from ...options import UNREAD, command, option
from ...tables import config
from ...terminal import print_view
from ...views.config import resolved_view


@dataclass(frozen=True)
class EnvOptions(Preloaded):
    """Options of `scrtune env`."""

    job_id: str | None = option(
        "--job-id ID", "The job; default: this environment's, else the one that runs on this host."
    )
    form: Form = option(
        "--format",
        "For which shell; JSON; for a Slurm task prolog; or as SCR's config file.",
        default="sh",
    )
    resolved: bool = option(
        "--resolved", "Show what SCR would find here, without a job: a table, or JSON with --format json."
    )
    conf: Path | None = option(
        "--conf", "With --resolved: this for the user's config file; default: where SCR looks.", UNREAD
    )
    system_conf: Path | None = option(
        "--system-conf",
        "With --resolved: this for the system's config file; default: as compiled into SCR.",
        UNREAD,
    )


@command(EnvOptions)
def env(options: EnvOptions) -> None:
    """Print the recommended SCR environment: eval "$(scrtune env)".

    It is what the job's next SCR_Start_output gets: your own settings with what was tuned (with --mode
    recommend: with what is proposed); and while its daemon runs, what an application needs to be tuned by it,
    LD_PRELOAD among it: yours stays behind ours.
    Prints nothing but that on standard output, and nothing at all when there is no job. Without --job-id it
    is about this environment's job, else the one that runs on this host. Where a job has its files and what
    it is called (SCR_PREFIX, SCR_CACHE_BASE and the like) stays as it is here, but for SCR_CONF_FILE beside a
    daemon.

    With --resolved: the value of each parameter, the layer and the place it comes from, and what it shadows.
    """
    if options.resolved:
        if options.form not in {"sh", "json"}:  # sh is what stands when --format is not given
            raise click.UsageError("--resolved shows a table, or JSON with --format json")
        view = resolved_view(os.environ, Path.cwd(), options.conf, options.system_conf)
        print_view(view, "json" if options.form == "json" else "table", config.resolved)
        return
    if options.conf or options.system_conf:
        raise click.UsageError("--conf and --system-conf are for --resolved")
    paths = find_job.find_to_follow(options.job_id)
    settings = to_follow(job_state.recommended(paths))
    by_hand = find_job.is_running(paths)
    if by_hand and not settings:
        _say_that_it_has_none(paths)
    variables = {}
    if by_hand:
        rewritten = job_state.status(paths).config
        variables = variables_by_hand(paths, rewritten, settings, options.preload, os.environ)
    text = export_text(settings, variables, options.form, os.environ.get("LD_PRELOAD", ""))
    click.echo(text, nl=False)


def _say_that_it_has_none(paths: JobPaths) -> None:
    """Say that a job has reported no settings yet: of no use but to start its application by hand.

    Raises UnknownJobError on a node of a Slurm job, whose application scrtune starts itself.
    """
    text = f"job {paths.job_id!r} has reported no settings yet; its application does when it begins"
    if paths.environment.exists():
        raise UnknownJobError(f"{text}: ask again then")
    click.echo(printable(f"scrtune: {text}"), err=True)
