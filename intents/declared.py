"""What the user says of a job that no observation can tell: options of ``scrtune run``, or `scrtune.toml`.

It travels to the ranks as JSON in one variable of the environment, and back in `SettingsObserved`.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

VARIABLE = "SCRTUNE_DECLARED"

_Count = Annotated[int, Meta(ge=0, le=2**31)]


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user's word; None and empty where nothing was said.

    `losses` are nodes whose loss at once a checkpoint in the cache shall survive. `keep_least` and
    `keep_most` bound the checkpoints that stay in the prefix directory; `checkpoints_least` and
    `checkpoints_most` those that the whole job takes. `clean_start`: what an earlier job left in the cache is
    not wanted. `overhead` is the share of the job's time that checkpoints may take, `run_s` the length of
    the whole job in seconds. `metric` names what the recorder reports and shall not diverge.
    """

    losses: _Count | None = None
    keep_least: _Count | None = None
    keep_most: _Count | None = None
    checkpoints_least: _Count | None = None
    checkpoints_most: _Count | None = None
    clean_start: bool = False
    overhead: Annotated[float, Meta(ge=0, le=1)] | None = None
    run_s: Annotated[float, Meta(ge=0)] | None = None
    metric: Annotated[str, Meta(max_length=256)] = ""


def to_text(declared: Declared) -> str:
    """Return the value of :data:`VARIABLE`; empty where nothing was said."""
    return "" if declared == Declared() else msgspec.json.encode(declared).decode()


def from_text(text: str) -> Declared:
    """Return what the value of :data:`VARIABLE` says. Raises ValueError, with the key."""
    return msgspec.json.decode(text, type=Declared) if text else Declared()
