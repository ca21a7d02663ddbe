"""Rank 0's line to the daemon."""

import os
import socket
import sys
import time
from collections.abc import Iterable, Sequence

import msgspec

from ...goodput.events import JobStarted
from ...intents.effects import Advice
from ...intents.events import Event, SettingsObserved
from ...scr_config.catalogue import SECRETS
from ..paths import JobPaths
from .advice import AdviceClient
from .sender import Emitter

_EXIT_LINGER_S = 0.5
_NOT_TOLD = SECRETS | {"SCR_CONF_FILE"}
"""Secrets, and a path that `scrtune run` itself has set: no setting of the user's."""


class DaemonClient:
    """Asks and tells. Nothing here blocks beyond the 50 ms of a question, or raises."""

    def __init__(self) -> None:
        paths = JobPaths.of()
        self._emitter = Emitter(paths.events_endpoint)
        self._advice = AdviceClient(paths.control_endpoint, last_known=paths.advice)

    def introduce(self, described: SettingsObserved, processes: Sequence[tuple[str, int]]) -> None:
        """Tell the shape of the job, the user's own settings, and what they declared to `scrtune run`."""
        observed = msgspec.structs.replace(
            described,
            settings={name: value for name, value in described.settings.items() if name not in _NOT_TOLD},
            sources={name: source for name, source in described.sources.items() if name not in _NOT_TOLD},
            processes=tuple(processes),
            floor=os.environ.get("SCRTUNE_REDUNDANCY_FLOOR", ""),
            override=os.environ.get("SCRTUNE_OVERRIDE", "0") != "0",
            tuning=os.environ.get("SCRTUNE_TUNING", "1") != "0",
        )
        self.tell([JobStarted(time_s=time.time(), ranks=observed.ranks, nodes=observed.nodes), observed])

    def ask(self) -> Advice | None:
        """What the next output should run under."""
        return self._advice.ask()

    def tell(self, events: Iterable[Event]) -> None:
        """Send what happened."""
        for event in events:
            self._emitter.emit(event)

    def close(self) -> None:
        """The last call; says on stderr what could not be sent."""
        if self._emitter.dropped:
            print(f"scrtune: {self._emitter.dropped} events were dropped", file=sys.stderr)  # noqa: T201
        self._emitter.close(_EXIT_LINGER_S)
        self._advice.close()


def this_process() -> tuple[str, int]:
    """(host, pid) of this rank, as DFTracer and psutil name it."""
    return socket.gethostname().split(".")[0], os.getpid()
