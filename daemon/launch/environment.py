"""The application's environment: where its daemon is, which SCR config file to read, how it is traced."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ...client.capture.environment import CaptureUnavailableError, capture_environment
from ...client.job_terms import JobTerms
from ...client.paths import JobPaths
from ...intents.events import Values
from ...scr_config.files import write_config
from ...scr_config.locations import PLACES, app_conf_path, system_conf_path, user_conf_path
from ...scr_config.ownership import back_up_foreign
from ...scr_config.resolution import DEFAULT, Resolved, resolve
from ...scr_config.rewrite import rewrite
from ..options import ClusterOptions, Monitoring
from .preload import Preload, library, library_variables

log = logging.getLogger("scrtune.run")

Trace = Literal["auto", "preload", "function", "off"]
KEEP_S = 30 * 86_400.0
PURGED = {"SCR_CACHE_PURGE": "1"}
"""Of a clean start."""


class JobOptions(JobTerms, frozen=True, kw_only=True):
    """How `scrtune run` was asked to run a job."""

    trace: Trace = "auto"
    preload: Preload = "auto"
    scr_conf: Path | None = None
    probe: bool = True
    keep_s: float = KEEP_S
    """How long the run directories of jobs that have ended stay on a node."""
    application: str = ""
    """The name under which the job's daemon keeps what it learns; empty: it does not."""
    monitoring: Monitoring = Monitoring()


class ConfigFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The file that scrtune rewrites, and the user's own that it starts from (None: they have none)."""

    scr_conf: Path
    user_conf: Path | None = None

    def options(self) -> list[str]:
        """Return the two as `scrtune daemon` and `scrtune node` take them."""
        user_conf = [] if self.user_conf is None else ["--user-conf", str(self.user_conf)]
        return ["--scr-conf", str(self.scr_conf), *user_conf]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job before its start: `variables` are equal on all its ranks, wherever they run."""

    files: ConfigFiles
    asked: JobOptions = JobOptions()
    variables: dict[str, str] = {}
    library: Path | None = None
    """The preloaded library, None without; on all ranks or on none: they agree on settings by it."""
    cluster: ClusterOptions | None = None
    """How the daemons of its nodes find each other; None in a job of one node."""

    def options(self) -> list[str]:
        """Return its options of `scrtune daemon` and `scrtune node`."""
        asked = self.asked
        probe = [] if asked.probe else ["--no-probe"]
        application = ["--application", asked.application] if asked.application else []
        cluster = ["--cluster", str(self.cluster.directory)] if self.cluster else []
        return [*self.files.options(), *probe, *application, *cluster, *asked.monitoring.options()]


def prepare(paths: JobPaths, default: Path, options: JobOptions, inherited: Mapping[str, str]) -> Job:
    """Lay the config file out (see :func:`config_files`) and name it to the application. Raises OSError."""
    files = config_files(default, options, inherited)
    preloaded = library(options.preload)
    variables = {
        "SCRTUNE_JOB_ID": paths.job_id,
        "SCRTUNE_RUN_DIR": str(paths.base),
        "SCR_CONF_FILE": str(files.scr_conf),
        **options.variables(),
        **(log_variables(files.user_conf, inherited) if preloaded else {}),
        **end_variables(inherited),
    }
    return Job(files=files, asked=options, variables=variables, library=preloaded)


def config_files(default: Path, options: JobOptions, inherited: Mapping[str, str]) -> ConfigFiles:
    """Lay the user's own config out as the file to rewrite, so that a job starts with its own settings.

    `default`, in a directory of this job, is where that file goes when the user names no place. In a later
    run of the job it is kept, for what was tuned there, unless the user's own has changed since. Raises
    OSError when it cannot be written.
    """
    scr_conf = (options.scr_conf or default).absolute()
    own = user_conf_path(inherited, Path.cwd())
    user_conf = own if own.is_file() else None
    begun_with = default.with_name("user.conf")
    purges = options.declared.clean_start and _may_purge(options, begun_with)
    if scr_conf != own:
        lay_out(scr_conf, user_conf, begun_with, PURGED if purges else {})
    return ConfigFiles(scr_conf=scr_conf, user_conf=user_conf)


def _may_purge(options: JobOptions, begun_with: Path) -> bool:
    """Return whether this start may delete SCR's cache, as declared; log why not.

    What says so must be gone before the next one, from a file of scrtune's own.
    """
    why_not = ""
    if begun_with.exists():
        why_not = "the job has run before, and this start may need the cache"
    elif options.mode != "auto":
        why_not = f"--mode {options.mode} changes nothing"
    elif options.scr_conf is not None:
        why_not = (
            "--scr-conf names a file that outlasts the job; give SCR_CACHE_PURGE=1 to this start yourself"
        )
    if why_not:
        log.warning("--clean-start: SCR's cache is not deleted: %s", why_not)
    return not why_not


def lay_out(
    scr_conf: Path, user_conf: Path | None, begun_with: Path, first: Mapping[str, str] | None = None
) -> None:
    """Write the user's own config as `scr_conf`, unless that began with the same, as `begun_with` says.

    `first` are values for this start alone: the first rewrite takes them out. Raises OSError.
    """
    text = _text(user_conf) or ""
    if not (scr_conf.is_file() and begun_with.is_file() and _text(begun_with) == text):
        scr_conf.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        back_up_foreign(scr_conf, known=text)
        write_config(scr_conf, rewrite(text, first) if first else text)
        write_config(begun_with, text)


def to_follow(settings: Values) -> Values:
    """Return `settings` for another job's environment: how it runs, without its name and its directories."""
    return {name: value for name, value in settings.items() if name not in PLACES}


