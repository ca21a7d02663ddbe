"""A run of the job as its user wants it: their own values, apart from those tuned in earlier runs."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ...units import count_text
from ..declared import Declared
from ..effects import Advice
from ..events import SettingsObserved, UserEdited, Value, Values, ValueSource
from ..observe.faults.redundancy import FLOORS
from ..observe.io.shared_files import starts_past_the_cache
from ..rules.durability import Rails, rails
from ..rules.guards import overruled
from ..settings import DEFAULTS
from .decisions import NOT_MADE

if TYPE_CHECKING:  # numpy, which is loaded with the first job
    from .tuner import Tuner

_SCHEME = "SCR_COPY_TYPE"
_NOT_CHOSEN = (ValueSource.DEFAULT, ValueSource.UNSAFE_CACHE)
_PUBLISHED = 4096
_FROM_AN_EARLIER_JOB = (
    "SCR's config file still had the settings tuned for an earlier job; your own are measured first"
)


class _Own(NamedTuple):
    """What the user had before they pinned a parameter; no value: the default."""

    value: Value | None
    source: str
    floor: str
    losses: int | None


class JobRun:
    """A run of the job: `job` is its description, with the user's own settings.

    `new_because` says why the results of earlier runs do not hold for it; empty when they do.
    """

    def __init__(self, job: SettingsObserved) -> None:
        self.job = job
        self.new_because = _FROM_AN_EARLIER_JOB if job.advised else ""
        self._published: dict[tuple[str, Value], None] = {}
        self._before_pin: dict[str, _Own] = {}

    @property
    def pinned(self) -> set[str]:
        """The names that ``scrtune pin`` fixes."""
        return {*self._before_pin}

    def _successor(self, job: SettingsObserved) -> "JobRun":
        made = JobRun(job)
        made._published = self._published
        made._before_pin = {
            name: own for name, own in self._before_pin.items() if job.sources.get(name) == ValueSource.EDITED
        }
        made.new_because = _difference(job, self.job)
        return made

    @property
    def own(self) -> Values:
        """The user's own settings, complete."""
        return {**DEFAULTS, **self.job.settings}

    def next(self, job: SettingsObserved) -> "JobRun":
        """Return the next run, which `job` describes: published values go back to where they came from.

        Everything else is the user's. (SCRTUNE_ levers are in no file.)
        """
        own = self.job
        settings, sources = dict(job.settings), dict(job.sources)
        for name, value in job.settings.items():
            if sources.get(name) != ValueSource.USER_CONFIG or (name, value) not in self._published:
                continue
            if name not in own.settings:
                del settings[name], sources[name]
                continue
            settings[name] = own.settings[name]
            sources[name] = own.sources.get(name, ValueSource.DEFAULT)
        for name, source in own.sources.items():
            is_default = sources.get(name, ValueSource.DEFAULT) == ValueSource.DEFAULT
            if source == ValueSource.EDITED and is_default:  # it did not read our file
                settings[name], sources[name] = own.settings[name], ValueSource.EDITED
        if sources.get(_SCHEME) == ValueSource.EDITED:
            job = _with_floor(job, own.floor, own.declared.losses)
        return self._successor(replace(job, settings=settings, sources=sources))

    def permitted(self, edit: UserEdited) -> tuple[Values, list[str]]:
        """Return the changes of `edit` that become active, and why its other lines do not."""
        wanted = {**edit.changes, **{name: DEFAULTS[name] for name in edit.removed if name in DEFAULTS}}
        refused = {name: why for name in sorted(wanted) if (why := overruled(name, self.job))}
        changes = {name: value for name, value in wanted.items() if name not in refused}
        return changes, [*edit.refused, *(f"{name}: {why}" for name, why in refused.items())]

    def released(self, names: Iterable[str]) -> tuple["JobRun", Values]:
        """Return this run with `names` unpinned, and the values that come back by that."""
        own = self.job
        before = {name: self._before_pin.pop(name) for name in names if name in self._before_pin}
        self.remember({name: own.settings[name] for name in before})
        values = {
            name: DEFAULTS.get(name, own.settings[name]) if each.value is None else each.value
            for name, each in before.items()
        }
        job = replace(
            own,
            settings={**own.settings, **values},
            sources={**own.sources, **{name: each.source for name, each in before.items()}},
        )
        if _SCHEME in before:
            job = _with_floor(job, before[_SCHEME].floor, before[_SCHEME].losses)
        return self._successor(job), values

    def edited(self, changes: Values, *, is_pin: bool = False) -> "JobRun":
        """Return this run with the user's own `changes`; a scheme among them replaces their floor, too."""
        own, scheme = self.job, changes.get(_SCHEME)
        self.remember({name: own.settings[name] for name in changes if name in own.settings})  # their last
        job = replace(
            own,
            settings={**own.settings, **changes},
            sources={**own.sources, **dict.fromkeys(changes, ValueSource.EDITED)},
        )
        if scheme in FLOORS:
            job = _with_floor(job, own.floor and str(scheme), None)
        for name in changes:
            before = self._before_pin.pop(name, None)
            if is_pin:
                source = own.sources.get(name, ValueSource.DEFAULT)
                self._before_pin[name] = before or _Own(
                    own.settings.get(name), source, own.floor, own.declared.losses
                )
        return self._successor(job)

    def advice(self, tuner: "Tuner") -> Advice:
        """Return what every rank applies at the next SCR_Start_output: the user's values and tuned ones."""
        job, own, found = self.job, self.own, tuner.mutability.found
        explicit = {name for name, source in job.sources.items() if source not in _NOT_CHOSEN}
        other = {name for name, value in tuner.settings.items() if found.get(name) != value}
        names = explicit | tuner.touched | other
        last = next((each for each in reversed(tuner.decisions) if each.verdict not in NOT_MADE), None)
        return Advice(
            generation=tuner.generation,
            settings={name: value for name, value in tuner.settings.items() if name in names},
            at_launch=tuner.at_launch,
            kept={
                name: value
                for name, value in tuner.kept.items()
                if (own.get(name) != value or job.sources.get(name) == ValueSource.EDITED)
                and not starts_past_the_cache({name: value}, job)
            },
            reason=last.short if last else Advice().reason,
        )

    def publish(self, tuner: "Tuner") -> Advice:
        """Return :meth:`advice` for the config file, and remember it: the next run will read it there."""
        advice = self.advice(tuner)
        for values in (advice.settings, advice.at_launch, advice.kept or {}):
            self.remember(values)
        return advice

    def remember(self, values: Values) -> None:
        """Remember `values`, which are written into the config file: the last 4,096 of all."""
        for item in values.items():
            self._published.pop(item, None)
            self._published[item] = None
        for oldest in list(islice(self._published, max(0, len(self._published) - _PUBLISHED))):
            del self._published[oldest]


