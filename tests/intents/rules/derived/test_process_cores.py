"""Intent 1: the flush threads' mask and number, and whether a flush runs beside the computation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.observe.affinity import CoreAffinity
from scrtune.intents.observe.faults.redundancy import Redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.derived.process_cores import flush_threads, process_cores
from scrtune.intents.rules.levers import LEVERS, domain
from scrtune.intents.rules.parameter import DerivedParameter
from scrtune.intents.rules.situation import Situation


def situation(files: int = 90, **affinity: Any) -> Situation:
    cores = {"cpus": tuple(range(8)), "cores": 8, "processes": 2, "spare_cores": 6.0, **affinity}
    flush = {"files": files, "flush_s": 1.0, "interval_s": 10.0, **affinity.pop("flush", {})}
    cores.pop("flush", None)
    return Situation(
        intents=Intents(
            affinity=CoreAffinity(**cores), flush=FlushBehaviour(**flush), redundancy=Redundancy(ranks=2)
        )
    )


def derived(now: Situation) -> dict[str, DerivedParameter]:
    return {each.name: each for each in process_cores(now)}


@pytest.mark.parametrize(
    ("files", "idle", "threads", "clipped"),
    [
        (45, 3.0, 3, "the rank has no more idle cores"),
        (45, 2.99, 2, "the rank has no more idle cores"),
        (45, 0.0, 1, "the rank has no more idle cores"),
        (2, 8.0, 2, "the rank has no more files"),
        (45, 64.0, 16, "AXL starts no more"),
        (0, 4.0, 1, "the rank has no more files"),
    ],
)
def test_as_many_threads_as_files_and_idle_cores(files: int, idle: float, threads: int, clipped: str) -> None:
    assert flush_threads(files, idle) == (threads, clipped)


@given(st.integers(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_more_idle_cores_never_mean_fewer_threads(files: int, idle: float, more: float) -> None:
    assert flush_threads(files, idle)[0] <= flush_threads(files, idle + more)[0]


@given(st.floats(0, 64), st.floats(0, 64))
def test_nor_in_the_lever(idle: float, more: float) -> None:
    lever = next(each for each in LEVERS if each.name == "SCRTUNE_FLUSH_THREADS")
    few, many = situation(spare_cores=idle), situation(spare_cores=idle + more)
    assert max(map(int, domain(lever, few))) <= max(map(int, domain(lever, many)))


@pytest.mark.parametrize(
    ("affinity", "value", "why_not"),
    [
        ({"bound": True, "unbound": (2, 3, 6, 7), "idle_cores": 2}, "2-3,6-7", ""),
        ({"bound": True, "unbound": ()}, None, "no core is idle"),
        ({"bound": False, "unbound": ()}, None, "the ranks are not bound"),
    ],
)
def test_the_mask_of_flush_threads(affinity: dict[str, Any], value: str | None, why_not: str) -> None:
    parameter = derived(situation(**affinity))["SCRTUNE_FLUSH_CPUS"]
    assert (parameter.value, parameter.why_not) == (value, why_not)


@pytest.mark.parametrize(
    ("spare_cores", "value", "why_not"),
    [(2.0, None, "each rank has an idle core for its flush"), (1.99, 19, ""), (0.0, 19, "")],
)
def test_the_priority_of_flush_threads(spare_cores: float, value: int | None, why_not: str) -> None:
    parameter = derived(situation(spare_cores=spare_cores))["SCRTUNE_FLUSH_NICE"]
    assert (parameter.value, parameter.why_not) == (value, why_not)


@pytest.mark.parametrize(
    ("affinity", "value", "why_not"),
    [
        ({}, 1, ""),
        ({"spare_cores": 1.0}, 1, ""),
        ({"spare_cores": 0.99}, None, "no core is idle"),
        ({"flush": {"flush_s": 6.9}}, 1, ""),
        ({"flush": {"flush_s": 7.0}}, None, "flushes take 70% of the time between checkpoints"),
        ({"flush": {"interval_s": 0.0}}, 1, ""),
    ],
)
def test_a_flush_runs_beside_the_computation_where_it_has_a_core_and_time(
    affinity: dict[str, Any], value: int | None, why_not: str
) -> None:
    parameter = derived(situation(**affinity))["SCR_FLUSH_ASYNC"]
    assert (parameter.value, parameter.why_not.startswith(why_not)) == (value, True)


def test_of_a_node_that_was_not_seen_nothing_is_derived() -> None:
    assert derived(Situation(intents=Intents())) == {}
