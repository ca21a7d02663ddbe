"""The catalogue, and how a text becomes a value."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import StorageTargetsObserved, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.affinity import CoreAffinity
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.buffers import BufferSizes
from scrtune.intents.observe.io.output_sizes import CHECKPOINTS, KindSizes, OutputSizes
from scrtune.intents.observe.io.sizes import SizeShare
from scrtune.intents.observe.io.storage import observe as observe_targets
from scrtune.intents.rules import guards, levers
from scrtune.intents.rules.parameters import derived
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS
from scrtune.scr_config.catalogue import (
    CATALOGUE,
    DESCRIPTOR_LINES,
    ParameterError,
    checked,
    coerce,
    compiled_defaults,
    text_of,
)
from scrtune.scr_config.parse import DESCRIPTORS

from ..support.situations import situation

OURS = {"SCRTUNE_DROP_BEHIND", "SCRTUNE_FLUSH_CPUS", "SCRTUNE_FLUSH_NICE", "SCRTUNE_FLUSH_THREADS"}
SOURCE = re.compile(r"(AXL |redset |KVTree )?(src|scripts)/[\w./]+:\d+")
"""A file and line of SCR's repository, or of a component's."""


def test_the_defaults_are_those_compiled_into_scr_not_those_of_its_manual() -> None:
    known = compiled_defaults()
    assert known["SCR_FILE_BUF_SIZE"] == 32 * 1024**2
    assert known["SCR_MPI_BUF_SIZE"] == 1024**2
    assert known["SCR_CACHE_BYPASS"] == 1
    assert known["SCR_COPY_TYPE"] == "XOR"
    assert known["SCR_FLUSH"] == 10
    assert known["SCR_CHECKPOINT_OVERHEAD"] == 0.0


def test_what_scr_works_out_as_it_runs_has_no_default() -> None:
    assert (
        not {"SCR_PREFIX", "SCR_CONF_FILE", "SCR_JOB_ID", "SCRTUNE_FLUSH_THREADS"}
        & compiled_defaults().keys()
    )


def test_every_default_is_a_value_of_its_parameter() -> None:
    for name, value in compiled_defaults().items():
        assert CATALOGUE[name].accepts(value), name
        assert coerce(name, text_of(value)) == value


def test_every_entry_says_what_it_is_and_where_that_was_read() -> None:
    for name, parameter in CATALOGUE.items():
        assert parameter.name == name
        assert parameter.doc
        assert SOURCE.fullmatch(parameter.source), name
        assert parameter.default_words, name
        assert bool(parameter.default_text) == (parameter.default is None), name
        assert not parameter.default_source or SOURCE.fullmatch(parameter.default_source), name
        assert "\n" not in parameter.doc
        assert bool(parameter.choices) == (parameter.type == "enum")


def test_names_that_scr_reads_and_never_uses_are_marked() -> None:
    inert = {name for name, parameter in CATALOGUE.items() if parameter.status == "inert"}
    assert inert == {
        "AXL_COPY_METADATA",
        "AXL_DEBUG",
        "AXL_MKDIR",
        "SCR_CRC_ON_FLUSH",
        "SCR_FETCH_WIDTH",
        "SCR_FLUSH_ASYNC_BW",
        "SCR_FLUSH_ASYNC_PERCENT",
        "SCR_FLUSH_WIDTH",
    }
    assert inert == {name for name, parameter in CATALOGUE.items() if parameter.mutability == "none"}


def test_what_worked_once_says_until_when() -> None:
    ended = {name: parameter.versions for name, parameter in CATALOGUE.items() if parameter.until}
    assert ended == {
        "SCR_CRC_ON_FLUSH": "1.1 to 2.0",
        "SCR_FETCH_WIDTH": "1.1 to 2.0",
        "SCR_FLUSH_ASYNC_BW": "1.1 to 2.0",
        "SCR_FLUSH_ASYNC_PERCENT": "1.1 to 2.0",
        "SCR_FLUSH_WIDTH": "1.1 to 2.0",
    }
    assert CATALOGUE["SCR_FLUSH_ASYNC_USLEEP"].versions == "3.0.1 on"


def test_where_the_manual_says_otherwise_both_are_told() -> None:
    differing = {name for name, parameter in CATALOGUE.items() if parameter.documented_default is not None}
    assert differing == {"SCR_FILE_BUF_SIZE", "SCR_MPI_BUF_SIZE"}
    assert CATALOGUE["SCR_MPI_BUF_SIZE"].default_words == "1 MiB; the manual says 128 KiB"
    for name in differing:
        assert CATALOGUE[name].documented_default != CATALOGUE[name].default


def test_everything_that_scr_and_what_it_is_made_of_looks_for_is_there() -> None:
    scopes = {scope: set[str]() for scope in ("library", "scripts", "component", "lever")}
    for name, parameter in CATALOGUE.items():
        scopes[parameter.scope].add(name)
    assert len(scopes["library"]) == 57
    assert scopes["component"] == {
        "AXL_COPY_METADATA",
        "AXL_DEBUG",
        "AXL_MKDIR",
        "AXL_USE_EXTENSION",
        "KVTREE_ENTRIES_PER_FILE",
        "REDSET_ENCODE",
    }
    assert scopes["scripts"] == {
        "SCR_EXCLUDE_NODES",
        "SCR_MIN_NODES",
        "SCR_NODELIST",
        "SCR_NODE_TESTS",
        "SCR_RETRIES",
        "SCR_RUNS",
        "SCR_WATCHDOG",
        "SCR_WATCHDOG_TIMEOUT",
        "SCR_WATCHDOG_TIMEOUT_PFS",
    }


def test_which_layers_are_looked_through() -> None:
    everywhere = ("environment", "user config", "SCR_Config", "system config")
    elsewhere = {name: entry.layers for name, entry in CATALOGUE.items() if entry.layers != everywhere}
    assert elsewhere.pop("SCR_CONF_FILE") == ("environment", "SCR_Config")
    levers = {elsewhere.pop(name) for name in OURS}
    assert levers == {everywhere[:3]}
    assert set(elsewhere.values()) == {("environment",)}
    scripts = {name for name in elsewhere if CATALOGUE[name].scope == "scripts"}
    assert "SCR_RUNS" in scripts
    assert "SCR_EXCLUDE_NODES" not in scripts, "the scripts look for it in the files too (param.py)"


def test_a_rank_that_alone_counts_cannot_differ_from_others() -> None:
    assert not [name for name, each in CATALOGUE.items() if each.rank_0_decides and each.equal_on_ranks]
    assert [
        CATALOGUE[name].ranks for name in ("SCR_FLUSH", "SCR_CHECKPOINT_SECONDS", "SCR_FILE_BUF_SIZE")
    ] == ["equal", "rank 0", "any"]


def observed() -> Situation:
    """A job of which every intent was observed."""
    now = situation()
    intents = msgspec.structs.replace(
        now.intents,
        affinity=CoreAffinity(evidence=Evidence(count=3), cpus=(0, 1), cores=2, processes=1),
        buffers=BufferSizes(evidence=Evidence(count=3), top=(SizeShare(size_bytes=1, count=1, share=1.0),)),
        storage=observe_targets(StorageTargetsObserved(host="n", file_system="lustre", targets=8)),
        outputs=OutputSizes(kinds={CHECKPOINTS: KindSizes(outputs=1, bytes=1, files=1)}),
    )
    return msgspec.structs.replace(now, intents=intents)


def test_the_intents_of_a_parameter_are_those_whose_levers_and_rules_set_it() -> None:
    changes: dict[str, set[str]] = {}
    for lever in levers.LEVERS:
        changes.setdefault(lever.intent, set()).add(lever.name)
    for each in derived(observed()):
        changes.setdefault(each.intent, set()).update(CATALOGUE.keys() & {each.name})
    stated = {
        intent: {name for name, parameter in CATALOGUE.items() if intent in parameter.intents}
        for intent in Intents().named()
    }
    assert changes.keys() <= stated.keys()
    assert not {intent: names - stated[intent] for intent, names in changes.items() if names - stated[intent]}
    assert {each for entry in CATALOGUE.values() for each in entry.intents} <= stated.keys()
    assert not guards.NEVER & set(levers.NAMES)


def test_descriptor_lines_are_known_with_their_keys() -> None:
    assert DESCRIPTOR_LINES.keys() == set(DESCRIPTORS)
    assert {name: tuple(key.name for key in line.keys) for name, line in DESCRIPTOR_LINES.items()} == {
        "CKPT": (
            "BYPASS",
            "ENABLED",
            "GROUP",
            "INTERVAL",
            "OUTPUT",
            "SET_FAILURES",
            "SET_SIZE",
            "STORE",
            "TYPE",
        ),
        "GROUPS": (),
        "STORE": ("COUNT", "ENABLED", "FLUSH", "GROUP", "MKDIR", "VIEW"),
    }
    assert [key.name for key in DESCRIPTOR_LINES["CKPT"].keys if key.status == "inert"] == ["SET_SIZE"]


def test_a_key_that_stands_for_a_parameter_names_one() -> None:
    for line in DESCRIPTOR_LINES.values():
        assert SOURCE.fullmatch(line.source)
        for key in line.keys:
            assert not key.default_text.startswith("SCR_") or key.default_text in CATALOGUE, key.name
            assert not key.choices or key.type == "enum"


def test_only_the_levers_are_unknown_to_scr() -> None:
    levers = {name for name, parameter in CATALOGUE.items() if parameter.is_lever}
    assert levers == OURS


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4194304", 4194304),
        ("4m", 4 * 1024**2),
        ("4MB", 4 * 1024**2),
        ("1.5g", 3 * 1024**3 // 2),
        (".5k", 512),
        ("1e3", 1000),
        ("1e3k", 1024000),
        ("1T", 1024**4),
        ("0.001p", 1125899906842),
        (" 1k", 1024),
    ],
)
def test_sizes_are_read_as_scr_reads_them(text: str, size_bytes: int) -> None:
    assert coerce("SCR_FILE_BUF_SIZE", text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "m", "4mm", "4 m", "10b", "-1", "4mib", "1k\r", "1 ", "inf", "nan", "1e999", "16e", "0"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        coerce("SCR_FILE_BUF_SIZE", text)
    assert "SCR_FILE_BUF_SIZE" in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "a size in bytes from 1" in str(caught.value)


def test_a_switch_is_on_for_any_number_but_0_as_in_c() -> None:
    assert [coerce("SCR_FLUSH_ASYNC", text) for text in ("0", "1", "2", "-1", "00")] == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SCR_FLUSH_ASYNC", "yes"),
        ("SCR_FLUSH", "ten"),
        ("SCR_FLUSH", "1.5"),
        ("SCR_FLUSH", "99999999999"),
        ("SCR_FLUSH", "٣"),
        ("SCR_MPI_BUF_SIZE", "2GB"),
        ("SCR_COPY_TYPE", "XORR"),
        ("SCR_FLUSH_TYPE", "pthread"),
        ("SCR_CHECKPOINT_OVERHEAD", "nan"),
        ("SCR_PREFIX", "/a\0b"),
        ("SCRTUNE_FLUSH_THREADS", "17"),
        ("SCRTUNE_FLUSH_CPUS", "3-1"),
        ("SCR_FLUSH_WIDHT", "1"),
    ],
)
def test_what_is_no_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(ParameterError, match=name):
        coerce(name, text)


def test_scr_compares_the_copy_type_without_case_and_the_flush_type_with() -> None:
    assert coerce("SCR_COPY_TYPE", "partner") == "PARTNER"
    assert coerce("SCR_FLUSH_TYPE", "PTHREAD") == "PTHREAD"


def test_a_cpu_list_is_linux_own() -> None:
    assert coerce("SCRTUNE_FLUSH_CPUS", "") == ""
    with pytest.raises(ParameterError, match="cpu list"):
        coerce("SCRTUNE_FLUSH_CPUS", "3-1")


@given(name=st.sampled_from(sorted(CATALOGUE)), text=st.text(max_size=40))
def test_any_text_is_either_an_acceptable_value_or_refused(name: str, text: str) -> None:
    try:
        value = coerce(name, text)
    except ParameterError:
        return
    assert CATALOGUE[name].accepts(value)
    assert coerce(name, text_of(value)) == value


def test_what_the_rules_take_for_scrs_defaults_is_what_the_catalogue_says() -> None:
    """The core knows no catalogue: what it has of SCR's defaults must not drift from it."""
    library = {name: value for name, value in DEFAULTS.items() if name.startswith("SCR_")}
    assert library == {name: CATALOGUE[name].default for name in library}


def test_checked_settings_are_the_defaults_with_what_was_given_over_them() -> None:
    assert checked({}) == compiled_defaults()
    assert checked({"SCR_FLUSH": 3, "SCR_PREFIX": "/p"}) == {
        **compiled_defaults(),
        "SCR_FLUSH": 3,
        "SCR_PREFIX": "/p",
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"SCR_FLUSH_WIDHT": 1}, "this name is not known"),
        ({"SCR_FILE_BUF_SIZE": 0}, "SCR_FILE_BUF_SIZE='0': must be"),
        ({"SCR_FLUSH": "ten"}, "a whole number"),
        ({"SCR_FLUSH_TYPE": "pthread"}, "capital letters"),
    ],
)
def test_settings_that_are_no_values_are_refused(values: Values, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        checked(values)
