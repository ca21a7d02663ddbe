"""Performs what the pipeline decided. A failure is told, counted and tried again; the application goes on."""

import logging
from collections.abc import Iterable

import msgspec

from ..intents.effects import Advice, Effect, RewriteConfig, Tell
from ..scr_config.parse import Entry
from ..scr_config.render import config_text
from ..scr_config.settings import resolve
from ..scr_config.write import write_config
from .options import DaemonOptions

log = logging.getLogger("scrtune.daemon")


class Executor:
    """Writes SCR's config file and keeps the last advice, for questions and for clients without a daemon."""

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self._descriptors = _descriptors_of(options)
        self.advice = Advice()
        self.rewrites = 0
        self.failures = 0
        self.last_failure = ""

    def perform(self, effects: Iterable[Effect]) -> None:
        """Do all of it, in order."""
        for effect in effects:
            match effect:
                case RewriteConfig():
                    self.publish(effect.advice)
                case Tell():
                    log.log(logging.getLevelName(effect.level.upper()), effect.text)

    def publish(self, advice: Advice) -> None:
        """Write the config file first: who asks for advice afterwards finds both the same."""
        try:
            comment = f"Written by scrtune, generation {advice.generation}. {advice.reason}"
            text = config_text(advice.settings, comment, descriptors=self._descriptors)
            write_config(self._options.scr_conf, text)
            write_config(self._options.paths.advice, msgspec.json.encode(advice).decode())
        except (OSError, ValueError) as error:
            self.failures += 1
            if str(error) != self.last_failure:
                log.error("%s; the application goes on with the settings it has", error)
            self.last_failure = str(error)
            return
        self.advice = advice
        self.rewrites += 1
        self.last_failure = ""


def _descriptors_of(options: DaemonOptions) -> tuple[Entry, ...]:
    if options.user_conf is None:
        return ()
    try:
        text = options.user_conf.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        log.error("%s: cannot be read (%s)", options.user_conf, error.strerror)
        return ()
    return resolve({}, text).descriptors
