"""Linux's list form of a set of CPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.cpu_list import LARGEST_CPU, cpu_list, cpus_of


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((9, 7, 8), "7-9"), ((1, 3, 5, 6), "1,3,5-6")],
)
def test_cpus_are_listed_as_linux_does(cpus: tuple[int, ...], text: str) -> None:
    assert cpu_list(cpus) == text


@given(st.frozensets(st.integers(0, LARGEST_CPU)))
def test_a_list_is_read_as_it_was_written(cpus: frozenset[int]) -> None:
    assert cpus_of(cpu_list(cpus)) == cpus


@pytest.mark.parametrize("text", ["a", "1,", "1-", "0-99999999", "3-1", "0-8192", "-1"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cpu list"):
        cpus_of(text)
