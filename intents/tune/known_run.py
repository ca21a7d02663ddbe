"""What a later run of the same job finds in the config file: the user's word, or what was tuned before."""

import msgspec

from ..events import EDITED, SettingsObserved, Value, Values
from ..observe.redundancy import FLOORS

_OUR_FILE = "user config"
_SCHEME = "SCR_COPY_TYPE"


class KnownRun:
    """A run of the job: `job` is what it runs under, with the user's own settings."""

    def __init__(self, job: SettingsObserved) -> None:
        self.job = job
        self._written: dict[str, set[Value]] = {}

    def published(self, settings: dict[str, Value]) -> None:
        """`settings` went into the config file, where the next run will read them."""
        for name, value in settings.items():
            self._written.setdefault(name, set()).add(value)

    def next(self, job: SettingsObserved) -> "KnownRun":
        """The next run, whose engine says `job`: values that we wrote are put down to where they came from.

        Everything else is the user's word. (SCRTUNE_ levers are in no file.)
        """
        own = self.job
        settings, sources = dict(job.settings), dict(job.sources)
        for name, value in job.settings.items():
            if sources.get(name) != _OUR_FILE or value not in self._written.get(name, ()):
                continue
            if name not in own.settings:
                del settings[name], sources[name]
                continue
            settings[name] = own.settings[name]
            sources[name] = own.sources.get(name, "default")
        for name, source in own.sources.items():
            if source == EDITED and sources.get(name, "default") == "default":  # it did not read our file
                settings[name], sources[name] = own.settings[name], EDITED
        floor = own.floor if sources.get(_SCHEME) == EDITED else job.floor
        return self._successor(msgspec.structs.replace(job, settings=settings, sources=sources, floor=floor))

    def edited(self, changes: Values) -> "KnownRun":
        """This run, with `changes` as the user's own word; a scheme they give replaces their floor, too."""
        own = self.job
        self.published({name: own.settings[name] for name in changes if name in own.settings})  # said before
        scheme = changes.get(_SCHEME)
        return self._successor(
            msgspec.structs.replace(
                own,
                settings={**own.settings, **changes},
                sources={**own.sources, **dict.fromkeys(changes, EDITED)},
                floor=str(scheme) if own.floor and scheme in FLOORS else own.floor,
            )
        )

    def _successor(self, job: SettingsObserved) -> "KnownRun":
        made = KnownRun(job)
        made._written = self._written
        return made

    def differs_from(self, earlier: "KnownRun") -> str:
        """Why what was learnt in an `earlier` run does not hold for this one; empty when it does."""
        now, then = self.job, earlier.job
        if now.settings != then.settings:
            return "its settings are others than the last run's"
        if _pinned(now) != _pinned(then) and not now.override:
            return "its environment sets other parameters than the last run's"
        if (now.ranks, now.nodes) != (then.ranks, then.nodes):
            return f"it has {now.ranks} ranks on {now.nodes} nodes, the last run {then.ranks} on {then.nodes}"
        if (now.floor, now.override, now.tuning) != (then.floor, then.override, then.tuning):
            return "its redundancy floor, override or tuning is not the last run's"
        return ""


def _pinned(job: SettingsObserved) -> set[str]:
    return {name for name, source in job.sources.items() if source == "environment"}
