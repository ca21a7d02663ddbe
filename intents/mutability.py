"""The mutability of parameters while a run of the job lasts: a real SCR takes some at its launch only."""

import msgspec

from .events import TextEnum, Values

LEVER = "SCRTUNE_"
"""Prefix of what is in no config file, so that no launch finds it there."""


class Mutability(TextEnum):
    """The mutability of one parameter of SCR."""

    LIVE = "live"
    RANK0 = "live on rank 0"
    REINIT = "re-init"
    """SCR is finalized and initialised again, between two outputs."""
    LAUNCH = "launch"
    INERT = "none"
    """SCR reads it and does nothing with it, or does not read it."""


_WORDS = {**{each.value: each for each in Mutability}, "inert": Mutability.INERT}
"""The words of libscrtune.so and the journal."""

_CHANGEABLE = frozenset({Mutability.LIVE, Mutability.RANK0, Mutability.REINIT})


class RunMutability(msgspec.Struct, frozen=True, kw_only=True):
    """The mutability of all parameters in one run.

    `parameters` as in :class:`scrtune.intents.events.SettingsObserved`: empty means that everything can
    change; in one that is not empty, what is missing or has another word can not. `found` are the settings
    that the run began with. `held` are values that stay until the next launch for another reason.
    """

    parameters: dict[str, str] = {}
    found: Values = {}
    held: Values = {}

    def of(self, name: str) -> Mutability:
        """Return the mutability of `name`."""
        if not self.parameters:
            return Mutability.LIVE
        return _WORDS.get(self.parameters.get(name, ""), Mutability.LAUNCH)

    def is_fixed(self, name: str) -> bool:
        """Return whether `name` keeps its value until the next launch."""
        return name in self.held or self.of(name) not in _CHANGEABLE

    def needs_reinit(self, name: str) -> bool:
        """Return whether a change of `name` takes a re-init of SCR."""
        return name not in self.held and self.of(name) is Mutability.REINIT

    def prefers_launch(self, changes: Values) -> bool:
        """Return whether a launch is the only way to make `changes`, or the one that costs nothing."""
        return any(self.is_fixed(name) or self.needs_reinit(name) for name in changes)

    def started_with(self, changes: Values) -> bool:
        """Return whether the run began with all of `changes`; levers follow when it is under way."""
        return all(
            self.found.get(name) == value or (name.startswith(LEVER) and not self.is_fixed(name))
            for name, value in changes.items()
        )

    def feasible(self, wanted: Values) -> Values:
        """Return `wanted` as far as this run can have it: a fixed parameter has the value that it has."""
        present = {**self.found, **self.held}
        kept = {name: value for name, value in wanted.items() if not self.is_fixed(name)}
        return {**kept, **{name: present[name] for name in wanted.keys() - kept.keys() if name in present}}

    def holding(self, values: Values) -> "RunMutability":
        """Return a copy in which `values` stay until the next launch."""
        return msgspec.structs.replace(self, held={**self.held, **values})
