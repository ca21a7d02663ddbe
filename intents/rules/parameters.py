"""The parameters that follow from the intents without a trial: what each rule derives, guard rails applied.

A new rule is a function of its intent's module beside this one, and its name in `RULES`.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ..mutability import Mutability
from .access_sizes import access_sizes
from .guards import NEVER, not_by_us, veto
from .parameter import DerivedParameter
from .process_cores import process_cores
from .situation import Proposal, Situation
from .storage import next_output, storage_targets

RULES: tuple[Callable[[Situation], Iterator[DerivedParameter]], ...] = (
    process_cores,
    access_sizes,
    storage_targets,
    next_output,
)


def derived(now: Situation) -> tuple[DerivedParameter, ...]:
    """Return every parameter that the rules derive in this job, with the veto of those that have one."""
    return tuple(_guarded(each, now) for rule in RULES for each in rule(now))


def declared(now: Situation) -> tuple[Proposal, ...]:
    """Return the changes that follow from the user's word and that nothing forbids."""
    return tuple(
        _proposal(each)
        for each in derived(now)
        if each.is_users_word and each.value is not None and not each.veto
        if now.settings.get(each.name) != each.value
    )


def _guarded(each: DerivedParameter, now: Situation) -> DerivedParameter:
    change = now.mutability.of(each.name) if now.mutability.parameters else each.change
    if each.veto or each.value is None:
        return replace(each, change=change)
    reason = not_by_us(each.name, now)
    if not reason and not (each.is_users_word and each.name in NEVER):
        reason = veto({each.name: each.value}, now) or ""
    if not reason and change is Mutability.INERT:
        reason = f"{each.name}: this SCR does not read it"
    return replace(each, change=change, veto=reason)


def _proposal(each: DerivedParameter) -> Proposal:
    assert each.value is not None  # noqa: S101 - of those that are proposed
    return Proposal(
        rule=each.rule,
        intent=each.intent,
        changes={each.name: each.value},
        because="; ".join(each.inputs),
        source=each.source,
        required=True,
    )
