"""A real libscr as an engine: SCR's own life cycle, and what happened in it, told by SCR's own log.

Times are rank 0's, taken round SCR's calls, which all begin with a barrier: waiting for slower ranks is in
them. What an output spent on encoding and flushing, its files and its bytes are in the log that SCR's rank 0
writes within those calls (SCR_LOG_ENABLE=1, which `scrtune run` sets); without it only the times of the calls
are known.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from mpi4py import MPI

from ...goodput.events import OutputCompleted, Recovered, RestartCompleted
from ...intents.effects import Advice
from ...intents.events import ApplyRefused, Event, SettingsObserved, Values
from ...scr_config.locations import file_lines, system_conf_path, user_conf_text
from ...scr_config.resolution import Resolved, resolve
from ..engine import EngineError, OutputFlags
from ..scr_log.join import Joiner, Output
from ..scr_log.log import ScrLog
from .apply import Applied, Applier
from .decision import DecisionError, decision_text
from .library import Library


@dataclass
class _Opened:
    """The output that is open, as rank 0's clock has it."""

    dataset: int
    name: str
    flags: OutputFlags
    generation: int
    entered_s: float
    apply_s: float
    opened_s: float
    routed: dict[str, str] = field(default_factory=dict)
    """Where this rank writes -> the file that is meant."""


