"""Events for the daemon, from what libscrtune.so reports of an application on a real SCR.

The library, on rank 0, appends JSON lines to a file: what was called when, and what was applied. What SCR did
within the calls is in SCR's own log.
"""

import os
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path

import msgspec

from ...goodput.events import JobEnded, JobStarted, StepCompleted
from ...intents.events import ApplyRefused, Event, SettingsObserved
from ...scr_config.locations import system_conf_path, user_conf_path
from ...scr_config.resolution import resolve
from ..implicit_steps import ImplicitSteps
from ..job_terms import declared
from .join import Flushed, Joiner, Output, Restart
from .log import ScrLog, Tail


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """SCR_Init has returned: the shape of the job, rank 0's SCR_ variables, and what can be changed how.

    `init_s` is what it took, without waiting for the last rank and without the recovery of cached datasets.
    """

    time_s: float
    init_s: float = 0.0
    ranks: int = 1
    nodes: int = 1
    cwd: str = ""
    prefix: str = ""
    cache: str = ""
    version: str = ""
    environment: dict[str, str] = {}
    capabilities: dict[str, str] = {}
    processes: tuple[tuple[str, int], ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """SCR_Need_checkpoint was called; `due` is its answer."""

    began_s: float
    ended_s: float
    due: bool = False


class Applied(msgspec.Struct, frozen=True, kw_only=True, tag="applied"):
    """A decision came into force on all ranks; `how` is ``live`` or ``re-init``."""

    time_s: float
    how: str = "live"
    seconds: float = 0.0


Line = Started | Asked | Output | Flushed | Restart | Applied | StepCompleted | ApplyRefused | JobEnded
"""What SCR's log has nothing to add to is told as the event that it is."""
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def parse_library_line(line: bytes) -> Line | None:
    """Return one line of the library's, or None when it is none. Never raises."""
    try:
        return _decoder.decode(line.decode("utf-8", "replace"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class LibraryEvents:
    """Follows the library's file at `path`, and SCR's log once the library has said where that is.

    `environment` (default: this process's) is for what the library does not say of the application's. For one
    thread; nothing here raises.
    """

    def __init__(self, path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.garbage = 0
        """Lines so far that are none of the library's."""
        self.log: ScrLog | None = None
        self._environment = dict(os.environ if environment is None else environment)
        self._said = Tail(path)
        self._joiner = Joiner()
        self._steps = ImplicitSteps(inf)
        self._is_due = False

    def take(self) -> list[Event]:
        """Return the events since the last call; more than 256 KiB of either file is left for the next."""
        lines = list(self._lines())  # before the log: what SCR logged within a call is then there
        started = [line for line in lines if isinstance(line, Started)]
        for line in started:
            self._follow_log(line)
        logged: list[Event] = list(self._joiner.records(self.log.records() if self.log else ()))
        said = [event for line in lines for event in self._events(line)]
        settled = self._joiner.records(())
        # what was logged is of the run that has begun
        return [*said, *logged, *settled] if started else [*logged, *settled, *said]

    def close(self) -> None:
        """Let go of the files."""
        self._said.close()
        if self.log is not None:
            self.log.close()

    def _lines(self) -> Iterator[Line]:
        for text in filter(None, self._said.take().split(b"\n")):
            line = parse_library_line(text)
            if line is None:
                self.garbage += 1
            else:
                yield line

    def _follow_log(self, started: Started) -> None:
        """Follow SCR's log of this run; a later run of the same job goes on in the same file."""
        path = Path(started.cwd, started.prefix, ".scr", "log")
        if "\0" not in str(path) and (self.log is None or self.log.path != path):
            if self.log is not None:
                self.log.close()
            self.log = ScrLog(path, since_s=started.time_s)

    def _events(self, line: Line) -> Iterator[Event]:
        match line:
            case Started():
                self._steps = ImplicitSteps(line.time_s, dataset=None)
                yield JobStarted(time_s=line.time_s, ranks=line.ranks, nodes=line.nodes)
                yield settings_observed(line, self._environment)
                yield from self._joiner.began(line.time_s)
            case Asked():
                self._is_due = line.due
                yield from self._steps.asked(line.began_s, line.ended_s)
            case StepCompleted():
                self._steps.has_explicit = True
                yield line
            case Output():
                yield from self._steps.output(
                    line.dataset, line.entered_s, line.closed_s, resumable=line.valid and line.checkpoint
                )
                yield line.started()
                yield msgspec.structs.replace(self._joiner.output(line), due=self._is_due)
                self._is_due = False
            case Flushed():
                self._joiner.flushed(line)
            case Restart():
                completed = self._joiner.restart(line)
                self._steps.resumed_at(completed)
                yield completed
            case Applied(how="re-init"):
                self._joiner.reinitialized(line.time_s, line.seconds)
            case ApplyRefused():
                yield line
            case JobEnded():
                yield from self._joiner.ended(line.time_s)
                yield line


def settings_observed(started: Started, inherited: Mapping[str, str]) -> SettingsObserved:
    """Return the user's own settings, through SCR's layers as they stand now, and where each comes from.

    Of the forwarder's environment, `inherited`, SCR_ variables do not count. Never raises.
    """
    others = {name: text for name, text in inherited.items() if not name.startswith("SCR_")}
    environment = {**others, **started.environment}
    cwd = Path(started.cwd or ".")
    resolved = resolve(
        environment,
        _text(user_conf_path(environment, cwd)),
        _text(cwd / started.prefix / ".scr" / "app.conf"),
        _text(system_conf_path(environment.get("PATH", ""))),
    )
    return declared(
        SettingsObserved(
            settings=resolved.settings,
            sources=resolved.sources,
            engine=f"libscr {started.version}".rstrip(),
            ranks=started.ranks,
            nodes=started.nodes,
            prefix=started.prefix,
            cache=started.cache,
            processes=started.processes,
            mutability=started.capabilities,
            init_s=started.init_s,
        ),
        environment,
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace") if path.is_file() else None
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
