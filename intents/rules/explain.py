"""What a change is, in words, and why each lever is left as it is."""

from collections.abc import Sequence

import msgspec

from ..events import Value, Values
from .guards import not_by_us
from .levers import LEVERS, Component, Lever, domain
from .situation import Proposal, Situation

_OTHER_WAY: dict[tuple[str, Value], str] = {
    ("SCR_CACHE_BYPASS", 1): "write to the prefix directory, past the cache",
    ("SCR_FLUSH_ASYNC", 0): "flush before the computation goes on",
    ("SCRTUNE_DROP_BEHIND", 0): "leave replaced checkpoints in the page cache",
    ("SCRTUNE_FLUSH_NICE", 0): "flush with the priority of the ranks",
}
"""The purpose of a value that undoes what its lever is for."""


class LeverView(msgspec.Struct, frozen=True, kw_only=True):
    """One lever: its active value, the best other one, what that would gain, and why it is not tried.

    Gains are believed seconds of a checkpoint; 0 where nothing is believed yet.
    """

    name: str
    value: Value
    other: Value | None = None
    gain_s: float = 0.0
    p_better: float = 0.0
    why: str = ""
    source: str = ""


def describe(changes: Values, own: Values, gain_s: float, because: str) -> Proposal:
    """Return the proposal of `changes`, named after the first lever that it moves from the user's `own`."""
    moved = [lever for lever in LEVERS if lever.name in changes]
    moved.sort(key=lambda lever: changes[lever.name] == own.get(lever.name))
    if not moved:
        return Proposal(rule="other settings", intent="", changes=changes, because=because, source="")
    more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
    return Proposal(
        rule=_purpose(moved[0], changes, own) + more,
        intent=moved[0].intent,
        changes=changes,
        because=because,
        source=_sources(moved),
        expected_gain_s=gain_s,
    )


def _sources(moved: Sequence[Lever]) -> str:
    """Return the sources of levers, each once; one that another says more exactly is not said."""
    parts = dict.fromkeys(each for lever in moved for each in lever.source.split("; "))
    return "; ".join(each for each in parts if not any(more.startswith(f"{each}:") for more in parts))


def users_change(
    rule: str, changes: Values, because: str, *, intent: str = "your word", source: str = "user"
) -> Proposal:
    """Return `changes` that nothing was expected of: the user's word, or what follows from a verdict."""
    return Proposal(rule=rule, intent=intent, changes=changes, because=because, source=source)


def why_fixed(lever: Lever, now: Situation) -> str:
    """Return why `lever` has no other value in this job; empty when it has."""
    if reason := not_by_us(lever.name, now):
        return reason
    if len(domain(lever, now)) > 1:
        return ""
    if Component.EXPOSURE in lever.components:
        return f"no other value is as durable as what is asked for ({now.rails.because})"
    return "no other value makes sense here"


def why_nothing(levers: Sequence[LeverView]) -> str:
    """Return in a line why none of `levers` is moved: what stops the best of the other values."""
    others = [each for each in levers if each.other is not None and each.gain_s > 0]
    if not others:
        return "no other setting that is possible here is expected to cost less"
    best = max(others, key=lambda each: each.gain_s)
    return best.why if best.why.startswith(best.name) else f"{best.name}={best.other}: {best.why}"


def _purpose(lever: Lever, changes: Values, own: Values) -> str:
    if changes[lever.name] == own.get(lever.name):
        return f"your own {lever.name}"
    return _OTHER_WAY.get((lever.name, changes[lever.name]), lever.why)
