"""A parameter as an intent derives it: the value, the rule, what went into it, and what limited it."""

import msgspec

from ..events import TextEnum, Value
from ..mutability import Mutability


class Phase(TextEnum):
    """When a parameter can act, in the study's words."""

    INIT = "init"
    START_OUTPUT = "start output"
    BETWEEN_OUTPUTS = "between outputs"
    FINALIZE = "finalize"


class Scope(TextEnum):
    """What shares one value of a parameter."""

    PROCESS = "process"
    NODE = "node"
    JOB = "job"
    OUTPUT_KIND = "kind of output"


class DerivedParameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter, derived from one intent.

    `value` None, without `lines`: nothing is recommended, and `why_not` says why. `inputs` are what the rule
    went by, each with its unit; `clipped` is the bound that changed its result, `veto` why the value may not
    be used, `overruled` what stands instead (:mod:`.parameters` has the order). `gain_s` is expected, in
    seconds of the whole job, give or take `gain_sd_s`. `lines` are those of SCR's config file where one value
    is not all that is needed: descriptors, as STORE or GROUPS. `command` is for the user to run, where no
    setting of SCR's does it. `is_users_word`: it follows from what the user declared and is made without
    being tried; else it is advice. What `is_safer` protects more than their own, and is not to save time.
    """

    intent: str
    name: str
    value: Value | None = None
    phase: Phase = Phase.INIT
    scope: Scope = Scope.JOB
    change: Mutability = Mutability.LAUNCH
    rule: str
    inputs: tuple[str, ...] = ()
    clipped: str = ""
    veto: str = ""
    overruled: str = ""
    why_not: str = ""
    source: str
    gain_s: float = 0.0
    gain_sd_s: float = 0.0
    lines: tuple[str, ...] = ()
    command: str = ""
    is_users_word: bool = False
    is_safer: bool = False

    @property
    def is_wanted(self) -> bool:
        """True when there is a value, or lines, whatever stands against it."""
        return self.value is not None or bool(self.lines)

    @property
    def stands(self) -> bool:
        """True when nothing stands against it."""
        return self.is_wanted and not (self.veto or self.overruled)