class LibscrEngine:
    """Implements :class:`scrtune.client.engine.Engine` over `library`; it calls SCR_Init, so make it once.

    `comm` must have the ranks of MPI_COMM_WORLD. `recorded` has the texts that the application gave to
    SCR_Config, in order. What SCR refuses raises :class:`.libscr.ScrError` with SCR's own words; calls out of
    turn abort the job, as they do in SCR.
    """

    def __init__(self, comm: MPI.Intracomm, library: Library, recorded: Sequence[str] = ()) -> None:
        self._library = library
        self._is_root = comm.rank == 0
        library.init()
        began_s = time.time()
        self._node = _node_of(comm, library)
        self._applier = Applier(library, recorded)
        self._described = self._describe(comm)
        self._decisions = _Decisions(self._applier.in_force())
        self._generation = 0
        self._entered_s: float | None = None
        self._applied: Applied | None = None
        self._opened: _Opened | None = None
        self._searched_s: float | None = None
        self._joiner = Joiner()
        self._log = self._scr_log(began_s) if self._is_root else None
        self._events: list[Event] = []
        self._reading, self._source = "", "cache"
        self._listen()
        self._note(self._joiner.began(began_s))

    def describe(self) -> SettingsObserved:
        """The user's own settings, where each came from, the shape of the job, and what SCR lets change."""
        return self._described

    def apply(self, advice: Advice | None) -> int:
        """Bring rank 0's `advice` into force by SCR's own broadcast, on all ranks or on none."""
        self._entered_s = time.time()
        text = self._decisions.text(advice) if self._is_root else None
        self._applied = applied = self._applier.apply(text)
        if applied is None:
            return self._generation
        if applied.how == "refused":
            generation = advice.generation if advice else applied.generation
            self._events.append(ApplyRefused(generation=generation, why=applied.why))
        else:
            self._generation = applied.generation
        if applied.how == "re-init":
            self._listen()
            self._joiner.reinitialized(time.time(), applied.seconds)
        return self._generation

    def need_checkpoint(self) -> bool:
        """``SCR_Need_checkpoint``."""
        return self._library.need_checkpoint()

    def start_output(self, name: str, flags: OutputFlags) -> int:
        """``SCR_Start_output``; what :meth:`apply` took just before is part of the output."""
        entered_s, self._entered_s = self._entered_s or time.time(), None
        applied, self._applied = self._applied, None
        left = self._applier.leave_cache(int(flags))
        if left is not None:
            self._left_cache(left)
        self._library.start_output(name, int(flags))
        self._opened = _Opened(
            dataset=self._library.dataset,
            name=name,
            flags=flags,
            generation=self._generation,
            entered_s=entered_s,
            apply_s=sum(each.seconds for each in (applied, left) if each),
            opened_s=time.time(),
        )
        self._searched_s = None
        self._listen()
        return self._opened.dataset

    def route_file(self, name: str) -> str:
        """``SCR_Route_file`` of `name`; a relative one is seen from the prefix directory."""
        wanted = str(Path(self._library.prefix, name))
        path = self._library.route_file(wanted)
        if self._opened is not None:
            self._opened.routed[path] = wanted if self._opened.routed.get(path, wanted) == wanted else ""
        return path

    def complete_output(self, valid: bool) -> OutputCompleted:
        """``SCR_Complete_output``; threads that it starts to flush run where SCRTUNE_FLUSH_CPUS says.

        A dataset of which two files took each other's place in the cache is not valid.
        """
        closing_s = time.time()
        is_whole, sharing = self._has_own_places(), self._applier.sharing
        meets = None
        if sharing and self._opened:
            meets = sharing.look(int(self._opened.flags), list(self._opened.routed.values()))
            sharing.mind()
        with self._applier.around_flush():
            all_valid = self._library.complete_output(valid and is_whole)
        closed_s = time.time()
        opened, self._opened = self._opened, None
        if opened is None:  # MPI_Abort, which SCR has called, may leave us a moment
            raise EngineError("complete_output without start_output; call start_output first")
        self._listen()
        completed = self._joiner.output(
            Output(
                dataset=opened.dataset,
                name=opened.name,
                checkpoint=OutputFlags.CHECKPOINT in opened.flags,
                valid=all_valid,
                shared=sharing.completed(int(opened.flags), meets, all_valid) if sharing else None,
                generation=opened.generation,
                entered_s=opened.entered_s,
                apply_s=opened.apply_s,
                opened_s=opened.opened_s,
                closing_s=closing_s,
                closed_s=closed_s,
            )
        )
        self._note(self._joiner.records(()))
        return completed

    def happened(self) -> Sequence[Event]:
        """What SCR's log said since the last call, and decisions that were refused; rank 0 alone knows."""
        self._listen()
        events, self._events = self._events, []
        return events

    def have_restart(self) -> str | None:
        """``SCR_Have_restart``; SCR may fetch a checkpoint from the prefix directory in it."""
        if self._searched_s is None:
            self._searched_s = time.time()
        name = self._library.have_restart()
        self._listen()
        return name

    def start_restart(self) -> str:
        """``SCR_Start_restart``."""
        self._reading = self._library.start_restart()
        return self._reading

    def complete_restart(self, valid: bool) -> RestartCompleted:
        """``SCR_Complete_restart``."""
        dataset, name = self._library.dataset, self._reading
        all_valid = self._library.complete_restart(valid)
        end_s = time.time()
        start_s, self._searched_s = self._searched_s or end_s, None
        source, self._source = self._source, "cache"
        return RestartCompleted(
            dataset=dataset, name=name, start_s=start_s, end_s=end_s, source=source, valid=all_valid
        )

    def should_exit(self) -> bool:
        """``SCR_Should_exit``."""
        return self._library.should_exit()

    def current(self, name: str) -> int:
        """``SCR_Current``; the dataset that SCR counts on from."""
        self._library.current(name)
        return self._library.dataset

    def drop(self, name: str) -> None:
        """``SCR_Drop``."""
        self._library.drop(name)

    def delete(self, name: str) -> None:
        """``SCR_Delete``."""
        self._library.delete(name)

    def finalize(self) -> Sequence[Event]:
        """``SCR_Finalize``. The last call."""
        with self._applier.around_flush():
            self._library.finalize()
        self._node.Free()
        events = [*self.happened(), *self._joiner.ended()]
        if self._log is not None:
            self._log.close()
        return events

    # ---- the rest ----

    def _left_cache(self, left: Applied) -> None:
        """The bypass is back, or could not be brought back."""
        back: Values = {"SCR_CACHE_BYPASS": 1} if left.how == "re-init" else {}
        self._events.append(ApplyRefused(generation=self._generation, why=left.why, in_force=back))
        if back:
            self._listen()
            self._joiner.reinitialized(time.time(), left.seconds)

    def _has_own_places(self) -> bool:
        """Whether each file that the ranks of this node wrote has a place of its own.

        SCR's cache has one directory for a dataset and a node, and files in it by base names (scr.c:518).
        SCR would call whole what one rank has overwritten of another's.
        """
        meant: dict[str, str] = {}
        for routed in self._node.allgather(self._opened.routed if self._opened else {}):
            for path, wanted in routed.items():
                if not wanted or meant.setdefault(path, wanted) != wanted:
                    if self._node.rank == 0:
                        _say(f"several files have the base name of {path}; this dataset is dropped")
                    return False
        return True

    def _scr_log(self, began_s: float) -> ScrLog | None:
        """SCR's log from this run's beginning on, None when SCR writes none."""
        if not all(self._is_on(name) for name in ("scr_log_enable", "scr_log_txt_enable")):
            return None
        path = Path(self._library.prefix, ".scr", "log")
        return ScrLog(path, since_s=began_s, jobid=self._text("scr_jobid") or None)

    def _listen(self) -> None:
        """Take in what SCR's rank 0 has logged."""
        if self._log is not None:
            self._note(self._joiner.records(self._log.take()))

    def _note(self, events: Sequence[Event]) -> None:
        if any(isinstance(each, Recovered) and each.kind == "fetch" and each.valid for each in events):
            self._source = "prefix"  # whether what is in the cache had to be rebuilt SCR does not log
        self._events += events

    def _is_on(self, symbol: str) -> bool:
        return self._library.has(symbol) and self._library.integer(symbol) != 0

    def _text(self, symbol: str) -> str:
        return (self._library.string(symbol) or "") if self._library.has(symbol) else ""

    def _describe(self, comm: MPI.Intracomm) -> SettingsObserved:
        """Collective, as SCR counts the nodes."""
        library = self._library
        nodes = library.nodes()
        resolved = comm.bcast(_own_settings(library) if self._is_root else None)
        cache = Path(self._text("scr_cache_base"), self._text("scr_username"))
        return SettingsObserved(
            settings=resolved.settings,
            sources=resolved.sources,
            engine=f"libscr {library.version}".rstrip(),
            ranks=library.ranks,
            nodes=nodes,
            prefix=library.prefix,
            cache=str(cache / f"scr.{self._text('scr_jobid')}"),
            mutability={name: each.klass for name, each in self._applier.capabilities.items()},
        )


