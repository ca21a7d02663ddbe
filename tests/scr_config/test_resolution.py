"""Which layer a value comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import ValueSource
from scrtune.scr_config.catalogue import CATALOGUE, LAYERS, compiled_defaults
from scrtune.scr_config.resolution import expand, resolve


def test_with_nothing_given_the_compiled_defaults_stand() -> None:
    resolved = resolve({})
    assert resolved.settings == compiled_defaults()
    assert set(resolved.sources.values()) == {"default"}
    assert resolved.problems == ()


def test_environment_beats_user_file_beats_scr_config_beats_default() -> None:
    resolved = resolve(
        {"SCR_FLUSH": "1"},
        "SCR_FLUSH=2\nSCR_CACHE_SIZE=2\n",
        {"SCR_FLUSH": 3, "SCR_CACHE_SIZE": 3, "SCR_SET_SIZE": 4},
    )
    names = ("SCR_FLUSH", "SCR_CACHE_SIZE", "SCR_SET_SIZE", "SCR_DEBUG")
    assert [resolved.settings[name] for name in names] == [1, 2, 4, 0]
    assert [resolved.sources[name] for name in names] == [
        "environment",
        "user config",
        "SCR_Config",
        "default",
    ]
    assert resolved.settings.keys() == resolved.sources.keys()


def test_the_levers_are_read_the_same_way() -> None:
    resolved = resolve({"SCRTUNE_FLUSH_THREADS": "2"}, "SCRTUNE_FLUSH_CPUS=0-1\n")
    assert resolved.settings["SCRTUNE_FLUSH_THREADS"] == 2
    assert resolved.settings["SCRTUNE_FLUSH_CPUS"] == "0-1"
    assert resolved.sources["SCRTUNE_FLUSH_CPUS"] == "user config"


def test_a_bad_value_is_told_and_the_next_layers_value_stands() -> None:
    resolved = resolve(
        {"SCR_FILE_BUF_SIZE": "0"}, "\n SCR_FILE_BUF_SIZE = huge\n", {"SCR_FILE_BUF_SIZE": 4096}
    )
    assert resolved.settings["SCR_FILE_BUF_SIZE"] == 4096
    assert resolved.sources["SCR_FILE_BUF_SIZE"] == "SCR_Config"
    told = [(problem.code, problem.source, problem.line, problem.column) for problem in resolved.problems]
    assert told == [("bad-value", "environment", 0, 0), ("bad-value", "user config", 2, 22)]
    assert "the flush never ends" in resolved.problems[0].what


def test_no_word_of_a_password_is_told() -> None:
    (problem,) = resolve({}, "SCR_LOG_DB_PASS=top hush\n").problems
    assert (problem.code, problem.parameter) == ("no-equals", "SCR_LOG_DB_PASS")
    assert "hush" not in str(problem).lower()


def test_what_scr_makes_of_a_bad_value_is_told_for_the_value_shown_is_not_that() -> None:
    (problem,) = resolve({"SCR_FLUSH": "ten"}).problems
    assert "SCR reads it as 0" in problem.what
    assert "scrtune, unlike SCR, goes on with the next layer's value" in problem.remedy


def test_what_the_parser_found_is_told_too_with_its_layer() -> None:
    resolved = resolve({}, "SCR_FLUSH\nSCR_RUNS=3\nSCR_DEBUG=1\n")
    told = [(problem.code, problem.line, problem.source) for problem in resolved.problems]
    assert told == [("no-equals", 1, "user config"), ("wrong-layer", 2, "user config")]
    assert resolved.settings["SCR_DEBUG"] == 1
    assert "SCR_RUNS" not in resolved.settings


def test_variables_are_expanded_in_every_layer() -> None:
    environment = {"TOP": "/top", "N2": "two", "SCR_PREFIX": "${TOP}/$N2/$UNSET"}
    resolved = resolve(environment, "SCR_CACHE_BASE=$TOP/\\$N2\n", {"SCR_CNTL_BASE": "$TOP/cntl"})
    assert resolved.settings["SCR_PREFIX"] == "/top/two/"
    assert resolved.settings["SCR_CACHE_BASE"] == "/top/two"
    assert resolved.settings["SCR_CNTL_BASE"] == "/top/cntl"
    assert expand("$TOP} ${TOP $ ${}x", environment) == "$TOP} ${TOP $ x"


def test_a_descriptor_in_the_environment_is_told() -> None:
    (problem,) = resolve({"STORE": "/home/me/store"}).problems
    assert (problem.severity, problem.code, problem.parameter) == (
        "error",
        "descriptor-in-environment",
        "STORE",
    )


def test_an_unknown_name_given_by_program_is_told() -> None:
    (problem,) = resolve({}, None, {"SCR_FLUHS": 1}).problems
    assert (problem.code, problem.parameter) == ("unknown-name", "SCR_FLUHS")


@given(
    environment=st.dictionaries(st.sampled_from(sorted(CATALOGUE)), st.text(max_size=12), max_size=6),
    data=st.binary(max_size=120),
)
def test_whatever_is_given_every_value_is_one_of_its_parameter(
    environment: dict[str, str], data: bytes
) -> None:
    resolved = resolve(environment, data.decode("utf-8", "surrogateescape"))
    assert compiled_defaults().keys() <= resolved.settings.keys() == resolved.sources.keys()
    assert all(CATALOGUE[name].accepts(value) for name, value in resolved.settings.items())


# --- places, shadows and the system's file


def test_the_system_file_comes_below_scr_config_and_above_the_default() -> None:
    resolved = resolve({}, None, {"SCR_FLUSH": 3}, "SCR_FLUSH=4\nSCR_SET_SIZE=4\n")
    assert [resolved.settings[name] for name in ("SCR_FLUSH", "SCR_SET_SIZE")] == [3, 4]
    assert [resolved.sources[name] for name in ("SCR_FLUSH", "SCR_SET_SIZE")] == [
        "SCR_Config",
        "system config",
    ]


def test_every_value_has_its_place_and_what_it_shadows() -> None:
    resolved = resolve(
        {"SCR_FLUSH": "1"},
        "# mine\nSCR_FLUSH = 2\n",
        "SCR_FLUSH=3\n",
        "SCR_DEBUG=1\nSCR_FLUSH=4",
        {
            "user config": "/job/.scrconf",
            "SCR_Config": "/job/.scr/app.conf",
            "system config": "/etc/scr.conf",
        },
    )
    places = [
        (each.layer, each.value, each.file, each.line, each.column) for each in resolved.found["SCR_FLUSH"]
    ]
    assert places == [
        ("environment", 1, "", 0, 0),
        ("user config", 2, "/job/.scrconf", 2, 13),
        ("SCR_Config", 3, "/job/.scr/app.conf", 1, 11),
        ("system config", 4, "/etc/scr.conf", 2, 11),
        ("default", 10, "", 0, 0),
    ]
    assert resolved.origin("SCR_FLUSH").value == 1
    assert [each.value for each in resolved.shadowed("SCR_FLUSH")] == [2, 3, 4, 10]
    assert resolved.origin("SCR_DEBUG").file == "/etc/scr.conf"


def test_what_nobody_sets_has_no_origin() -> None:
    with pytest.raises(KeyError):
        resolve({}).origin("SCR_PREFIX")
    with pytest.raises(KeyError):
        resolve({"SCR_NODELIST": "\0"}).shadowed("SCR_NODELIST")


def test_a_bad_value_that_is_shadowed_does_no_harm_and_is_shown() -> None:
    resolved = resolve({"SCR_FLUSH": "1"}, "SCR_FLUSH=ten\n")
    assert resolved.problems == ()
    assert [(each.text, each.value) for each in resolved.shadowed("SCR_FLUSH")] == [("ten", None), ("10", 10)]


def test_a_bad_value_on_top_is_passed_over_and_shadows_nothing() -> None:
    resolved = resolve({"SCR_FLUSH": "ten"}, "SCR_FLUSH=2\n")
    assert resolved.origin("SCR_FLUSH").layer == "user config"
    assert [each.layer for each in resolved.shadowed("SCR_FLUSH")] == ["default"]
    assert [each.layer for each in resolved.found["SCR_FLUSH"]] == ["environment", "user config", "default"]


def test_problems_of_each_file_name_their_layer() -> None:
    resolved = resolve({}, "SCR_FLUHS=1\n", "SCR_RUNS=2\n", "SCR_DEBUG\n")
    assert [(each.source, each.code) for each in resolved.problems] == [
        ("user config", "unknown-name"),
        ("SCR_Config", "wrong-layer"),
        ("system config", "no-equals"),
    ]


def test_one_layer_has_all_the_descriptor_lines_of_a_kind() -> None:
    resolved = resolve(
        {"GROUPS": "here"},
        "CKPT=0 INTERVAL=1\nCKPT=1 INTERVAL=4\n",
        None,
        "CKPT=0 TYPE=RS\nSTORE=/ssd COUNT=2\nGROUPS=n1 SWITCH=0\n",
    )
    lines = {
        name: [(each.layer, len(each.entries)) for each in stack] for name, stack in resolved.lines.items()
    }
    assert lines == {
        "CKPT": [("user config", 2), ("system config", 1)],
        "STORE": [("system config", 1)],
        "GROUPS": [("environment", 1), ("system config", 1)],
    }


NUMBERS = [name for name, entry in CATALOGUE.items() if entry.type == "int" and entry.layers == LAYERS]


@given(
    name=st.sampled_from(NUMBERS),
    values=st.fixed_dictionaries({}, optional=dict.fromkeys(LAYERS, st.integers(1, 10**6))),
)
def test_the_highest_layer_that_has_a_value_wins_and_shadows_the_others(
    name: str, values: dict[ValueSource, int]
) -> None:
    def text(layer: ValueSource) -> str | None:
        return f"\n{name}={values[layer]}\n" if layer in values else None

    environment = {name: str(values["environment"])} if "environment" in values else {}
    resolved = resolve(environment, text("user config"), text("SCR_Config"), text("system config"))
    stack: list[tuple[str, int | str | float]] = [
        (layer, values[layer]) for layer in LAYERS if layer in values
    ]
    if (default := CATALOGUE[name].default) is not None:
        stack.append(("default", default))
    assert [(each.layer, each.value) for each in resolved.found.get(name, ())] == stack
    if stack:
        assert (resolved.sources[name], resolved.settings[name]) == stack[0]
        assert len(resolved.shadowed(name)) == len(stack) - 1
    for each in resolved.found.get(name, ()):
        in_file = each.layer in LAYERS[1:]
        assert (each.line, each.column) == ((2, len(name) + 2) if in_file else (0, 0))


@given(
    environment=st.dictionaries(st.sampled_from(sorted(CATALOGUE)), st.text(max_size=8), max_size=4),
    files=st.lists(st.one_of(st.none(), st.binary(max_size=80)), min_size=3, max_size=3),
)
def test_whatever_the_files_hold_what_is_in_force_is_the_first_value_found(
    environment: dict[str, str], files: list[bytes | None]
) -> None:
    user, program, system = (data if data is None else data.decode("utf-8", "replace") for data in files)
    resolved = resolve(environment, user, program, system)
    assert (
        compiled_defaults().keys()
        <= resolved.settings.keys()
        == resolved.sources.keys()
        <= resolved.found.keys()
    )
    for name, value in resolved.settings.items():
        origin = resolved.origin(name)
        assert (origin.value, origin.layer) == (value, resolved.sources[name])
        assert CATALOGUE[name].accepts(value)
        above = resolved.found[name][: resolved.found[name].index(origin)]
        told = [
            each.source for each in resolved.problems if each.parameter == name and each.code == "bad-value"
        ]
        assert told == [each.layer for each in above]
