"""What an application gets to see: where its daemon is, which SCR config file to read, how to be traced."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..client.dftracer_environment import capture_environment
from ..client.paths import JobPaths
from ..scr_config.settings import resolve, user_conf_path
from ..scr_config.write import write_config


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How `scrtune run` was asked to run a job."""

    trace: Literal["preload", "function", "off"] = "preload"
    tuning: bool = True
    floor: str = ""
    override: bool = False
    scr_conf: Path | None = None


class ConfigFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The file that scrtune rewrites, and the user's own that it starts from (None: they have none)."""

    scr_conf: Path
    user_conf: Path | None = None


def config_files(default: Path, options: JobOptions, inherited: Mapping[str, str]) -> ConfigFiles:
    """Lay the user's own config out as the file to rewrite, so that a job starts with its own settings.

    `default` is where that file goes when the user names no place. Raises OSError when it cannot be written.
    """
    scr_conf = (options.scr_conf or default).absolute()
    own = user_conf_path(inherited, Path.cwd())
    user_conf = own if own.is_file() else None
    if scr_conf != own:
        scr_conf.parent.mkdir(parents=True, exist_ok=True)
        write_config(scr_conf, user_conf.read_text(encoding="utf-8") if user_conf else "")
    return ConfigFiles(scr_conf=scr_conf, user_conf=user_conf)


def variables(
    paths: JobPaths, files: ConfigFiles, options: JobOptions, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The variables that an application on the node of `paths` needs beside `inherited`.

    Raises :class:`scrtune.client.dftracer_environment.CaptureUnavailableError`.
    """
    added = {
        "SCRTUNE_JOB_ID": paths.job_id,
        "SCRTUNE_RUN_DIR": str(paths.base),
        "SCR_CONF_FILE": str(files.scr_conf),
    }
    if options.floor:
        added["SCRTUNE_REDUNDANCY_FLOOR"] = options.floor
    if not options.tuning:
        added["SCRTUNE_TUNING"] = "0"
    if options.override:
        added["SCRTUNE_OVERRIDE"] = "1"
    if options.trace != "off":
        text = files.user_conf.read_text(encoding="utf-8") if files.user_conf else None
        settings = resolve(inherited, text).settings
        data = [Path(str(settings.get(name, "."))).absolute() for name in ("SCR_PREFIX", "SCR_CACHE_BASE")]
        added |= capture_environment(paths.trace_prefix, data, options.trace, inherited)
    return added
