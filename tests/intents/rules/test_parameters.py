"""What wins where several want one parameter, and what of it is advised or made."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from scrtune.intents.events import Value, Values
from scrtune.intents.mutability import RunMutability
from scrtune.intents.rules import parameters
from scrtune.intents.rules.parameter import DerivedParameter
from scrtune.intents.rules.parameters import advised, declared, derived
from scrtune.intents.rules.situation import Situation

from ...support.situations import situation

CACHED: Values = {"SCR_CACHE_BYPASS": 0, "SCR_CACHE_SIZE": 2, "SCR_COPY_TYPE": "SINGLE"}
Rule = Callable[[Situation], Iterator[DerivedParameter]]


def rule(intent: str, name: str, value: Value | None, *, is_users_word: bool = False) -> Rule:
    def derive(_now: Situation) -> Iterator[DerivedParameter]:
        yield DerivedParameter(
            intent=intent,
            name=name,
            value=value,
            rule=f"as {intent} wants",
            source="s",
            is_users_word=is_users_word,
        )

    return derive


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *given: monkeypatch.setattr(parameters, "RULES", given)


def test_what_was_declared_comes_before_advice_and_the_earlier_rule_before_the_later(
    rules: Callable[..., None],
) -> None:
    rules(
        rule("a", "SCR_FLUSH_WIDTH", 1),
        rule("b", "SCR_FLUSH_WIDTH", 2, is_users_word=True),
        rule("c", "SCR_FLUSH_WIDTH", 3, is_users_word=True),
        rule("d", "SCR_FLUSH_WIDTH", 2),
    )
    found = {each.intent: each for each in derived(situation())}
    assert [each.intent for each in found.values() if each.stands] == ["b", "d"], "d wants the same"
    assert found["a"].overruled == "what you declared comes first: b wants 2 (as b wants)"
    assert found["c"].overruled == found["a"].overruled
    ((change, veto),) = declared(situation())
    assert (change.changes, veto) == ({"SCR_FLUSH_WIDTH": 2}, None)


def test_a_veto_makes_way_for_the_next_one(rules: Callable[..., None]) -> None:
    rules(rule("a", "SCR_CACHE_SIZE", 10_000), rule("b", "SCR_CACHE_SIZE", 3))
    first, second = derived(situation({"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE"}))
    assert "do not fit" in first.veto
    assert (second.overruled, second.veto) == ("trials decide: it is a lever", "")


def test_of_two_advices_the_one_about_safety_stands(rules: Callable[..., None]) -> None:
    rules(rule("a", "SCR_GROUP", "X"), rule("b", "SCR_GROUP", "Y"))
    first, second = derived(situation())
    assert first.stands
    assert second.overruled == "a stricter need comes first: a wants X (as a wants)"
    assert advised(derived(situation())) == {"SCR_GROUP": "X"}


@pytest.mark.parametrize(
    ("settings", "sources", "why"),
    [
        ({"SCR_GROUP": "Z"}, None, "your own value stands (user config)"),
        ({"SCR_GROUP": "Z"}, {"SCR_GROUP": "SCR_Config"}, "your own value stands (SCR_Config)"),
    ],
)
def test_what_you_set_stands_against_advice(
    rules: Callable[..., None], settings: Values, sources: dict[str, str] | None, why: str
) -> None:
    rules(rule("a", "SCR_GROUP", "X"))
    (found,) = derived(situation(settings, sources=sources))
    assert found.overruled == why
    assert advised([found]) == {}


def test_of_a_lever_trials_decide_also_where_you_set_it(rules: Callable[..., None]) -> None:
    rules(rule("a", "SCR_FLUSH_ASYNC", 1))
    (found,) = derived(situation({"SCR_FLUSH_ASYNC": 0}, sources={"SCR_FLUSH_ASYNC": "user config"}))
    assert found.overruled == "trials decide: it is a lever"


def test_but_not_against_what_you_declare(rules: Callable[..., None]) -> None:
    rules(rule("a", "SCR_GROUP", "X", is_users_word=True))
    (found,) = derived(situation({"SCR_GROUP": "Z"}))
    assert found.stands
    assert advised([found]) == {}, "it is made, not advised"


@pytest.mark.parametrize("source", ["environment", "edited"])
def test_the_environment_and_an_edit_win_over_all(rules: Callable[..., None], source: str) -> None:
    rules(rule("a", "SCR_GROUP", "X", is_users_word=True))
    (found,) = derived(situation({"SCR_GROUP": "Z"}, sources={"SCR_GROUP": source}))
    assert found.veto
    assert [veto for _, veto in declared(situation({"SCR_GROUP": "Z"}, sources={"SCR_GROUP": source}))] == [
        found.veto
    ]


def test_what_deletes_data_is_no_advice_ever(rules: Callable[..., None]) -> None:
    rules(rule("a", "SCR_PREFIX_PURGE", 1))
    (found,) = derived(situation())
    assert "only the user may change this" in found.veto


def test_each_says_how_this_scr_can_change_it(rules: Callable[..., None]) -> None:
    rules(rule("a", "SCR_GROUP", "X"), rule("b", "SCR_FLUSH_WIDTH", 2))
    real = RunMutability(parameters={"SCR_GROUP": "re-init", "SCR_FLUSH_WIDTH": "inert"})
    group, width = derived(replace(situation(), mutability=real))
    assert (group.change.value, width.change.value) == ("re-init", "none")
    assert width.veto == "SCR_FLUSH_WIDTH: this SCR does not read it"


def test_words_that_need_each_other_are_judged_together(rules: Callable[..., None]) -> None:
    """A floor that the scheme in use does not keep forbids any other change of what is cached."""
    rules(
        rule("a", "SCR_COPY_TYPE", "RS", is_users_word=True),
        rule("b", "SCR_SET_FAILURES", 2, is_users_word=True),
    )
    found = derived(situation(CACHED, floor="RS"))
    assert [each.veto for each in found] == ["", ""]
