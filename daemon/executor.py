"""Performs what the pipeline decided. A failure is told, counted and tried again; the application goes on."""

import contextlib
import logging
import re
from collections.abc import Iterable

import msgspec

from ..client.libscr.decision import DecisionError, decision_text
from ..intents.effects import Advice, Effect, RewriteConfig, Tell
from ..intents.events import SettingsObserved, UserEdited
from ..scr_config.files import write_config
from .managed_config import ManagedConfig
from .options import DaemonOptions

log = logging.getLogger("scrtune.daemon")

_LINE_END = re.compile(r"[\n\0]")


class Executor:
    """Writes SCR's config file and the decision, and keeps the last advice.

    The config file is for the next SCR_Init, the decision for applications that have no ZeroMQ, the advice
    for questions and for clients that find no daemon.
    """

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self._file = ManagedConfig(options.scr_conf, options.user_conf)
        self.advice = Advice()
        self.rewrites = 0
        self.failures = 0
        self.last_failure = ""
        self.unfinished = False
        """Whether advice waits to be published: a file could not be written, or the user has edited it."""

    def perform(self, effects: Iterable[Effect], now: float) -> None:
        """Do all of it at `now` (epoch seconds), in order."""
        for effect in effects:
            match effect:
                case RewriteConfig():
                    self.publish(effect.advice, now)
                case Tell():
                    log.log(logging.getLevelName(effect.level.upper()), effect.text)

    def recall(self) -> None:
        """Go on with the advice that a daemon before us gave last: it is what SCR's config file says."""
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            self.advice = msgspec.json.decode(self._options.paths.advice.read_bytes(), type=Advice)
            self._file.recall(self.advice)

    def without_earlier_advice(self, job: SettingsObserved) -> SettingsObserved:
        """The job's first settings, without what scrtune itself had left in the config file."""
        return self._file.without_earlier_advice(job)

    def edited(self) -> UserEdited | None:
        """What the user has written into the config file since the last rewrite, once."""
        return self._file.edited()

    def publish(self, advice: Advice, now: float) -> None:
        """Write the config file first: who asks for advice afterwards finds all of it the same.

        An edit of the user's stays until the pipeline has heard of it (:meth:`edited`).
        """
        self.unfinished = True
        try:
            if not self._file.write(advice, now):
                return
        except (OSError, ValueError) as error:
            self._failed(f"SCR's config file: {error}; the application goes on with the settings it has")
            return
        self.advice = advice
        self.rewrites += 1
        failures = [*filter(None, (self._decide(advice), self._keep(advice)))]
        if failures:
            self._failed("; ".join(failures))
            return
        self.last_failure = ""
        self.unfinished = False

    def _decide(self, advice: Advice) -> str:
        """Write the decision; returns why it could not be written, or nothing.

        A value of several lines came from the environment, where it stays in force.
        """
        carried = {name: value for name, value in advice.settings.items() if not _LINE_END.search(str(value))}
        try:
            write_config(
                self._options.paths.decision,
                decision_text(msgspec.structs.replace(advice, settings=carried)),
            )
        except (OSError, DecisionError) as error:
            return str(error)
        return ""

    def _keep(self, advice: Advice) -> str:
        """Write the advice; returns why it could not be written, or nothing."""
        try:
            write_config(self._options.paths.advice, msgspec.json.encode(advice).decode())
        except OSError as error:
            return str(error)
        return ""

    def _failed(self, text: str) -> None:
        self.failures += 1
        if text != self.last_failure:
            log.error("%s", text)
        self.last_failure = text
