"""The memory between jobs: one JSON file for each kind of job, in a directory of the user's.

It lies in `scrtune/memory` below `$XDG_STATE_HOME`, else below `~/.local/state`. A file may be removed at any
time; one that is damaged, of another kind of job or of somebody else's is ignored, with a warning.
"""

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..client.engine import user_name
from ..client.paths import private_directory
from ..goodput.validation import is_within_bounds
from ..intents.events import KnowledgeRecalled, SettingsObserved
from ..intents.pipeline import Pipeline
from ..intents.tune.knowledge import Knowledge
from ..scr_config.catalogue import checked
from ..scr_config.files import read_own, write_atomic
from ..scr_config.locations import PLACES
from .options import DaemonOptions

log = logging.getLogger("scrtune.daemon")

MOST_KINDS = 200
_LIMIT_BYTES = 256 * 1024
_EVERY_S = 30.0
_NUMBER = re.compile(r"\d+")
_OF_ONE_JOB = ("SCR_HALT_", "SCR_LOG_", "SCR_CACHE_PURGE")  # an end that is near, its log, a clean start


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs have in common that learn from each other; `own` stands for the user's settings."""

    user: str
    application: str
    engine: str
    ranks: int
    nodes: int
    machine: str
    cpus: int
    own: str


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    kind: JobKind
    knowledge: Knowledge
    version: Literal[1] = 1


def kind_of(job: SettingsObserved, application: str, host: str, environment: Mapping[str, str]) -> JobKind:
    """Return the kind of `job`, a run of `application` whose rank 0 is on `host`.

    Numbers in the names of hosts and of the cache's directory do not count.
    """
    settings = {
        name: value
        for name, value in job.settings.items()
        if name not in PLACES and not name.startswith(_OF_ONE_JOB)
    }
    cache = _NUMBER.sub("#", str(job.settings.get("SCR_CACHE_BASE", "")))
    own = (sorted(settings.items()), cache, job.floor.upper(), job.durability, job.declared.losses)
    return JobKind(
        user=user_name(),
        application=application,
        engine=job.engine,
        ranks=job.ranks,
        nodes=job.nodes,
        machine=environment.get("SLURM_CLUSTER_NAME") or _NUMBER.sub("#", host),
        cpus=os.cpu_count() or 0,
        own=_digest(msgspec.json.encode(own)),
    )


def memory_directory(environment: Mapping[str, str]) -> Path:
    """Return where the memory is. Raises RuntimeError when the user has no home."""
    state = Path(environment.get("XDG_STATE_HOME", ""))  # a relative one is none (XDG base directories)
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "scrtune" / "memory"


class Memory:
    """The files in `directory`, :data:`MOST_KINDS` at most."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, kind: JobKind) -> Path:
        """Return the file of a kind of job."""
        return self.directory / f"{_digest(msgspec.json.encode(kind))}.json"

    def recall(self, kind: JobKind) -> Knowledge | None:
        """Return what is known of a kind of job; None when that is nothing. Raises OSError and ValueError."""
        try:
            kept = msgspec.json.decode(read_own(self.path(kind), _LIMIT_BYTES), type=_Kept)
        except FileNotFoundError:
            return None
        if kept.kind != kind or not is_within_bounds(kept.knowledge):
            raise ValueError("it is of another kind of job, or has numbers that cannot be")
        checked(kept.knowledge.settings)
        return kept.knowledge

    def keep(self, kind: JobKind, knowledge: Knowledge) -> None:
        """Keep `knowledge` instead of what was known, and forget the kinds learnt about longest ago.

        Raises OSError.
        """
        private_directory(self.directory, "XDG_STATE_HOME")
        text = msgspec.json.format(msgspec.json.encode(_Kept(kind=kind, knowledge=knowledge)), indent=1)
        write_atomic(self.path(kind), text, durable=False, mode=0o600)
        ages = {path: path.lstat().st_mtime_ns for path in self.directory.glob("*.json")}
        for path in sorted(ages, key=lambda each: ages[each], reverse=True)[MOST_KINDS:]:
            path.unlink(missing_ok=True)


class JobMemory:
    """The memory as one daemon uses it: what fails is logged once, and the job goes on without."""

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self._kept: Knowledge | None = None
        self._next_s = 0.0
        self._memory: Memory | None = None
        if options.application:
            try:
                self._memory = Memory(memory_directory(os.environ))
            except RuntimeError as error:
                self._give_up(error)

    def recall(self, job: SettingsObserved) -> KnowledgeRecalled | None:
        """Return what jobs like `job` taught, as an event before its own; None when that is nothing."""
        if self._memory is None:
            return None
        kind = self._kind(job)
        try:
            known = self._memory.recall(kind)
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            log.warning("%s: ignored: %s", self._memory.path(kind), error)
            return None
        return None if known is None else KnowledgeRecalled(knowledge=known)

    def tick(self, time_s: float, pipeline: Pipeline) -> None:
        """:meth:`keep` now and then, so that a job that is killed loses little; `time_s` is monotonic."""
        if time_s >= self._next_s and pipeline.job is not None:
            self._next_s = time_s + _EVERY_S
            self.keep(pipeline)

    def keep(self, pipeline: Pipeline) -> None:
        """Keep what the job has learnt, if that is news."""
        if self._memory is None or (job := pipeline.job) is None:
            return
        try:
            known = pipeline.knowledge
            if known is not None and known != self._kept:
                self._memory.keep(self._kind(job), known)
                self._kept = known
        except Exception as error:  # noqa: BLE001 - whatever it is, neither the daemon nor its job may end by it
            self._give_up(error)

    def _kind(self, job: SettingsObserved) -> JobKind:
        return kind_of(job, self._options.application, self._options.paths.host, os.environ)

    def _give_up(self, error: Exception) -> None:
        log.warning("what this job teaches is not kept: %s", error)
        self._memory = None


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]