class _Decisions:
    """Makes texts of advice, on rank 0. What was once advised and is no more is the user's own again."""

    def __init__(self, own: Values) -> None:
        """`own` are the user's values of all that can change."""
        self._own = own
        self._advised: set[str] = set()
        self._generation = 0

    def text(self, advice: Advice | None) -> str | None:
        """None when there is nothing new. Never raises."""
        if advice is None or advice.generation == self._generation:
            return None
        self._generation = advice.generation
        self._advised |= advice.settings.keys() & self._own.keys()
        back: Values = {name: self._own[name] for name in self._advised}
        try:
            return decision_text(Advice(generation=advice.generation, settings={**back, **advice.settings}))
        except DecisionError as error:
            _say(f"settings are refused, what was in force stays: {error}")
            return None


def _node_of(comm: MPI.Intracomm, library: Library) -> MPI.Intracomm:
    """The ranks that share a cache, as SCR counts nodes. Collective."""
    if not comm.allreduce(library.has("scr_my_hostid"), op=MPI.LAND):
        return cast("MPI.Intracomm", comm.Split_type(MPI.COMM_TYPE_SHARED))
    return cast("MPI.Intracomm", comm.Split(library.integer("scr_my_hostid"), comm.rank))


def _own_settings(library: Library) -> Resolved:
    """What SCR found in its layers. A file that cannot be read counts as none, as in SCR.

    `.scr/app.conf` has what was given to SCR_Config: SCR writes it in SCR_Init (scr.c:1292).
    """
    app_conf = _text_of(Path(library.prefix, ".scr", "app.conf"))
    try:
        user_conf = user_conf_text(os.environ, app_conf)
    except OSError:
        user_conf = None
    programs = str(library.path.resolve().parent.parent / "bin")
    return resolve(os.environ, user_conf, app_conf, _text_of(system_conf_path(programs)))


def _text_of(path: Path) -> str:
    try:
        return "\n".join(file_lines(path))
    except OSError:
        return ""


def _say(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # nobody has to listen
        sys.stderr.write(f"scrtune: {text}\n")
