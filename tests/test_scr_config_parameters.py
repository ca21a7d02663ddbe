"""The catalogue, and how a text becomes a value."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.scr_config.parameters import CATALOGUE, ParameterError, coerce, cpus_of, defaults, text_of


def test_the_defaults_are_those_compiled_into_scr_not_those_of_its_manual() -> None:
    known = defaults()
    assert known["SCR_FILE_BUF_SIZE"] == 32 * 1024**2
    assert known["SCR_MPI_BUF_SIZE"] == 1024**2
    assert known["SCR_CACHE_BYPASS"] == 1
    assert known["SCR_COPY_TYPE"] == "XOR"
    assert known["SCR_FLUSH"] == 10
    assert known["SCR_CHECKPOINT_OVERHEAD"] == 0.0


def test_what_scr_works_out_as_it_runs_has_no_default() -> None:
    assert not {"SCR_PREFIX", "SCR_CONF_FILE", "SCR_JOB_ID", "SCRTUNE_FLUSH_THREADS"} & defaults().keys()


def test_every_default_is_a_value_of_its_parameter() -> None:
    for name, value in defaults().items():
        assert CATALOGUE[name].accepts(value), name
        assert coerce(name, text_of(value)) == value


def test_every_entry_says_what_it_is_and_where_that_was_read() -> None:
    for name, parameter in CATALOGUE.items():
        assert parameter.name == name
        assert parameter.doc
        assert ":" in parameter.source
        assert "\n" not in parameter.doc
        assert bool(parameter.choices) == (parameter.type == "enum")


def test_names_that_scr_reads_and_never_uses_are_marked() -> None:
    inert = {name for name, parameter in CATALOGUE.items() if parameter.status == "inert"}
    assert inert == {
        "SCR_CRC_ON_FLUSH",
        "SCR_FETCH_WIDTH",
        "SCR_FLUSH_ASYNC_BW",
        "SCR_FLUSH_ASYNC_PERCENT",
        "SCR_FLUSH_WIDTH",
    }
    assert {CATALOGUE[name].mutability for name in inert} == {"none"}


def test_only_the_levers_are_unknown_to_scr() -> None:
    levers = {name for name, parameter in CATALOGUE.items() if parameter.is_lever}
    assert levers == {"SCRTUNE_FLUSH_CPUS", "SCRTUNE_FLUSH_THREADS"}


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
    assert cpus_of("1,3-5") == {1, 3, 4, 5}
    assert cpus_of("") == frozenset()
    assert coerce("SCRTUNE_FLUSH_CPUS", "") == ""
    for text in ("a", "1,", "1-", "0-99999999", "3-1", "0-8192", "-1"):
        with pytest.raises(ValueError, match="cpu list"):
            cpus_of(text)


@settings(deadline=None)
@given(name=st.sampled_from(sorted(CATALOGUE)), text=st.text(max_size=40))
def test_any_text_is_either_an_acceptable_value_or_refused(name: str, text: str) -> None:
    try:
        value = coerce(name, text)
    except ParameterError:
        return
    assert CATALOGUE[name].accepts(value)
    assert coerce(name, text_of(value)) == value
