"""How the embedded engine starts: settings, directories and nodes, found by rank 0 and equal on all ranks.

SCR lets every rank read its environment for itself, and hangs when they differ. Here they cannot.
"""

import os
import socket
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from mpi4py import MPI

from ...intents.events import ValueSource
from ...scr_config.locations import file_lines, system_conf_path, user_conf_text
from ...scr_config.problems import Code, ConfigProblem, Severity
from ...scr_config.resolution import DEFAULT, Resolved, resolve
from ..engine import EngineError, user_name
from ..mpi import NODES_VARIABLE
from ..paths import JOB_ID_VARIABLES
from .settings import Levers, UnsupportedSettingError
from .topology import nodes_by_count, nodes_by_host


class ConfigCalls:
    """The ``SCR_Config`` calls of an application, before SCR_Init, on rank 0, whose `environment` it is."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._lines: dict[str, str] = {}

    @property
    def text(self) -> str:
        """All that is set, a line each, in the grammar of SCR's config file."""
        return "\n".join(self._lines.values())

    def config(self, text: str) -> str | None:
        """Return ``NAME``, None when nobody has set it (a default); ``NAME=value`` sets, ``NAME=`` unsets.

        Raises OSError when the user's config file cannot be read.
        """
        name, is_setting, value = (part.strip() for part in text.partition("="))
        if not is_setting:
            conf = user_conf_text(self._environment, self.text)
            found = resolve(self._environment, conf, self.text).found.get(name, ())
            first = next(iter(found), None)
            return None if first is None or first.layer == DEFAULT else first.text
        key = f"{name}={value.split()[0]}" if " " in value else name
        self._lines.pop(key, None)
        if value:
            self._lines[key] = f"{name}={value}"
        return None


class Launch(msgspec.Struct, frozen=True):
    """The settings and places of a job, and the node of each rank."""

    resolved: Resolved
    prefix: str
    cache: str
    node_of: tuple[int, ...]

    def without_cache(self) -> "Launch":
        """Return it for a cache that is not the user's alone: it is bypassed."""
        name, resolved = "SCR_CACHE_BYPASS", self.resolved
        bypassed = msgspec.structs.replace(
            resolved,
            settings={**resolved.settings, name: 1},
            sources={**resolved.sources, name: ValueSource.UNSAFE_CACHE.value},
        )
        return msgspec.structs.replace(self, resolved=bypassed, cache=str(Path(self.prefix, ".scr", "cache")))


def launch(comm: MPI.Intracomm, config: str) -> Launch:
    """Return what :func:`read_launch` finds on rank 0. Collective. Raises EngineError on all ranks."""
    found: Launch | str = ""
    hosts = comm.allgather(socket.gethostname())
    if comm.rank == 0:
        try:
            found = read_launch(os.environ, hosts, config)
        except (ValueError, OSError) as error:
            found = str(error)
    found = comm.bcast(found)
    if isinstance(found, str):
        raise EngineError(found)
    return found


def read_launch(environment: Mapping[str, str], hosts: Sequence[str], config: str = "") -> Launch:
    """Read `environment`, SCR's config files and `config` (given to SCR_Config, a line each).

    `hosts` are the ranks' host names: they distinguish nodes, unless nodes are simulated. Raises ValueError
    for a setting that cannot be, OSError for a user's config file that cannot be read.
    """
    resolved = _over_system_conf(environment, user_conf_text(environment, config), config)
    settings = resolved.settings
    Levers.of(settings)
    if not settings["SCR_ENABLE"]:
        raise ValueError("SCR_ENABLE=0: SCR is switched off, and so is this engine; set it to 1")
    prefix = os.path.abspath(str(settings.get("SCR_PREFIX") or Path.cwd()))  # noqa: PTH100 - keeps links
    job = settings.get("SCR_JOB_ID") or _job_id(environment, prefix)
    user = settings.get("SCR_USER_NAME") or environment.get("USER") or user_name()
    cache = Path.cwd() / str(settings["SCR_CACHE_BASE"]) / str(user) / f"scr.{job}"
    return Launch(resolved, prefix, str(cache), _node_of(environment.get(NODES_VARIABLE, ""), hosts))


def _node_of(simulated: str, hosts: Sequence[str]) -> tuple[int, ...]:
    if not simulated:
        return nodes_by_host(hosts)
    try:
        return nodes_by_count(len(hosts), int(simulated))
    except ValueError as error:
        raise ValueError(f"{NODES_VARIABLE}={simulated}: {error}") from error


def _over_system_conf(environment: Mapping[str, str], user_conf: str | None, config: str) -> Resolved:
    """Resolve all layers. The system's file must not fail a job: what cannot be used of it is a warning."""
    layer, path = ValueSource.SYSTEM_CONFIG, system_conf_path(environment.get("PATH", ""))
    ignored: list[tuple[str, str, str]] = []
    lines: list[str] = []
    try:
        lines += file_lines(path)
    except OSError as error:
        what = f"SCR's system config file cannot be read ({error.strerror})"
        ignored.append((str(path), what, "the job runs without what it says"))
    while True:
        resolved = resolve(environment, user_conf, config, "\n".join(lines))
        try:
            Levers.of({n: v for n, v in resolved.settings.items() if resolved.sources[n] == layer})
            break
        except UnsupportedSettingError as unsupported:
            line = resolved.origin(unsupported.parameter).line
            lines[line - 1] = ""
            what = f"{path}:{line}: {unsupported}"
            ignored.append((unsupported.parameter, what, "this line is passed over"))
    problems = [
        ConfigProblem(Severity.WARNING, Code.SYSTEM_CONFIG, name, what, remedy, source=layer)
        for name, what, remedy in ignored
    ]
    return msgspec.structs.replace(resolved, problems=(*resolved.problems, *problems))


def _job_id(environment: Mapping[str, str], prefix: str) -> str:
    """Return the resource manager's id, else one of the prefix directory's own.

    A restart must find its cache, which the id of a `scrtune run` would hide, and ``defjobid`` mix up.
    """
    named = (environment.get(name) for name in JOB_ID_VARIABLES if name != "SCRTUNE_JOB_ID")
    return next(filter(None, named), f"defjobid-{zlib.crc32(os.fsencode(prefix)):08x}")
