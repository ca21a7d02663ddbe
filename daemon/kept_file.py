"""The SCR config file that scrtune keeps: what it says of its own accord, and what its user says meanwhile.

Three hands meet in it: the user's own config, which it begins with; advice, which is written into it; and
edits that the user makes between two rewrites. An edit is never overwritten before it was taken in.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path

from ..intents.effects import Advice
from ..intents.events import UserEdited, Values
from ..scr_config.authorship import back_up_foreign, is_as_written, signature, signed
from ..scr_config.parameters import CATALOGUE, SECRETS, ParameterError, coerce
from ..scr_config.parse import ConfigFile, Entry, parse
from ..scr_config.render import config_text
from ..scr_config.resolution import expand
from ..scr_config.validate import FILE_GRAMMAR, validate
from ..scr_config.write import write_config

log = logging.getLogger("scrtune.daemon")

_REMEMBERED_VERSIONS = 64
_INVITATION = "Edit what you like: what you write here wins, and `scrtune explain` says so."


class KeptFile:
    """Writes advice into the file, and tells what the user wrote there."""

    def __init__(self, path: Path, user_conf: Path | None) -> None:
        self.path = path
        is_theirs = user_conf is not None and os.path.realpath(user_conf) == os.path.realpath(path)
        self._user_conf = None if is_theirs else user_conf  # they named their own file as the one to keep
        self._carried = _entries(_read_or_tell(user_conf)) if user_conf is not None else ()
        self._versions: dict[str, dict[str, str]] = {}
        self._last: dict[str, str] | None = None
        self._advised: set[str] = set()
        self._seen = self._taken = ""

    def write(self, advice: Advice, now: float) -> bool:
        """Write `advice` at `now`; False when the user has edited the file, and :meth:`edited` comes first.

        Raises OSError and ValueError; the file is as it was then.
        """
        if self._last is not None and self._is_edited(_read(self.path)):
            return False
        body = self.body(advice)
        back_up_foreign(self.path, known=self._users_own())
        when = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = f"Written by scrtune at {when}, generation {advice.generation}. {advice.reason}"
        text = signed(f"{said}\n{_INVITATION}", body)
        write_config(self.path, text)
        self._remember(signature(text), body, advice)
        return True

    def recall(self, advice: Advice) -> None:
        """Go on where a daemon before us ended, having written `advice`: what else is there is the user's."""
        there = _read(self.path)
        if is_as_written(there):
            self._remember(signature(there), there, advice)
            self._carry(there, self._advised)
        elif signature(there):
            self._remember(signature(there), self.body(advice), advice)

    def edited(self) -> UserEdited | None:
        """What the user has changed since the last rewrite, once.

        It may be half written when we look at it: what two looks find alike counts.
        """
        there = _read(self.path)
        if self._last is None or not self._is_edited(there):
            return None
        if there != self._seen:
            self._seen = there
            return None
        self._taken = there
        # an editor may have been open for a while: what it began with is named by the digest
        before = self._versions.get(signature(there), self._last)
        edit = _difference(before, _values(parse(there, os.environ)), there)
        told = {why.partition(":")[0] for why in edit.refused}
        self._carry(there, self._advised | edit.changes.keys() | told)
        return edit if edit != UserEdited() else None

    def _is_edited(self, text: str) -> bool:
        known = (self._taken, self._users_own())  # `scrtune run` lays the user's own file out as this one
        return bool(text.strip()) and text not in known and not is_as_written(text)

    def _users_own(self) -> str:
        return _read(self._user_conf) if self._user_conf is not None else ""

    def body(self, advice: Advice) -> str:
        """What the user's own file says, and `advice` in its place; without the header.

        A value that a file cannot carry came from the environment, where it stays in force.
        """
        unfit = {problem.parameter for problem in validate(advice.settings) if problem.code == FILE_GRAMMAR}
        settings = {name: value for name, value in advice.settings.items() if name not in unfit}
        return config_text(settings, "", (each for each in self._carried if each.parent.key not in settings))

    def _remember(self, digest: str, text: str, advice: Advice) -> None:
        self._advised = set(advice.settings)
        self._last = _values(parse(text, os.environ))
        self._versions[digest] = self._last
        if len(self._versions) > _REMEMBERED_VERSIONS:
            del self._versions[next(iter(self._versions))]

    def _carry(self, text: str, others: set[str]) -> None:
        """Carry over what `text` says, but for the names in `others`: advice gives those, or nobody."""
        self._carried = tuple(entry for entry in _entries(text) if entry.parent.key not in others)


class _AsWritten(Mapping[str, str]):
    """An environment in which every variable stands for itself: which are set, only the ranks know."""

    def __getitem__(self, name: str) -> str:
        return f"${name}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _difference(before: dict[str, str], after: dict[str, str], text: str) -> UserEdited:
    """What makes `after` of `before`, as far as it concerns parameters that SCR looks for in a file."""
    changes: Values = {}
    refused: list[str] = []
    names = [name for name in _shared_names() if before.get(name) != after.get(name)]
    for name in names:
        if name in after:
            try:
                changes[name] = coerce(name, expand(after[name], os.environ))
            except ParameterError as error:
                refused.append(f"{name}: {error.text!r} is not {error.allowed}; the value before stands")
    broken = {p.parameter: p for p in parse(text, os.environ).problems if p.severity == "error"}
    missing = [name for name in names if name not in after]
    refused += [f"{name}: {broken[name].what}; the value before stands" for name in missing if name in broken]
    removed = tuple(name for name in missing if name not in broken)
    return UserEdited(changes=changes, removed=removed, refused=tuple(refused))


def _shared_names() -> list[str]:
    """The parameters that SCR looks for in a file, and whose values are anybody's business."""
    return [name for name, each in CATALOGUE.items() if "user config" in each.layers and name not in SECRETS]


def _values(file: ConfigFile) -> dict[str, str]:
    return {name: pair.value for name, pair in file.values.items()}


def _entries(text: str) -> tuple[Entry, ...]:
    """What a file says, each parameter once: SCR hangs on duplicates, and reads no second pair."""
    file = parse(text, _AsWritten())
    return (*file.descriptors, *(Entry(parent=pair) for pair in file.values.values()))


def _read(path: Path) -> str:
    """The text at `path`, empty when there is none that can be read. Carriage returns stay."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _read_or_tell(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        log.error("%s: cannot be read (%s); its values are not carried over", path, error.strerror)
        return ""
