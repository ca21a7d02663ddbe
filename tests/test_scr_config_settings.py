"""Which layer a value comes from."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.scr_config.parameters import CATALOGUE, defaults
from scrtune.scr_config.settings import difference, expand, resolve, user_conf_path


def test_with_nothing_given_the_compiled_defaults_stand() -> None:
    resolved = resolve({})
    assert resolved.settings == defaults()
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


def test_the_users_descriptors_are_handed_on() -> None:
    resolved = resolve({}, "STORE=/ssd COUNT=2\nCKPT=0 INTERVAL=1 STORE=/ssd\n")
    assert [entry.parent.key for entry in resolved.descriptors] == ["STORE", "CKPT"]


def test_where_the_users_file_lies() -> None:
    here = Path("/job")
    assert user_conf_path({}, here) == Path("/job/.scrconf")
    assert user_conf_path({"SCR_PREFIX": "/pfs"}, here) == Path("/pfs/.scrconf")
    assert user_conf_path({"SCR_PREFIX": "out"}, here) == Path("/job/out/.scrconf")
    assert user_conf_path({"SCR_PREFIX": "/pfs", "SCR_CONF_FILE": "my.conf"}, here) == Path("/job/my.conf")
    assert user_conf_path({"HOME": "/h", "SCR_CONF_FILE": "$HOME/my.conf"}) == Path("/h/my.conf")


def test_the_difference_of_two_settings() -> None:
    old, new = {"SCR_FLUSH": 1, "SCR_DEBUG": 0}, {"SCR_FLUSH": 2, "SCR_FETCH": 1, "SCR_DEBUG": 0}
    assert difference(old, new) == {"SCR_FETCH": (None, 1), "SCR_FLUSH": (1, 2)}
    assert difference(new, new) == {}


@settings(deadline=None)
@given(
    environment=st.dictionaries(st.sampled_from(sorted(CATALOGUE)), st.text(max_size=12), max_size=6),
    data=st.binary(max_size=120),
)
def test_whatever_is_given_every_value_is_one_of_its_parameter(
    environment: dict[str, str], data: bytes
) -> None:
    resolved = resolve(environment, data.decode("utf-8", "surrogateescape"))
    assert defaults().keys() <= resolved.settings.keys() == resolved.sources.keys()
    assert all(CATALOGUE[name].accepts(value) for name, value in resolved.settings.items())
