"""The story of one intent or parameter of a job, or of all: what was seen, what follows, what is decided."""

import difflib
from collections.abc import Iterator, Sequence

import click
import msgspec

from ...daemon.views import ExplainView, IntentView
from ...intents.rules.explain import LeverView
from ...intents.rules.levers import LEVERS
from ...intents.rules.parameter import DerivedParameter
from ...intents.tune.decisions import Decision
from ...scr_config.catalogue import CATALOGUE, DESCRIPTOR_LINES
from ...units import seconds_text
from ..format import VERDICTS, transitions_text, value_text

_INTENT_OF = {lever.name: lever.intent for lever in LEVERS}
_NEAR = 0.5


class Section(msgspec.Struct, frozen=True):
    """A piece of a story: what it is about, and texts by their names."""

    title: str
    rows: dict[str, str]


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What `scrtune explain NAME` shows: in words (`sections`), and the numbers that these are made of."""

    job_id: str
    about: str
    sections: tuple[Section, ...]
    contradictions: tuple[str, ...] = ()
    intents: tuple[IntentView, ...] = ()
    parameters: tuple[DerivedParameter, ...] = ()
    levers: tuple[LeverView, ...] = ()
    decisions: tuple[Decision, ...] = ()


def story(view: ExplainView, words: Sequence[str] = ()) -> Story:
    """Return the story of the intent or parameter that `words` name, else of all.

    Raises click.BadParameter.
    """
    about = " ".join(words).strip()
    intents, names = _asked_for(view, about)
    headings = (
        f"Intent {each.number}: {each.name}" if each.number else f"Intent: {each.name}" for each in intents
    )
    sections = [Section(title, _intent(each, view)) for title, each in zip(headings, intents, strict=True)]
    sections += [Section(name, _parameter(name, view)) for name in sorted(names)]
    return Story(
        job_id=view.job_id,
        about=about or "everything",
        sections=tuple(each for each in sections if each.rows),
        contradictions=view.contradictions,
        intents=tuple(intents),
        parameters=tuple(each for each in view.parameters if each.name in names),
        levers=tuple(each for each in view.levers if each.name in names),
        decisions=tuple(each for each in view.decisions if names & each.changes.keys()),
    )


def standing(each: DerivedParameter, view: ExplainView | None = None) -> str:
    """Return what became of a derived parameter, in a line; without a `view` nothing was made."""
    if not each.is_wanted:
        return f"for you to run: {each.command}" if each.command else f"nothing follows: {each.why_not}"
    if each.veto or each.overruled:
        return f"not used: {each.veto or each.overruled}"
    if not each.is_users_word:
        where = "lines for SCR's config file, below" if each.lines else "`scrtune env` has it"
        return f"advised, not tried: {where}"
    if view is None:
        return "your word: proposed"
    if view.at_launch.get(each.name) == each.value:
        return "your word: from the next launch on, which alone can change it"
    is_made = view.mode == "auto" or view.settings.get(each.name) == each.value
    return "your word: made" if is_made else f"your word: proposed, for --mode {view.mode} changes nothing"


def _asked_for(view: ExplainView, about: str) -> tuple[list[IntentView], set[str]]:
    """Return the intents that `about` names and the parameters of these, or the parameter and its intents."""
    known = {*(each.name for each in view.parameters), *(each.name for each in view.levers)}
    if not about:
        return list(view.intents), known
    number = about.lower().removeprefix("intent").strip()
    named = [each for each in view.intents if about.lower() == each.name or number == str(each.number)]
    if named:
        intents = {each.name for each in named}
        return named, {name for name in known if intents & _intents_of(name, view)}
    name = next((each for each in known if each.lower() == about.lower()), about.upper())
    if name in known or name in CATALOGUE or name in DESCRIPTOR_LINES:
        return [each for each in view.intents if each.name in _intents_of(name, view)], {name}
    raise click.BadParameter(_unknown(about, view, known), param_hint="'[INTENT|PARAMETER]'")


def _unknown(about: str, view: ExplainView, known: set[str]) -> str:
    names = {each.name: each.name for each in view.intents}
    names |= {name.lower(): name for name in (*known, *CATALOGUE, *DESCRIPTOR_LINES)}
    near = [names[each] for each in difflib.get_close_matches(about.lower(), names, n=3, cutoff=_NEAR)]
    intents = ", ".join(f"{each.number} {each.name}" for each in sorted(view.intents, key=_by_number))
    hint = f"did you mean {' or '.join(near)}?" if near else f"the intents are {intents}"
    return f"{about!r} is no intent and no parameter; {hint}"


def _by_number(intent: IntentView) -> tuple[int, str]:
    return intent.number, intent.name


def _intents_of(name: str, view: ExplainView) -> set[str]:
    derived = {each.intent for each in view.parameters if each.name == name}
    return derived | ({_INTENT_OF[name]} if name in _INTENT_OF else set())


def _intent(intent: IntentView, view: ExplainView) -> dict[str, str]:
    until = f", until {intent.end_s - view.start_s:.1f} s" if 0 < view.start_s <= intent.end_s else ""
    window = f" over {intent.window_s:.1f} s{until}" if intent.window_s or until else ""
    seen = f"{intent.count} x {intent.source}{window}" if intent.count else "nothing yet"
    names = sorted({each.name for each in view.parameters if each.intent == intent.name})
    names += sorted(name for name, which in _INTENT_OF.items() if which == intent.name and name not in names)
    rows = {"meaning": intent.sentence, "evidence": seen}
    return rows | {"confidence": intent.confidence, "sets": ", ".join(names)}


def _parameter(name: str, view: ExplainView) -> dict[str, str]:
    rows = {"is": _value(name, view)}
    derived = [each for each in view.parameters if each.name == name]
    for each in derived:
        suffix = f" ({each.intent})" if len(derived) > 1 else ""
        rows |= {f"{key}{suffix}": text for key, text in _derived(each, view).items()}
    for lever in view.levers:
        if lever.name == name:
            rows["lever"] = _lever(lever)
            rows["lever's source"] = lever.source
    for number, decision in enumerate(_decisions(name, view), start=1):
        rows[f"decision {number}"] = decision
    if len(rows) == 1:
        rows["why"] = "no intent of this job sets it; `scrtune params` has what is known of it"
    return rows


def _value(name: str, view: ExplainView) -> str:
    active, own = view.settings.get(name), view.baseline.get(name)
    if active is None:
        parameter = CATALOGUE.get(name)
        return f"{parameter.default_words}, SCR's default" if parameter else "not set"
    told = {
        each.value for each in view.parameters if each.name == name and each.is_users_word and each.stands
    }
    whose = "by your word" if active in told else f"yours {value_text(own)}"
    later = f"; {value_text(view.at_launch[name])} from the next launch on" if name in view.at_launch else ""
    return f"{value_text(active)}, {whose} ({view.sources.get(name, 'default')}){later}"


def _derived(each: DerivedParameter, view: ExplainView) -> dict[str, str]:
    value = "its lines" if each.value is None else value_text(each.value)
    gain = f"{seconds_text(each.gain_s)} of the whole job, give or take {seconds_text(each.gain_sd_s)}"
    return {
        "follows": f"{value}, from {each.intent}" if each.is_wanted else "",
        "standing": standing(each, view),
        "rule": each.rule,
        "inputs": "\n".join(each.inputs),
        "bound": each.clipped,
        "source": each.source,
        "expected gain": gain if each.gain_s else "",
        "acts": f"{each.phase}; one value for the {each.scope}; changes: {each.change}",
        "config file": "\n".join(each.lines),
    }


def _lever(lever: LeverView) -> str:
    other = ""
    if lever.other is not None:
        saves = f", believed to save {lever.gain_s:.3f} s a checkpoint" if lever.gain_s > 0 else ""
        other = f"; best other {value_text(lever.other)}{saves}"
    return f"{value_text(lever.value)} now{other}: {lever.why}"


def _decisions(name: str, view: ExplainView) -> Iterator[str]:
    begin_s = view.start_s or (view.decisions[0].time_s if view.decisions else 0.0)
    for each in view.decisions:
        if name in each.changes:
            what = transitions_text(each.previous, {name: each.changes[name]})
            at, word = f"at {each.time_s - begin_s:.1f} s", VERDICTS[each.verdict].word
            yield f"{at} {word}: {what}, by {each.rule!r}: {each.because}"
