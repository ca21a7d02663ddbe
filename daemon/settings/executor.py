"""Perform what the pipeline decided. A failure is logged and tried again."""

import logging
from collections.abc import Iterable

from ...intents.effects import Advice, Effect, Observe, RewriteConfig, Tell
from ...scr_config.decision import DecisionError, decision_text, parse_decision
from ...scr_config.files import write_config
from ..options import DaemonOptions
from .managed_config import ManagedConfig

log = logging.getLogger("scrtune.daemon")


class Executor:
    """Writes SCR's config file, for the next SCR_Init, and the decision, for the application that runs."""

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self.file = ManagedConfig(options.scr_conf, options.user_conf, options.paths.host)
        self.advice = Advice()
        """As it was published last."""
        self.rewrites = 0
        self.last_failure = ""
        self.unfinished = False
        """Whether advice waits to be published: a file could not be written, or the user has edited it."""

    def perform(self, effects: Iterable[Effect], now: float) -> None:
        """Do all of it at `now` (epoch seconds), in order."""
        for effect in effects:
            match effect:
                case RewriteConfig():
                    self.publish(effect.advice, now)
                case Observe():
                    self._observe(on=effect.on)
                case Tell():
                    log.log(logging.getLevelName(effect.level.upper()), effect.text)

    def _observe(self, *, on: bool) -> None:
        """Let all ranks of this node trace their next outputs, or none: they look for files at each."""
        off = self._options.paths.observe_off
        try:
            if on:
                self._options.paths.observe_first.unlink(missing_ok=True)
                off.unlink(missing_ok=True)
            else:
                off.touch()
        except OSError as error:
            log.warning("%s: %s; tracing stays as it is", off, error.strerror)

    def recall(self, recovered: Advice) -> None:
        """Go on with the advice that a daemon before us published last: it is what SCR's config file says.

        That is `recovered`, what the journal ends with, unless the decision is an earlier one.
        """
        paths = self._options.paths
        # `scrtune run` puts it aside until it is published again
        published = paths.decision if paths.decision.exists() else paths.earlier_decision
        try:
            decision = parse_decision(published.read_bytes())
            earlier = Advice(generation=decision.generation, settings=decision.settings())
        except (OSError, DecisionError):
            return
        self.advice = recovered if recovered.generation == decision.generation else earlier
        self.file.recall(self.advice)

    def take_over(self, advice: Advice) -> None:
        """Go on with the advice of another node's daemon, whose journal this one has now."""
        self.advice = advice
        self.file.recall(advice)

    def publish(self, advice: Advice, now: float) -> None:
        """Write the config file, then the decision: who sees the new decision finds the file the same.

        An edit of the user's stays until the pipeline has heard of it (:meth:`ManagedConfig.edited`).
        """
        self.unfinished = True
        try:
            if not self.file.write(advice, now):
                return
        except (OSError, ValueError) as error:
            self._failed(f"SCR's config file: {error}; the application goes on with the settings it has")
            return
        self.advice = advice
        self.rewrites += 1
        try:
            write_config(self._options.paths.decision, decision_text(advice))
        except (OSError, DecisionError) as error:
            self._failed(str(error))
            return
        self.last_failure = ""
        self.unfinished = False

    def _failed(self, text: str) -> None:
        if text != self.last_failure:
            log.error("%s", text)
        self.last_failure = text