def _with_floor(job: SettingsObserved, floor: str, losses: int | None) -> SettingsObserved:
    return replace(job, floor=floor, declared=replace(job.declared, losses=losses))


def _difference(now: SettingsObserved, then: SettingsObserved) -> str:
    """Return why what was measured in the run `then` does not hold for `now`; empty when it does."""
    if now.settings != then.settings:
        return "its settings differ from those of the last run"
    if (now.ranks, now.nodes) != (then.ranks, then.nodes):
        return f"it has {_shape(now)}, the last run had {_shape(then)}"
    if _declared(now) != _declared(then):
        return "its floor, another declaration, override, interval or tuning differs from the last run"
    if _overruled(now) != _overruled(then):
        return "its environment sets other parameters than that of the last run"
    return ""


def _declared(job: SettingsObserved) -> tuple[str | bool | Declared | Rails, ...]:
    asked = rails(job, {**DEFAULTS, **job.settings})
    return asked, job.floor, job.override, job.interval, job.tuning, job.declared


def _shape(job: SettingsObserved) -> str:
    return f"{count_text(job.ranks, 'rank')} on {count_text(job.nodes, 'node')}"


def _overruled(job: SettingsObserved) -> set[str]:
    """Return the names that the config file cannot set."""
    return {name for name in job.sources if overruled(name, job)}
