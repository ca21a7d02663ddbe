"""What a checkpoint engine can do: :mod:`.embedded` is one, a real libscr (:mod:`.libscr.engine`) another.

:mod:`.select` says which of them a job gets.
"""

import enum
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from ..goodput.events import OutputCompleted, RestartCompleted
from ..intents.effects import Advice
from ..intents.events import Event, SettingsObserved
from ..scr_config.catalogue import SECRETS

_UNREPORTED = SECRETS | {"SCR_CONF_FILE"}
"""Secrets, and a path that `scrtune run` itself has set: no setting of the user's."""


class EngineError(RuntimeError):
    """The engine cannot start, was called out of turn, or SCR said no; the text says what to do."""


def say(text: str) -> None:
    """Say `text` on standard error, which may be closed."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"scrtune: {text}\n")


def declared(observed: SettingsObserved, environment: Mapping[str, str]) -> SettingsObserved:
    """Return `observed` without what is nobody's business, and with what `environment` declares."""
    return msgspec.structs.replace(
        observed,
        settings={name: value for name, value in observed.settings.items() if name not in _UNREPORTED},
        sources={name: source for name, source in observed.sources.items() if name not in _UNREPORTED},
        floor=environment.get("SCRTUNE_REDUNDANCY_FLOOR", ""),
        override=environment.get("SCRTUNE_OVERRIDE", "0") != "0",
        tuning=environment.get("SCRTUNE_TUNING", "1") != "0",
    )


class OutputFlags(enum.IntFlag):
    """SCR's flags of ``SCR_Start_output`` (scr.h)."""

    NONE = 0
    CHECKPOINT = 1
    OUTPUT = 2


class Engine(Protocol):
    """SCR's life cycle. Every method is collective over the ranks the engine was made with."""

    def need_checkpoint(self) -> bool:
        """Return whether a checkpoint is due (SCR_CHECKPOINT_INTERVAL, _SECONDS, _OVERHEAD) on all ranks."""

    def start_output(self, name: str, flags: OutputFlags) -> int:
        """Open dataset `name`; return its number. Wait for an earlier flush when the cache has no room."""

    def route_file(self, name: str) -> str:
        """Return the path to write `name` to, within an output, or to read it from, within a restart."""

    def complete_output(self, valid: bool) -> OutputCompleted:
        """Close the dataset: encode, flush or start flushing. `valid` is this rank's; all must agree."""

    def have_restart(self) -> str | None:
        """Return the name of the newest dataset that can be restarted from, or None."""

    def start_restart(self) -> str:
        """Open that dataset for reading and return its name."""

    def complete_restart(self, valid: bool) -> RestartCompleted:
        """Close the restart. If any rank finds it invalid, :meth:`have_restart` looks further back next."""

    def should_exit(self) -> bool:
        """Return whether the job should end now: it was halted, or its time is nearly over, on all ranks."""

    def current(self, name: str) -> int:
        """Go on from checkpoint `name`, which the application has read; return its number, 0 if none.

        What came after that checkpoint is not offered for a restart by this engine any more.
        """

    def drop(self, name: str) -> None:
        """Forget the dataset `name` of the prefix directory; its files stay. There need be none."""

    def delete(self, name: str) -> None:
        """Delete the dataset `name`, and directories that this leaves empty. There need be none."""

    def finalize(self) -> Sequence[Event]:
        """Finish what is under way (and flush the last checkpoint when SCR_FLUSH > 0)."""


class TunableEngine(Engine, Protocol):
    """An engine that its session tunes and reports; a real libscr has libscrtune.so for both.

    It never loses a checkpoint to a setting: what it cannot apply it leaves as it was.
    """

    def describe(self) -> SettingsObserved:
        """Return the user's own settings, where each came from, and the shape of the job."""

    def apply(self, advice: Advice | None) -> int:
        """Apply the settings of rank 0's `advice` (None: nothing new) on all ranks or on none.

        Only between outputs. Return the active generation.
        """

    def happened(self) -> Sequence[Event]:
        """Return what else happened since the last call, such as flushes that ended. Rank 0's counts."""
