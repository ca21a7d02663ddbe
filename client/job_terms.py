"""What the user asked of a job, on its way to the ranks: `scrtune run` sets variables, read again here."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from ..intents.declared import VARIABLE, Declared, from_text, to_text
from ..intents.events import SettingsObserved
from ..intents.observe.observation import DEFAULT_BUDGET
from ..scr_config.catalogue import SECRETS
from .engine import say

Mode = Literal["auto", "recommend", "observe"]

_UNREPORTED = SECRETS | {"SCR_CONF_FILE"}
"""Secrets, and a path that `scrtune run` itself has set: no setting of the user's."""


class JobTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `scrtune run` that count where the application runs, as in :class:`SettingsObserved`."""

    mode: Mode = "auto"
    floor: str = ""
    durability: str = ""
    interval: str = ""
    override: bool = False
    observe_budget: float = DEFAULT_BUDGET
    declared: Declared = Declared()

    def variables(self) -> dict[str, str]:
        """Return the variables that say so; what is as without them is left out."""
        texts = {
            "SCRTUNE_MODE": "" if self.mode == "auto" else self.mode,
            "SCRTUNE_REDUNDANCY_FLOOR": self.floor,
            "SCRTUNE_DURABILITY": self.durability,
            "SCRTUNE_INTERVAL": self.interval,
            "SCRTUNE_OVERRIDE": "1" if self.override else "",
            "SCRTUNE_OBSERVE_BUDGET": str(self.observe_budget),
            VARIABLE: to_text(self.declared),
        }
        return {name: text for name, text in texts.items() if text}


def declared(observed: SettingsObserved, environment: Mapping[str, str]) -> SettingsObserved:
    """Return `observed` without what is nobody's business, and with what `environment` says of the job."""
    mode = environment.get("SCRTUNE_MODE", "")
    return msgspec.structs.replace(
        observed,
        settings={name: value for name, value in observed.settings.items() if name not in _UNREPORTED},
        sources={name: source for name, source in observed.sources.items() if name not in _UNREPORTED},
        floor=environment.get("SCRTUNE_REDUNDANCY_FLOOR", ""),
        durability=environment.get("SCRTUNE_DURABILITY", ""),
        interval=environment.get("SCRTUNE_INTERVAL", ""),
        override=environment.get("SCRTUNE_OVERRIDE", "0") != "0",
        tuning=mode in ("", "auto"),
        recommend=mode != "observe",
        declared=_declared(environment.get(VARIABLE, "")),
        observe_budget=_budget(environment.get("SCRTUNE_OBSERVE_BUDGET", "")),
    )


def _declared(text: str) -> Declared:
    try:
        return from_text(text)
    except ValueError as error:
        say(f"{VARIABLE} is not what scrtune run writes ({error}); it counts as not declared")
        return Declared()


def _budget(text: str) -> float:
    """Return the declared share of the job's time, 0 to 1; the default for what is none."""
    try:
        share = float(text)
    except ValueError:
        return DEFAULT_BUDGET
    return share if 0 <= share <= 1 else DEFAULT_BUDGET
