"""The SCR config file that scrtune manages: the user's own config, advice, and the user's edits meanwhile.

It begins with the user's own config; advice is written into it; the user may edit it between two rewrites. An
edit is never overwritten before it was taken in. The file stays the user's text: their comments, their blank
lines and their order.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from ...intents.effects import Advice
from ...intents.events import SettingsObserved, UserEdited, Value, Values, ValueSource
from ...intents.settings import DEFAULTS
from ...scr_config.catalogue import CATALOGUE, SECRETS, ParameterError, coerce
from ...scr_config.files import file_identity, write_config
from ...scr_config.ownership import (
    Tuned,
    back_up_foreign,
    is_as_written,
    signature,
    signed,
    taken_apart,
    tuned,
)
from ...scr_config.parse import ConfigFile, assumed, parse
from ...scr_config.problems import Code, Severity
from ...scr_config.resolution import expand
from ...scr_config.rewrite import file_values, raw_values, rewrite

log = logging.getLogger("scrtune.daemon")

_REMEMBERED_VERSIONS = 64


class _Version(msgspec.Struct, frozen=True):
    """The values in the file at one time, and which of them advice gave."""

    values: dict[str, str]
    advised: frozenset[str]


class ManagedConfig:
    """Writes advice into the file, and finds what the user wrote there."""

    def __init__(self, path: Path, user_conf: Path | None, host: str = "") -> None:
        """`host` is what the file's header says of where it is written."""
        self.path = path
        self._where = f" on {host}" if host else ""
        is_theirs = user_conf is not None and os.path.realpath(user_conf) == os.path.realpath(path)
        self._user_conf = None if is_theirs else user_conf  # they named their own file as the one to keep
        self._above = self._text = ""
        self._user_values: dict[str, str | None] = {}  # where `_text` has what advice gave
        self._begin_with(_read(user_conf or path, is_expected=user_conf is not None))
        self._left = tuned(_read(path)) or tuned(self._users_own())
        self._versions: dict[str, _Version] = {}
        self._last: _Version | None = None
        self._seen = self._taken = ""
        self._unedited: tuple[int, ...] | None = None

    def write(self, advice: Advice, now: float) -> bool:
        """Write `advice` at `now`; False when the user has edited the file, and :meth:`edited` comes first.

        Raises OSError and ValueError; the file is as it was then.
        """
        there = _read(self.path)
        if self._last is not None and self._is_edited(there):
            return False
        body = self.body(advice)
        back_up_foreign(self.path, known=self._users_own())
        when = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        reason = f"at {when}{self._where}, generation {advice.generation}. {advice.reason}"
        above = taken_apart(there)[0] if signature(there) else self._above
        text = signed(reason, body, above, self._tuned(advice))
        write_config(self.path, text)
        self._remember(signature(text), body, advice)
        return True

    def recall(self, advice: Advice) -> None:
        """Go on where an earlier daemon ended, having written `advice`: what else is there is the user's."""
        there = _read(self.path)
        if is_as_written(there):
            self._remember(signature(there), there, advice)
            self._begin_with(there)
        elif signature(there):
            self._remember(signature(there), self.body(advice), advice)

    def without_earlier_advice(self, job: SettingsObserved) -> SettingsObserved:
        """Return `job`, the first of a journal, without what an earlier job was tuned to.

        That is not the user's word. The file's header names it; it counts as long as the file's text agrees.
        """
        settings, sources, advised = dict(job.settings), dict(job.sources), dict[str, Value]()
        for name, left in self._left.items():
            found = job.settings.get(name)
            is_from_file = sources.get(name) == ValueSource.USER_CONFIG
            if found is None or not is_from_file or not _means(name, left.text, found):
                continue
            own = None if left.own is None else _value(name, left.own)
            advised[name] = found
            settings[name] = DEFAULTS.get(name, found) if own is None else own
            if own is None:
                sources[name] = ValueSource.DEFAULT
        return msgspec.structs.replace(job, settings=settings, sources=sources, advised=advised)

    def edited(self) -> UserEdited | None:
        """Return what the user has changed since the last rewrite, once.

        The file may be half written at this moment: what two calls in a row find counts.
        """
        if self._last is None or (now := _identity(self.path)) == self._unedited:
            return None
        there = _read(self.path)
        if not self._is_edited(there):
            self._unedited = now
            return None
        if there != self._seen:
            self._seen = there
            return None
        self._taken = there
        # an editor may have been open for a while: what it began with is named by the digest
        before = self._versions.get(signature(there), self._last)
        edit = _difference(before.values, _values(parse(there, os.environ)), there)
        self._take_in(there, edit, before.advised)
        return edit if edit != UserEdited() else None

    def _is_edited(self, text: str) -> bool:
        known = (self._taken, self._users_own())  # `scrtune run` lays the user's own file out as this one
        return bool(text.strip()) and text not in known and not is_as_written(text)

    def _users_own(self) -> str:
        return _read(self._user_conf) if self._user_conf is not None else ""

    def body(self, advice: Advice) -> str:
        """Return the user's text with `advice` in it, without the header. Raises ValueError.

        A value that a file cannot carry came from the environment, where it stays.
        """
        advised, wanted = _advised(advice), _for_launch(advice)
        own = _values(parse(self._text, os.environ))
        alike = {name for name in advised if _means(name, own.get(name), wanted[name])}
        changes = {**self._user_values, **advised}
        text = rewrite(self._text, {name: changes[name] for name in changes if name not in alike})
        if wanted.get("SCR_COPY_TYPE") == "FILE" and not _has_checkpoint_lines(text):
            raise ValueError("SCR_COPY_TYPE=FILE: SCR_Init aborts without CKPT lines; add them to the file")
        return text

    def _begin_with(self, text: str) -> None:
        """Go on with `text`, in which what an earlier job was tuned to is not the user's."""
        self._above, self._text = taken_apart(text)
        values = raw_values(self._text)
        self._user_values = {n: each.own for n, each in tuned(text).items() if values.get(n) == each.text}

    def _tuned(self, advice: Advice) -> dict[str, Tuned]:
        """Return the parameters that :meth:`body` gives another value than the user."""
        own = {**raw_values(self._text), **self._user_values}
        wanted = _for_launch(advice)
        return {
            name: Tuned(text, own.get(name))
            for name, text in _advised(advice).items()
            if not _means(name, own.get(name), wanted[name])
        }

    def _remember(self, digest: str, text: str, advice: Advice) -> None:
        values = _values(parse(text, os.environ))
        self._last = self._versions[digest] = _Version(values, frozenset(_advised(advice)))
        if len(self._versions) > _REMEMBERED_VERSIONS:
            del self._versions[next(iter(self._versions))]

    def _take_in(self, there: str, edit: UserEdited, advised: Iterable[str]) -> None:
        """Go on with the text `there`, in which advice gave `advised` and the user made `edit`."""
        own = {**raw_values(self._text), **self._user_values}
        refused = CATALOGUE.keys() & {why.partition(":")[0] for why in edit.refused}
        others = {*advised, *refused} - edit.changes.keys() - set(edit.removed)
        self._user_values = {name: own.get(name) for name in others}
        self._text = taken_apart(there)[1]


