"""Events for the daemon, from what libscrtune.so reports of an application on a real SCR.

The library, on rank 0, appends JSON lines to a file of the job's run directory: what was called when, and
what was applied. What SCR did within the calls is in SCR's own log, and, when SCR_DEBUG is set, in the job's
output; where that goes to a file, SCRTUNE_JOB_OUTPUT may name it. Rank 0's forwarder reads them all.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...goodput.events import JobEnded, JobStarted, RestartCompleted, StepCompleted
from ...intents.events import ApplyRefused, Event, SettingsObserved, Values
from ...scr_config.locations import system_conf_path, user_conf_path
from ...scr_config.resolution import resolve
from ..implicit_steps import ImplicitSteps
from ..paths import writer_of_rank
from ..reported_settings import declared
from .debug import ScrDebug
from .join import Joiner, Output, Restart
from .log import Record, ScrLog, Tail

_OUTPUT_VARIABLE = "SCRTUNE_JOB_OUTPUT"
_EARLY_LIMIT = 65_536
"""Questions before a run's first output that are remembered for its steps."""


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """SCR_Init has returned: the shape of the job, rank 0's SCR_ variables, and what can be changed how."""

    time_s: float
    ranks: int = 1
    nodes: int = 1
    host: str = ""
    pid: int = 0
    cwd: str = ""
    prefix: str = ""
    cache: str = ""
    version: str = ""
    environment: dict[str, str] = {}
    capabilities: dict[str, str] = {}
    processes: tuple[tuple[str, int], ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """SCR_Need_checkpoint was called."""

    began_s: float
    ended_s: float


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """The application reported a step of its main loop."""

    step: int
    start_s: float
    end_s: float


class Applied(msgspec.Struct, frozen=True, kw_only=True, tag="applied"):
    """A decision came into force on all ranks; `how` is ``live`` or ``re-init``."""

    time_s: float
    generation: int
    how: str = "live"
    seconds: float = 0.0


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """A decision was refused on all ranks, or, where `in_force` has values, partly taken back."""

    time_s: float
    generation: int
    why: str = ""
    in_force: Values = {}


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """SCR_Finalize has returned."""

    time_s: float


Line = Started | Asked | Step | Output | Restart | Applied | Refused | Ended
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def parse_library_line(line: bytes) -> Line | None:
    """One line of the library's, or None when it is none. Never raises."""
    try:
        return _decoder.decode(line.decode("utf-8", "replace"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


@dataclass
class LibraryCounts:
    """What was read since the start."""

    lines: int = 0
    garbage: int = 0


class LibraryEvents:
    """Follows the library's file at `path`, and SCR's log once the library has said where that is.

    `environment` (default: this process's) stands for what the library does not say of the application's:
    variables named within values, the search path, and how `scrtune run` was asked to run the job. For use by
    one thread; nothing here raises.
    """

    def __init__(self, path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.counts = LibraryCounts()
        self.log: ScrLog | None = None
        self._environment = dict(os.environ if environment is None else environment)
        self._said = Tail(path)
        output = self._environment.get(_OUTPUT_VARIABLE, "")
        self._output = Tail(Path(output)) if output and "\0" not in output else None
        self._debug = ScrDebug()
        self._joiner = Joiner()
        self._implicit: ImplicitSteps | None = None
        self._began_s: float | None = None
        self._early: list[Asked] = []

    def take(self) -> list[Event]:
        """The events since the last call, oldest first; 1,024 lines of either file are left for the next."""
        lines = list(self._lines())  # before the log: what SCR logged within a call is then there
        for line in lines:
            if isinstance(line, Started):
                self._follow_log(line)
        logged: list[Event] = list(self._joiner.records(self._records()))
        said = [event for line in lines for event in self._events(line)]
        settled = self._joiner.records(())
        if any(isinstance(line, Started) for line in lines):
            return [*said, *logged, *settled]  # what was logged is of the run that has begun
        return [*logged, *settled, *said]

    def close(self) -> None:
        """Let go of the files."""
        for each in (self._said, self._output, self.log):
            if each is not None:
                each.close()

    def _records(self) -> Iterator[Record]:
        """What SCR logged, then what it printed: the log is exact."""
        if self.log is not None:
            yield from self.log.take()
        if self._output is not None:
            yield from self._debug.records(self._output.take())

    def _lines(self) -> Iterator[Line]:
        for text in filter(None, self._said.take().split(b"\n")):
            line = parse_library_line(text)
            self.counts.lines += 1
            if line is None:
                self.counts.garbage += 1
            else:
                yield line

    def _follow_log(self, started: Started) -> None:
        """SCR's log of this run; a later run of the same job goes on in the same file."""
        path = Path(started.cwd, started.prefix, ".scr", "log")
        if "\0" not in str(path) and (self.log is None or self.log.path != path):
            if self.log is not None:
                self.log.close()
            self.log = ScrLog(path, since_s=started.time_s)

    def _events(self, line: Line) -> Iterator[Event]:
        match line:
            case Started():
                self._implicit, self._began_s = ImplicitSteps(line.time_s), line.time_s
                self._early.clear()
                yield JobStarted(time_s=line.time_s, ranks=line.ranks, nodes=line.nodes)
                yield settings_observed(line, self._environment)
                yield from self._joiner.began(line.time_s)
            case Asked():
                yield from self._asked(line)
            case Step():
                yield self._explicit_step(line)
            case Output():
                yield from self._steps(line)
                yield line.started()
                yield self._joiner.output(line)
            case Restart():
                yield self._restarted(line)
            case Applied(how="re-init"):
                self._joiner.reinitialized(line.time_s, line.seconds)
            case Applied():
                pass
            case Refused():
                yield ApplyRefused(generation=line.generation, why=line.why, in_force=line.in_force)
            case Ended():
                yield from self._joiner.ended(line.time_s)
                yield JobEnded(time_s=line.time_s)

    def _restarted(self, restart: Restart) -> RestartCompleted:
        completed = self._joiner.restart(restart)
        if self._implicit is not None and completed.valid and completed.dataset:
            self._implicit.resumed(completed.dataset, completed.end_s)
            self._began_s = None
            self._early.clear()
        return completed

    def _explicit_step(self, step: Step) -> StepCompleted:
        if self._implicit is not None:
            self._implicit.has_explicit = True
        writer = writer_of_rank(0)
        return StepCompleted(step=step.step, start_s=step.start_s, end_s=step.end_s, writer=writer)

    def _asked(self, asked: Asked) -> Iterator[StepCompleted]:
        """The step that a question ended; before a run's first output its number is not known yet."""
        if self._implicit is None:
            return
        if self._began_s is None:
            yield from self._implicit.asked(asked.began_s, asked.ended_s)
        elif len(self._early) < _EARLY_LIMIT:
            self._early.append(asked)

    def _steps(self, output: Output) -> Iterator[StepCompleted]:
        """What the application computed before `output`.

        The first dataset of a run follows, in SCR's count, the one that the application restarted from.
        """
        if self._implicit is None:
            return
        if self._began_s is not None:
            self._implicit.resumed(output.dataset - 1, self._began_s)
            self._began_s = None
            for asked in self._early:
                yield from self._implicit.asked(asked.began_s, asked.ended_s)
            self._early.clear()
        yield from self._implicit.output_started(output.entered_s)
        if output.valid and output.checkpoint:
            self._implicit.resumed(output.dataset, output.closed_s)
        else:
            self._implicit.paused(output.closed_s)


def settings_observed(started: Started, inherited: Mapping[str, str]) -> SettingsObserved:
    """The user's own settings, through SCR's layers as they stand now, and where each comes from.

    `inherited` is the environment of the forwarder: its SCR_ variables do not count. Never raises; a file
    that cannot be read counts as absent.
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
    observed = SettingsObserved(
        settings=resolved.settings,
        sources=resolved.sources,
        engine=f"libscr {started.version}".rstrip(),
        ranks=started.ranks,
        nodes=started.nodes,
        prefix=started.prefix,
        cache=started.cache,
        processes=started.processes,
        mutability=started.capabilities,
    )
    return declared(observed, environment)


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace") if path.is_file() else None
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
