"""Every path of a job's run directory, which belongs to its user alone."""

import contextlib
import os
import re
import socket
import stat
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

JOB_ID_VARIABLES = ("SCRTUNE_JOB_ID", "SCR_JOB_ID", "SLURM_JOB_ID", "FLUX_JOB_ID")
NO_JOB_ID = "defjobid"
"""SCR's own name for a job that has none."""
# the launcher of MPI stands within srun's or flux's step: its word is the closer one
_RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "FLUX_TASK_RANK")
_SOCKET_PATH_LIMIT_BYTES = 107  # sun_path of unix(7), less its terminating zero
FIRST_ONLY = "observe.first"
"""Beside a trace: made by the forwarder, removed by the daemon (`native/observe.c`)."""
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class RunDirectoryError(OSError):
    """The run directory cannot be used; the text says why and what to do."""


@dataclass(frozen=True)
class _File:
    """The path of a file in the run directory."""

    name: str

    def __get__(self, paths: "JobPaths", _owner: type) -> Path:
        return paths.root / self.name


@dataclass(frozen=True)
class JobPaths:
    """The files of the daemon of one job on one node, which may share its file system with others."""

    job_id: str
    host: str
    base: Path
    shared_memory: Path = Path("/dev/shm")  # noqa: S108  every directory of ours below it is 0700 and checked

    events_socket = _File("events.sock")
    """ZeroMQ PULL: lines and events."""
    control_socket = _File("control.sock")
    """ZeroMQ ROUTER: questions and answers."""
    lock = _File("daemon.lock")
    """Held by the one daemon of this job on this node."""
    journal = _File("journal")
    """The events, in order; a restarted daemon recovers from it."""
    snapshot = _File("snapshot")
    """What the journal has come to, for a faster start; it may be removed."""
    log = _File("daemon.log")
    """The daemon's log."""
    scr_conf = _File("scr.conf")
    """The SCR config file that is rewritten for this job, unless the user names another."""
    begun_with = _File("user.conf")
    """The user's own config file, as that began with it."""
    environment = _File("environment.sh")
    """The additions to the application's environment, as ``export`` lines for a task prolog."""
    decision = _File("decision")
    """The settings to be active in the application (:mod:`scrtune.scr_config.decision`)."""
    earlier_decision = _File("decision.earlier")
    """That of an earlier run of this job, until the daemon of this one publishes."""
    last_status = _File("status.json")
    """The daemon's last status, which it leaves at its end."""
    spare = _File("spare")
    """Room for that, should the file system be full by then."""
    unheard = _File("unheard")
    """There from the start of an application until its daemon has heard of it, or cannot be started."""
    library_events = _File("library.events")
    """The lines of the preloaded library, for the forwarder."""

    @classmethod
    def of(cls, job_id: str | None = None, host: str | None = None, base: Path | None = None) -> "JobPaths":
        """Return the paths of `job_id` (default: this environment's job) on `host` (default: this one)."""
        return cls(
            job_id=_file_name(job_id or job_id_from_environment()),
            host=_file_name(host or host_name()),
            base=(base or default_base()).absolute(),
        )

    @classmethod
    def announced(cls) -> "JobPaths | None":
        """Return those of the job that scrtune runs this process in; None outside of one."""
        return cls.of() if "SCRTUNE_JOB_ID" in os.environ else None

    @property
    def root(self) -> Path:
        """The run directory itself, mode 0700."""
        return self.base / self.job_id / self.host

    @property
    def events_endpoint(self) -> str:
        """ZeroMQ endpoint that events are pushed to."""
        return f"ipc://{self.events_socket}"

    @property
    def control_endpoint(self) -> str:
        """ZeroMQ endpoint that questions are asked at."""
        return f"ipc://{self.control_socket}"

    @property
    def trace_directory(self) -> Path:
        """The directory of DFTracer's files: on tmpfs where there is one: every event is a small write."""
        if os.access(self.shared_memory, os.W_OK):
            # jobs of one id below different bases are different jobs
            base = f"{zlib.crc32(os.fsencode(self.base)):08x}"
            return self.shared_memory / f"scrtune-{os.getuid()}" / f"{self.job_id}.{base}" / self.host
        return self.root / "trace"

    @property
    def trace_prefix(self) -> Path:
        """The start of the names of DFTracer's files."""
        return self.trace_directory / "trace"

    @property
    def observe_off(self) -> Path:
        """Outputs of this node's ranks are not traced while it is there (`native/observe.c`)."""
        return self.trace_directory / "observe.off"

    @property
    def observe_first(self) -> Path:
        """Of this node's ranks only the first one's outputs are traced while it is there: all do the same."""
        return self.trace_directory / FIRST_ONLY

    def create(self) -> "JobPaths":
        """Make the run directory, mode 0700. Raises :class:`RunDirectoryError`."""
        self._check_name()
        longest = max(len(os.fsencode(p)) for p in (self.events_socket, self.control_socket))
        if longest > _SOCKET_PATH_LIMIT_BYTES:
            raise RunDirectoryError(
                f"{self.root}: a socket path in it has {longest} bytes, not {_SOCKET_PATH_LIMIT_BYTES} or"
                " fewer; set SCRTUNE_RUN_DIR to a shorter directory, or give the job a shorter id"
            )
        _own_directory(self.base)
        private_directory(self.root.parent)
        private_directory(self.root)
        for directory in (*reversed(self.trace_directory.parents[:2]), self.trace_directory):
            private_directory(directory)
        return self

    def check(self) -> "JobPaths":
        """Raise :class:`RunDirectoryError` unless all there is of the run directory is ours alone."""
        self._check_name()
        check_base(self.base)
        for directory in (self.root.parent, self.root):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                check_ours(directory)
        return self

    def _check_name(self) -> None:
        """Refuse a name that ZeroMQ and JSON, which know UTF-8 alone, spell otherwise than the system."""
        if str(self.base).encode("utf-8", "surrogatepass") != os.fsencode(self.base):
            raise RunDirectoryError(
                f"{str(self.base)!a}: its name is not UTF-8, or not read as such in this locale; set"
                " SCRTUNE_RUN_DIR to a directory with a plain name"
            )


