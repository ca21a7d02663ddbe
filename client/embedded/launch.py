"""How the embedded engine starts: settings, directories and nodes, found by rank 0 and equal on all ranks.

SCR lets every rank read its environment for itself, and hangs when they differ. Here they cannot.
"""

import getpass
import os
import socket
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from mpi4py import MPI

from ...scr_config.locations import file_lines, system_conf_path, user_conf_text
from ...scr_config.problems import Code, ConfigProblem, Severity
from ...scr_config.resolution import Found, Resolved, resolve
from ...scr_config.settings import Settings
from ..engine import EngineError
from ..paths import JOB_ID_VARIABLES
from .settings import Levers, UnsupportedSettingError
from .topology import Topology, nodes_by_count, nodes_by_host

NODES_VARIABLE = "SCRTUNE_EMBEDDED_NODES"


class Launch(msgspec.Struct, frozen=True):
    """What the job runs under. `nodes` is None when nodes are told apart by host name."""

    resolved: Resolved
    prefix: str
    cache: str
    nodes: int | None


def launch(comm: MPI.Intracomm, environment: Mapping[str, str], config: str) -> Launch:
    """What rank 0's `environment`, config files and `config` (given to SCR_Config, a line each) say.

    Collective. Raises EngineError on all ranks.
    """
    found: Launch | str = ""
    if comm.rank == 0:
        try:
            found = _read(environment, config)
            Levers.of(found.resolved.settings)
        except (ValueError, OSError) as error:
            found = str(error)
    found = comm.bcast(found)
    if isinstance(found, str):
        raise EngineError(found)
    return found


def topology(comm: MPI.Intracomm, nodes: int | None) -> Topology:
    """The ranks on their nodes, or on so many simulated ones; collective. Raises EngineError."""
    if nodes is None:
        return Topology(comm.rank, nodes_by_host(comm.allgather(socket.gethostname())))
    try:
        return Topology(comm.rank, nodes_by_count(comm.size, nodes))
    except ValueError as error:
        raise EngineError(f"{NODES_VARIABLE}: {error}") from error


def _read(environment: Mapping[str, str], config: str = "") -> Launch:
    """Raises ValueError, OSError."""
    resolved = _over_system_conf(environment, user_conf_text(environment, config), config)
    settings = resolved.settings
    if not Settings({"SCR_ENABLE": settings["SCR_ENABLE"]}).flag("SCR_ENABLE"):
        raise ValueError("SCR_ENABLE=0: SCR is switched off, and so is this engine; set it to 1")
    prefix = os.path.abspath(str(settings.get("SCR_PREFIX") or Path.cwd()))  # noqa: PTH100 - keeps links
    job = settings.get("SCR_JOB_ID") or _job_id(environment, prefix)
    user = settings.get("SCR_USER_NAME") or environment.get("USER") or _user()
    nodes = environment.get(NODES_VARIABLE, "")
    if nodes and not nodes.isdecimal():
        raise ValueError(f"{NODES_VARIABLE}={nodes}: must be a whole number of nodes")
    cache = Path.cwd() / str(settings["SCR_CACHE_BASE"]) / str(user) / f"scr.{job}"
    return Launch(
        resolved=resolved,
        prefix=prefix,
        cache=str(cache),
        nodes=int(nodes) if nodes else None,
    )


def _over_system_conf(environment: Mapping[str, str], user_conf: str | None, config: str) -> Resolved:
    """All layers. What of the system's file cannot be read, or is not for this engine, is left out and told.

    It must not fail a job: whoever runs it did not write that file, and mostly cannot change it.
    """
    path = system_conf_path(environment.get("PATH", ""))
    told: list[ConfigProblem] = []
    try:
        lines = list(file_lines(path))
    except OSError as error:
        what = f"SCR's system config file cannot be read ({error.strerror})"
        told.append(_told(str(path), what, "the job runs without what it says"))
        lines = []
    while True:
        resolved = resolve(environment, user_conf, config, "\n".join(lines))
        lacking = next(_lacking(resolved), None)
        if lacking is None:
            break
        name, place, why = lacking
        lines[place.line - 1] = ""
        told.append(_told(name, f"{path}:{place.line}: {why}", "this line is passed over"))
    return msgspec.structs.replace(resolved, problems=(*resolved.problems, *told))


def _lacking(resolved: Resolved) -> Iterator[tuple[str, Found, str]]:
    """Each parameter that the system's file sets to what this engine has not: its name, place, and why."""
    for name, source in resolved.sources.items():
        if source == "system config":
            try:
                Levers.of({name: resolved.settings[name]})
            except UnsupportedSettingError as error:
                yield name, resolved.origin(name), str(error)


def _told(parameter: str, what: str, remedy: str) -> ConfigProblem:
    return ConfigProblem(
        severity=Severity.WARNING,
        code=Code.SYSTEM_CONFIG,
        parameter=parameter,
        what=what,
        remedy=remedy,
        source="system config",
    )


def _job_id(environment: Mapping[str, str], prefix: str) -> str:
    """The resource manager's id, else one of the prefix directory's own.

    A restart has to find its cache, so the id that `scrtune run` makes up for each run is no good; and with
    SCR's plain ``defjobid`` two jobs of one user would evict each other's datasets.
    """
    named = (environment.get(name) for name in JOB_ID_VARIABLES if name != "SCRTUNE_JOB_ID")
    return next(filter(None, named), f"defjobid-{zlib.crc32(os.fsencode(prefix)):08x}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