def _for_launch(advice: Advice) -> Values:
    """Return the settings that the next launch is to find."""
    return {**advice.settings, **advice.at_launch, **(advice.kept or {})}


def _advised(advice: Advice) -> dict[str, str]:
    """Return what the file holds of `advice`: what is kept, and nothing that the user gave elsewhere.

    Raises RenderError for settings that SCR fails on, those that are only tried among them.
    """
    file_values(advice.settings)
    texts = file_values(_for_launch(advice))
    names = texts if advice.kept is None else advice.kept
    return {name: text for name, text in texts.items() if name in names}


def _difference(before: dict[str, str], after: dict[str, str], text: str) -> UserEdited:
    """Return what turns `before` into `after`, of the parameters that SCR looks for in a file."""
    changes: Values = {}
    refused: list[str] = []
    names = [name for name in _shared_names() if before.get(name) != after.get(name)]
    for name in names:
        if name in after:
            try:
                changes[name] = coerce(name, expand(after[name], os.environ))
            except ParameterError as error:
                refused.append(f"{name}: {error.text!r} is not {error.allowed}; the value before stands")
    broken = {p.parameter: p for p in parse(text, os.environ).problems if p.severity is Severity.ERROR}
    missing = [name for name in names if name not in after]
    refused += [f"{name}: {broken[name].what}; the value before stands" for name in missing if name in broken]
    removed = tuple(name for name in missing if name not in broken)
    refused += _unreadable(text, known=missing)
    return UserEdited(changes=changes, removed=removed, refused=tuple(refused))


def _unreadable(text: str, known: Iterable[str]) -> Iterator[str]:
    """Return the lines on which SCR fails, without their text (it may be a password) and those of `known`."""
    for problem in parse(text, assumed(text, os.environ)).problems:
        hangs_or_misread = problem.code in (Code.DUPLICATE, Code.CARRIAGE_RETURN)
        if problem.severity is Severity.ERROR and not hangs_or_misread and problem.parameter not in known:
            yield f"line {problem.line}: SCR cannot read it ({problem.code}); it becomes a comment"


def _shared_names() -> list[str]:
    """Return the parameters that SCR looks for in a file, and that are no secret."""
    in_file = (name for name, each in CATALOGUE.items() if ValueSource.USER_CONFIG in each.layers)
    return [name for name in in_file if name not in SECRETS]


def _values(file: ConfigFile) -> dict[str, str]:
    return {name: pair.value for name, pair in file.values.items()}


def _means(name: str, text: str | None, value: Value) -> bool:
    """Return whether `text` (4MB, $DIR/cache) means `value`; it stays as the user wrote it then."""
    return text is not None and _value(name, text) == value


def _value(name: str, text: str) -> Value | None:
    try:
        return coerce(name, expand(text, os.environ))
    except ParameterError:
        return None


def _has_checkpoint_lines(text: str) -> bool:
    return any(entry.parent.key == "CKPT" for entry in parse(text, assumed(text, {})).entries)


def _identity(path: Path) -> tuple[int, ...]:
    try:
        return file_identity(path.stat())
    except OSError:
        return ()


def _read(path: Path, *, is_expected: bool = False) -> str:
    """Return the text at `path`, empty if it cannot be read. Carriage returns stay."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        if is_expected:
            log.error("%s: cannot be read (%s); its values are not carried over", path, error.strerror)
        return ""
