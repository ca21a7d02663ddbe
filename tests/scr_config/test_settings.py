"""The value object: what was given, typed, comparable, never changing."""

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Value
from scrtune.scr_config.catalogue import CATALOGUE, ParameterError, defaults
from scrtune.scr_config.settings import Settings


def values_of(name: str) -> st.SearchStrategy[Value]:
    """Values that the parameter takes."""
    entry = CATALOGUE[name]
    low = -(2**31) if entry.minimum is None else entry.minimum
    strategies: dict[str, st.SearchStrategy[Value]] = {
        "bool": st.integers(0, 1),
        "int": st.integers(low, entry.maximum or 2**31 - 1),
        "bytes": st.integers(low, entry.maximum or 2**40),
        "float": st.floats(allow_nan=False, allow_infinity=False),
        "enum": st.sampled_from(entry.choices or ("",)),
        "cpus": st.sampled_from(["", "1", "1,3-5"]),
    }
    return strategies.get(
        entry.type, st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
    )


SETTINGS = st.fixed_dictionaries({}, optional={name: values_of(name) for name in CATALOGUE}).map(Settings)


def test_typed_access_falls_back_to_the_compiled_default() -> None:
    settings = Settings({"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCRTUNE_FLUSH_CPUS": "1,3-4"})
    assert settings.flag("SCR_FLUSH_ASYNC") is True
    assert settings.flag("SCR_CACHE_BYPASS") is True
    assert settings.integer("SCR_FLUSH") == defaults()["SCR_FLUSH"]
    assert settings.integer("SCR_FILE_BUF_SIZE") == 32 * 1024**2
    assert settings.number("SCR_CHECKPOINT_OVERHEAD") == 0.0
    assert settings.text("SCR_FLUSH_TYPE") == "PTHREAD"
    assert settings.cpus("SCRTUNE_FLUSH_CPUS") == {1, 3, 4}


def test_as_a_mapping_it_has_what_was_given_and_nothing_else() -> None:
    settings = Settings({"SCR_FLUSH": 3})
    assert settings == {"SCR_FLUSH": 3}
    assert "SCR_CACHE_BYPASS" not in settings
    with pytest.raises(KeyError):
        settings["SCR_CACHE_BYPASS"]


def test_a_parameter_without_value_and_default_is_said_by_name() -> None:
    with pytest.raises(KeyError, match="SCR_PREFIX is not given"):
        Settings().text("SCR_PREFIX")


def test_asking_for_another_type_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError, match="SCR_FLUSH is of type int, not bool"):
        Settings().flag("SCR_FLUSH")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"SCR_FLUSH_WIDHT": 1}, "this name is not known"),
        ({"SCR_FILE_BUF_SIZE": 0}, "SCR_FILE_BUF_SIZE='0': must be"),
        ({"SCR_FLUSH": "ten"}, "a whole number"),
        ({"SCR_FLUSH_TYPE": "pthread"}, "capital letters"),
    ],
)
def test_what_is_no_value_cannot_be_made_part_of_it(values: dict[str, Value], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Settings(values)


def test_it_does_not_change() -> None:
    values: dict[str, Value] = {"SCR_FLUSH": 1}
    settings = Settings(values)
    values["SCR_FLUSH"] = 2
    assert settings["SCR_FLUSH"] == 1
    with pytest.raises(TypeError):
        settings["SCR_FLUSH"] = 2  # type: ignore[index]


@hypothesis.settings(max_examples=50)
@given(SETTINGS)
def test_equal_ones_are_equal_however_they_came_about(settings: Settings) -> None:
    same = Settings(dict(sorted(settings.items(), reverse=True)))
    assert same == settings == dict(settings)


def test_texts_and_values_are_two_ways_to_say_the_same() -> None:
    settings = Settings({"SCR_FLUSH_ASYNC": 1, "SCR_FILE_BUF_SIZE": 4194304, "SCR_COPY_TYPE": "XOR"})
    assert settings.texts() == {
        "SCR_FLUSH_ASYNC": "1",
        "SCR_FILE_BUF_SIZE": "4194304",
        "SCR_COPY_TYPE": "XOR",
    }
    assert Settings.of_texts({**settings.texts(), "SCR_FILE_BUF_SIZE": "4m"}) == settings
