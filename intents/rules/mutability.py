"""What of a change this run of the job can have: a real SCR takes some parameters at its launch only."""

import msgspec

from ..events import Values

LIVE = frozenset({"live", "live on rank 0"})
REINIT = "re-init"
LAUNCH = "launch"
INERT = "inert"
LEVER = "SCRTUNE_"
"""What begins so is in no config file, so that no launch finds it there."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How parameters can change while the run lasts.

    `mutability` as in :class:`scrtune.intents.events.SettingsObserved`: empty means that everything can, and
    what a mutability that is not empty does not name can not. `found` are the settings that the run began
    with. `held` are values that stay until the next launch for another reason.
    """

    mutability: dict[str, str] = {}
    found: Values = {}
    held: Values = {}

    def is_inert(self, name: str) -> bool:
        """Whether this SCR does not read `name` at all."""
        return self.mutability.get(name) == INERT

    def is_fixed(self, name: str) -> bool:
        """Whether `name` stays as it is until the next launch."""
        if name in self.held:
            return True
        return bool(self.mutability) and self.mutability.get(name, LAUNCH) not in LIVE | {REINIT}

    def needs_reinit(self, name: str) -> bool:
        """Whether SCR is finalized and initialised again when `name` changes."""
        return not self.is_fixed(name) and self.mutability.get(name) == REINIT

    def waits(self, changes: Values) -> bool:
        """Whether a launch is the only way to make `changes`, or the one that costs nothing."""
        return any(self.is_fixed(name) or self.needs_reinit(name) for name in changes)

    def began_with(self, changes: Values) -> bool:
        """Whether the run began with all of `changes`; levers follow when it is under way."""
        return all(
            self.found.get(name) == value or (name.startswith(LEVER) and not self.is_fixed(name))
            for name, value in changes.items()
        )

    def possible(self, wanted: Values) -> Values:
        """`wanted`, as far as this run can have it: what is fixed has the value that it has."""
        there = {**self.found, **self.held}
        kept = {name: value for name, value in wanted.items() if not self.is_fixed(name)}
        return {**kept, **{name: there[name] for name in wanted.keys() - kept.keys() if name in there}}

    def holding(self, values: Values) -> "Reach":
        """Itself, with `values` as they are until the next launch."""
        return msgspec.structs.replace(self, held={**self.held, **values})
