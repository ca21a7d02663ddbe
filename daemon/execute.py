"""Performs what the pipeline decided. A failure is told, counted and tried again; the application goes on."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ..intents.effects import Advice, Effect, RewriteConfig, Tell
from ..scr_config.parse import Entry, parse
from ..scr_config.render import config_text
from ..scr_config.validate import FILE_GRAMMAR, validate
from ..scr_config.write import write_config
from .options import DaemonOptions

log = logging.getLogger("scrtune.daemon")


class Executor:
    """Writes SCR's config file and keeps the last advice, for questions and for clients without a daemon."""

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self._own = _entries_of(options.user_conf)
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

    def recall(self) -> None:
        """Go on with the advice that a daemon before us gave last: it is what SCR's config file says."""
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            self.advice = msgspec.json.decode(self._options.paths.advice.read_bytes(), type=Advice)

    def publish(self, advice: Advice) -> None:
        """Write the config file first: who asks for advice afterwards finds both the same."""
        try:
            write_config(self._options.scr_conf, self.config(advice))
        except (OSError, ValueError) as error:
            self._failed(f"{error}; the application goes on with the settings it has")
            return
        self.advice = advice
        self.rewrites += 1
        try:
            write_config(self._options.paths.advice, msgspec.json.encode(advice).decode())
        except OSError as error:
            reason = error.__cause__ or error
            self._failed(f"{self._options.paths.advice}: cannot be written ({reason}); free some space")
            return
        self.last_failure = ""

    def config(self, advice: Advice) -> str:
        """The text of SCR's config file: what the user's own file says, and `advice` in its place.

        A value that a file cannot carry came from the environment, where it stays in force.
        """
        unfit = {problem.parameter for problem in validate(advice.settings) if problem.code == FILE_GRAMMAR}
        settings = {name: value for name, value in advice.settings.items() if name not in unfit}
        comment = f"Written by scrtune, generation {advice.generation}. {advice.reason}"
        return config_text(settings, comment, (each for each in self._own if each.parent.key not in settings))

    def _failed(self, text: str) -> None:
        self.failures += 1
        if text != self.last_failure:
            log.error("%s", text)
        self.last_failure = text


class _AsWritten(Mapping[str, str]):
    """An environment in which every variable stands for itself: which are set, only the ranks know."""

    def __getitem__(self, name: str) -> str:
        return f"${name}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _entries_of(user_conf: Path | None) -> tuple[Entry, ...]:
    """What the user's file says, each parameter once: SCR hangs on duplicates, and reads no second pair."""
    if user_conf is None:
        return ()
    try:
        text = user_conf.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        log.error("%s: cannot be read (%s); its values are not carried over", user_conf, error.strerror)
        return ()
    file = parse(text, _AsWritten())
    return (*file.descriptors, *(Entry(parent=pair) for pair in file.values.values()))