def variables_by_hand(
    paths: JobPaths, config: str, settings: Values, preload: Preload, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that an application needs beside `settings` when it is started by hand.

    `config` is the file that the daemon rewrites. An application reads it where it has what the user wants:
    where they have named it, or where it began with their own.

    LD_PRELOAD is the library alone: the shell keeps what else is preloaded. Raises OSError.
    """
    is_wanted = config and (config != str(paths.scr_conf) or paths.begun_with.exists())
    named = {"SCR_CONF_FILE": config} if is_wanted else {}
    own = user_conf_path({**inherited, **named}, Path.cwd())
    preloaded = library(preload)
    logs = log_variables(own if own.is_file() else None, inherited) if preloaded else {}
    return {
        "SCRTUNE_JOB_ID": paths.job_id,
        "SCRTUNE_RUN_DIR": str(paths.base),
        **named,
        **{name: value for name, value in logs.items() if name not in settings},
        **library_variables(paths, preloaded, ""),
    }


def log_variables(user_conf: Path | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which SCR logs what it does within its calls: to its own file alone.

    The preloaded library keeps it from syslog, and says where the file is: for a job without it they are of
    no use. None if the user has set anything about it, in any layer that SCR reads.
    """
    resolved = _resolved(user_conf, inherited)
    if resolved.sources["SCR_LOG_ENABLE"] != DEFAULT or not resolved.settings["SCR_LOG_TXT_ENABLE"]:
        return {}
    variables = {"SCR_LOG_ENABLE": "1"}
    if resolved.sources["SCR_LOG_SYSLOG_ENABLE"] == DEFAULT:
        variables["SCR_LOG_SYSLOG_ENABLE"] = "0"
    return variables


def end_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which SCR knows when the allocation ends, unless the user has set it.

    SCR's own launch scripts set it, too; without it SCR_HALT_SECONDS means nothing (scr_env.c:80).
    """
    end = inherited.get("SLURM_JOB_END_TIME", "")  # Slurm 23.02 and later
    return {"SCR_END_TIME": end} if end.isdecimal() and "SCR_END_TIME" not in inherited else {}


def trace_variables(paths: JobPaths, job: Job, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which DFTracer writes to where the forwarder of this node looks.

    None when the job is not to be traced, and none, with a warning, when there is no usable DFTracer: the job
    is tuned all the same, from the application's own events. With ``auto`` a job is traced where
    libscrtune.so can pause DFTracer, and where its user does not trace it already.
    """
    trace = job.asked.trace
    if trace == "auto":
        why_not = _why_not_traced(job, inherited)
        if why_not:
            log.warning("%s: scrtune does not observe the application's writes", why_not)
            return {}
        trace = "preload"
    if trace == "off":
        return {}
    data = [Path(directory) for directory in trace_tiers(job.files.user_conf, inherited)]
    try:
        return capture_environment(paths.trace_prefix, data, trace, inherited, gated=job.library is not None)
    except CaptureUnavailableError as error:
        log.warning("%s. The application runs without being traced.", error)
        return {}


def trace_tiers(user_conf: Path | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return SCR's directories here, absolute, also with their links resolved, and the tier of each.

    `user_conf` is the user's SCR config file; None: the one that `inherited` names, if it is there.
    """
    if user_conf is None and (named := user_conf_path(inherited, Path.cwd())).is_file():
        user_conf = named
    settings = _resolved(user_conf, inherited).settings
    tiers = {"SCR_PREFIX": "prefix", "SCR_CACHE_BASE": "cache"}
    named_so = {Path(str(settings.get(name, "."))).absolute(): tier for name, tier in tiers.items()}
    return {str(form): tier for path, tier in named_so.items() for form in (path, path.resolve())}


def _why_not_traced(job: Job, inherited: Mapping[str, str]) -> str:
    if inherited.get("DFTRACER_ENABLE", "0") == "1":
        return "DFTRACER_ENABLE=1 is yours, and your trace stays as it is (--trace preload takes it over)"
    return (
        "" if job.library else "without libscrtune.so tracing cannot be paused (--trace preload traces all)"
    )


def _resolved(user_conf: Path | None, inherited: Mapping[str, str]) -> Resolved:
    """Return what SCR would find here, with what the application gave to SCR_Config in its last run."""
    user, system = _text(user_conf), _system_conf(inherited)
    program = app_conf_path(inherited, Path.cwd(), user, system)
    return resolve(inherited, user, _text(program) if program.is_file() else None, system)


def _system_conf(inherited: Mapping[str, str]) -> str | None:
    """Return the text of SCR's system config file here; warn if it cannot be read."""
    path = system_conf_path(inherited.get("PATH", ""))
    try:
        if path.is_file():
            return _text(path)
        why = "it is no regular file" if path.exists() else None
    except OSError as error:
        why = error.strerror
    if why:
        text = "%s: SCR's system config file cannot be read (%s); directories named there are not traced."
        log.warning(text, path, why)
    return None


def _text(path: Path | None) -> str | None:
    """Return the file's text; bytes that are no UTF-8 survive being written again."""
    return None if path is None else path.read_text(encoding="utf-8", errors="surrogateescape")