def host_name() -> str:
    """Return this node's name without its domain, as DFTracer and Slurm use it."""
    return socket.gethostname().split(".")[0]


def default_base() -> Path:
    """Return the parent of run directories: $SCRTUNE_RUN_DIR, else in $XDG_RUNTIME_DIR, else in $TMPDIR."""
    if own := os.environ.get("SCRTUNE_RUN_DIR"):
        return Path(own).absolute()
    if (runtime := os.environ.get("XDG_RUNTIME_DIR")) and Path(runtime).is_dir():
        return Path(runtime) / "scrtune"
    return temporary_base()


def bases() -> tuple[Path, ...]:
    """Return all places of run directories: in an allocation they lie in the temporary directory."""
    if os.environ.get("SCRTUNE_RUN_DIR"):
        return (default_base(),)
    return tuple(dict.fromkeys((default_base(), temporary_base())))


def temporary_base() -> Path:
    """Return the parent of run directories in the system's temporary directory, one for each user."""
    return Path(tempfile.gettempdir()) / f"scrtune-{os.getuid()}"


def job_id_from_environment() -> str:
    """Return the job's id as scrtune, SCR or the resource manager names it, else :data:`NO_JOB_ID`."""
    return next((value for name in JOB_ID_VARIABLES if (value := os.environ.get(name))), NO_JOB_ID)


def writer_of_rank(rank: int) -> str:
    """Return the name that rank `rank` of a job records under."""
    return f"rank{rank}"


def writer_from_environment() -> str:
    """Return ``rank<n>`` as torchrun, MPI, Slurm or Flux number this process, else an empty text."""
    # RANK is torchrun's only beside its LOCAL_RANK: anybody may have a variable of that name
    names = ("RANK", *_RANK_VARIABLES) if "LOCAL_RANK" in os.environ else _RANK_VARIABLES
    found = next((value for name in names if (value := os.environ.get(name, "")).isdecimal()), "")
    return writer_of_rank(int(found)) if found else ""


def _file_name(text: str) -> str:
    """Return `text` as a name within a directory, and of nothing outside it."""
    return re.sub(r"^\.+$", "_", _UNSAFE.sub("_", text))


def check_base(path: Path) -> None:
    """Raise :class:`RunDirectoryError` when there is a base at `path` that is not ours."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        check_ours(path, may_be_sticky=True)


def _own_directory(path: Path, variable: str = "SCRTUNE_RUN_DIR") -> None:
    """Make `path` (mode 0700), or check that it is ours; a directory that the user named keeps its mode."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(
            f"{path}: cannot be made ({error.strerror}); set {variable} to a directory of yours"
        ) from error
    check_ours(path, variable, may_be_sticky=True)


def check_ours(path: Path, variable: str = "SCRTUNE_RUN_DIR", *, may_be_sticky: bool = False) -> None:
    """Raise :class:`RunDirectoryError`, which names `variable`, unless `path` is a directory of ours alone.

    Raises OSError when it is not there.
    """
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise RunDirectoryError(
            f"{path}: is a link or belongs to another user; set {variable} to a directory of yours"
        )
    is_sticky = may_be_sticky and status.st_mode & stat.S_ISVTX
    if status.st_mode & _WRITABLE_BY_OTHERS and not is_sticky:
        raise RunDirectoryError(
            f"{path}: others may write there; take that from them (chmod go-w), or set {variable} to"
            " another directory of yours"
        )


def private_directory(path: Path, variable: str = "SCRTUNE_RUN_DIR") -> None:
    """Make `path`, or check that it is ours, with mode 0700 in any case.

    Raises :class:`RunDirectoryError`, which names `variable`.
    """
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & 0o77:
            path.chmod(0o700)
    _own_directory(path, variable)
