"""The parameters that follow from the intents without a trial: what each rule derives, and what wins.

A new rule is a function of its intent's module beside this one, and its name in `RULES`. Where several want
one parameter, the first of these stands, and `overruled` of the others says so:

1. a guard rail, or what this SCR can do (`veto`);
2. what the user declared (`is_users_word`); of two that follow from declarations the rule that comes first;
3. what the user set: their config file, SCR_Config, or the system's;
4. what trials found, of a parameter that is a lever (:mod:`.levers`): no trial looks for what `is_safer`;
5. advice; of two the rule that comes first.

What the user's environment sets, or they gave while the job ran, is a veto: it wins over all that is derived.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from ..events import Values
from .derived.access_sizes import access_sizes
from .derived.checkpoint_rate import checkpoint_rate
from .derived.divergence import divergence
from .derived.faults.clean_start import clean_start
from .derived.faults.fault_model import fault_model
from .derived.faults.fault_tolerance import fault_tolerance
from .derived.faults.history import history
from .derived.process_cores import process_cores
from .derived.storage import next_output, storage_targets
from .derived.workflow import workflow
from .guards import NEVER, not_by_us, veto
from .levers import NAMES
from .parameter import DerivedParameter
from .situation import Proposal, Situation

RULES: tuple[Callable[[Situation], Iterator[DerivedParameter]], ...] = (
    fault_model,
    clean_start,
    fault_tolerance,
    history,
    checkpoint_rate,
    workflow,
    divergence,
    process_cores,
    access_sizes,
    storage_targets,
    next_output,
)
"""In the order of precedence: how durable data are comes before what they cost."""


def derived(now: Situation) -> tuple[DerivedParameter, ...]:
    """Return every parameter that the rules derive in this job, with what stands against it."""
    found, after = [], now
    for each in (each for rule in RULES for each in rule(now)):
        checked = _guarded(each, after)
        found.append(checked)
        if checked.is_users_word and checked.value is not None and not checked.veto:
            after = replace(after, settings={**after.settings, checked.name: checked.value})
    first: dict[str, DerivedParameter] = {}
    for each in sorted(found, key=lambda each: not each.is_users_word):  # stable: in the order of the rules
        if each.is_wanted and not each.veto:
            first.setdefault(each.name, each)
    return tuple(_overruled(each, first.get(each.name), now) for each in found)


def declared(now: Situation) -> tuple[tuple[Proposal, str | None], ...]:
    """Return the changes that follow from the user's word, and why one of them may not be made."""
    return tuple(
        (_proposal(each), each.veto or None)
        for each in derived(now)
        if each.is_users_word and each.value is not None and not each.overruled
        if now.settings.get(each.name) != each.value
    )


def advised(parameters: Iterable[DerivedParameter]) -> Values:
    """Return what to run the next job with, of what a value alone can say."""
    return {
        each.name: each.value
        for each in parameters
        if each.stands and each.value is not None and not each.lines and not each.is_users_word
    }


def _guarded(each: DerivedParameter, now: Situation) -> DerivedParameter:
    change = now.mutability.of(each.name) if now.mutability.parameters else each.change
    if each.veto or each.value is None:
        return replace(each, change=change)
    reason = not_by_us(each.name, now)
    if not reason and not (each.is_users_word and each.name in NEVER):
        reason = veto({each.name: each.value}, now) or ""
    return replace(each, change=change, veto=reason)


def _overruled(each: DerivedParameter, first: DerivedParameter | None, now: Situation) -> DerivedParameter:
    if not each.is_wanted or each.veto or each.overruled:
        return each
    if first is not None and first is not each and (first.value, first.lines) != (each.value, each.lines):
        who = "what you declared" if first.is_users_word else "a stricter need"
        what = "other lines" if first.value is None else first.value
        return replace(each, overruled=f"{who} comes first: {first.intent} wants {what} ({first.rule})")
    return each if each.is_users_word else replace(each, overruled=_stands_already(each, now))


def _stands_already(each: DerivedParameter, now: Situation) -> str:
    """Return what stands instead of the advice `each`; empty where the user left it at its default."""
    if each.name in NAMES and not each.is_safer:
        return "trials decide: it is a lever"
    if now.job is None or not now.job.is_given(each.name):
        return ""
    return f"your own value stands ({now.job.sources[each.name]})"


def _proposal(each: DerivedParameter) -> Proposal:
    assert each.value is not None  # noqa: S101 - of those that are proposed
    return Proposal(
        rule=each.rule,
        intent=each.intent,
        changes={each.name: each.value},
        because="; ".join(filter(None, (*each.inputs, each.clipped))),
        source=each.source,
        required=True,
    )
