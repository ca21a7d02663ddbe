"""What SCR fails on, found before SCR does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.scr_config.catalogue import CATALOGUE, compiled_defaults
from scrtune.scr_config.constraints import fatal, unfit_for_file


def test_scr_own_defaults_are_fine() -> None:
    assert fatal(compiled_defaults()) == fatal({}) == ()


@pytest.mark.parametrize(
    ("settings", "parameter", "code", "what_happens"),
    [
        ({"SCR_MPI_BUF_SIZE": 2 * 1024**3}, "SCR_MPI_BUF_SIZE", "bad-value", "crashes SCR_Init"),
        ({"SCR_FILE_BUF_SIZE": 0}, "SCR_FILE_BUF_SIZE", "bad-value", "never ends"),
        ({"SCR_COPY_TYPE": "XORR"}, "SCR_COPY_TYPE", "bad-value", "aborts"),
        ({"SCR_FLUSH_TYPE": "pthread"}, "SCR_FLUSH_TYPE", "bad-value", "case-sensitively"),
        ({"SCR_FLUSH": "10"}, "SCR_FLUSH", "bad-value", "a whole number"),
        ({"SCR_FLUSH": 1.0}, "SCR_FLUSH", "bad-value", "a whole number"),
        ({"SCR_JOB_ID": 17}, "SCR_JOB_ID", "bad-value", "a text"),
        ({"SCR_CHECKPOINT_OVERHEAD": float("inf")}, "SCR_CHECKPOINT_OVERHEAD", "bad-value", "finite"),
        ({"SCRTUNE_FLUSH_THREADS": 17}, "SCRTUNE_FLUSH_THREADS", "bad-value", "from 0 to 16"),
        ({"SCR_FLUSH_WIDHT": 4}, "SCR_FLUSH_WIDHT", "unknown-name", "no such parameter"),
        (
            {"SCR_SET_FAILURES": 3, "SCR_SET_SIZE": 2},
            "SCR_SET_FAILURES",
            "failures-exceed-set",
            "SCR_Init aborts",
        ),
        ({"SCR_SET_SIZE": 1}, "SCR_SET_FAILURES", "failures-exceed-set", "SCR_Init aborts"),
        (
            {"SCR_FLUSH_POSTSTAGE": 1, "SCR_FLUSH_ASYNC": 1},
            "SCR_FLUSH_POSTSTAGE",
            "poststage-async",
            "crashes",
        ),
        ({"SCR_PREFIX": "/my dir"}, "SCR_PREFIX", "not-for-a-file", "cannot carry"),
        ({"SCR_PREFIX": "/a=b"}, "SCR_PREFIX", "not-for-a-file", "cannot carry"),
        ({"SCR_PREFIX": "/a\nSCR_FLUSH=0"}, "SCR_PREFIX", "not-for-a-file", "cannot carry"),
        ({"SCR_PREFIX": "/$HOME"}, "SCR_PREFIX", "not-for-a-file", "cannot carry"),
        ({"SCR_PREFIX": ""}, "SCR_PREFIX", "not-for-a-file", "empty"),
        ({"SCR_PREFIX": "/" * 1024}, "SCR_PREFIX", "not-for-a-file", "1023"),
        ({"SCR_PREFIX": "/a\0b"}, "SCR_PREFIX", "bad-value", "NUL"),
    ],
)
def test_errors_say_what_happens_in_scr(
    settings: Values, parameter: str, code: str, what_happens: str
) -> None:
    errors = unfit_for_file(settings) if code == "not-for-a-file" else fatal(settings)
    assert [(problem.parameter, problem.code) for problem in errors] == [(parameter, code)]
    assert what_happens in errors[0].what
    assert errors[0].remedy
    assert (code == "not-for-a-file") == (fatal(settings) == ())


@pytest.mark.parametrize(
    "settings",
    [
        {"SCR_FLUSH_ASYNC": 1},
        {"SCR_FLUSH_ASYNC": 1, "SCR_CACHE_BYPASS": 0},
        {"SCR_FLUSH_WIDTH": 4},
        {"SCR_COPY_TYPE": "FILE"},
        {"SCR_PREFIX_PURGE": 1},
        {"SCR_GROUP": '"NODE"', "SCR_CACHE_BYPASS": 0},
        {"SCR_PREFIX": "/run#3"},
    ],
)
def test_what_scrtune_check_only_warns_about_is_not_refused(settings: Values) -> None:
    assert fatal(settings) == unfit_for_file(settings) == ()


def test_the_levers_at_rest_are_fine() -> None:
    """A change of a lever is taken back by saying its value at rest, so that value must be accepted."""
    assert fatal({"SCRTUNE_FLUSH_THREADS": 0, "SCRTUNE_FLUSH_CPUS": ""}) == ()


def test_a_useful_configuration_is_fine() -> None:
    settings: Values = {
        "SCR_CACHE_BYPASS": 0,
        "SCR_FLUSH_ASYNC": 1,
        "SCR_FLUSH_TYPE": "PTHREAD",
        "SCR_CACHE_SIZE": 2,
        "SCR_FILE_BUF_SIZE": 4 * 1024**2,
        "SCR_COPY_TYPE": "SINGLE",
        "SCRTUNE_FLUSH_THREADS": 2,
        "SCRTUNE_FLUSH_CPUS": "1,3-5",
    }
    assert fatal(settings) == ()


@given(
    st.dictionaries(
        st.one_of(st.sampled_from(sorted(CATALOGUE)), st.text(max_size=8)),
        st.one_of(st.integers(), st.floats(), st.text(max_size=20)),
        max_size=8,
    )
)
def test_it_never_raises(values: Values) -> None:
    for problem in fatal(values) or unfit_for_file(values):
        assert problem.what
        assert problem.remedy
