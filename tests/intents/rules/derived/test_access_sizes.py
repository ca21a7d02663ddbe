"""Intent 2: buffers for the access sizes of the job and of each kind of output."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import NodeObserved
from scrtune.intents.observe.faults.redundancy import Redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.buffers import BufferSizes
from scrtune.intents.observe.io.output_sizes import CHECKPOINTS, PURE_OUTPUTS, KindSizes, OutputSizes
from scrtune.intents.observe.io.sizes import Sizes, SizeShare
from scrtune.intents.rules.derived.access_sizes import access_sizes, file_buffer
from scrtune.intents.rules.parameter import DerivedParameter, Phase, Scope
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TOP = (SizeShare(size_bytes=1, count=1, share=1.0),)


@pytest.mark.parametrize(
    ("p90_bytes", "memory_bytes", "buffers", "size", "clipped"),
    [
        (4 * MIB, 0, 16, 4 * MIB, ""),
        (4 * MIB + 1, 0, 16, 4 * MIB + 64 * KIB, ""),
        (MIB, 0, 1, MIB, ""),
        (MIB - 64 * KIB, 0, 1, MIB, "1 MiB: at least a stripe"),
        (0, 0, 1, MIB, "1 MiB: at least a stripe"),
        (32 * MIB, 0, 1, 32 * MIB, ""),
        (2 * GIB, 0, 1, 32 * MIB, "32 MiB: the study gained nothing beyond"),
        (32 * MIB, GIB, 16, 3264 * KIB, "3.19 MiB: 5% of the memory for 16 buffers"),
        (32 * MIB, MIB, 16, 64 * KIB, "64 KiB: 5% of the memory for 16 buffers"),
    ],
)
def test_a_file_buffer_and_its_bound(
    p90_bytes: int, memory_bytes: int, buffers: int, size: int, clipped: str
) -> None:
    assert file_buffer(p90_bytes, memory_bytes, buffers) == (size, clipped)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 4096))
def test_larger_writes_and_more_memory_never_mean_a_smaller_buffer(
    p90_bytes: int, more_bytes: int, memory_bytes: int, buffers: int
) -> None:
    size, _ = file_buffer(p90_bytes, memory_bytes, buffers)
    assert size <= file_buffer(p90_bytes + more_bytes, memory_bytes, buffers)[0]
    if memory_bytes:
        assert size <= file_buffer(p90_bytes, memory_bytes + more_bytes, buffers)[0]
    assert size % (64 * KIB) == 0


def situation(kinds: dict[str, KindSizes] | None = None, **settings: Any) -> Situation:
    values = {**DEFAULTS, **settings}
    return Situation(
        intents=Intents(
            buffers=BufferSizes(top=TOP, p90_bytes=4 * MIB),
            outputs=OutputSizes(kinds=kinds or {}),
            redundancy=Redundancy(nodes=4),
        ),
        node=NodeObserved(host="n", cpus=(0,), memory_available_bytes=64 * GIB),
        own=values,
        settings=values,
    )


def kind(p90_bytes: int, count: int = 1) -> KindSizes:
    return KindSizes(outputs=1, files=1, bytes=1, writes=Sizes(count=count, p90_bytes=p90_bytes))


def derived(now: Situation, name: str) -> list[DerivedParameter]:
    return [each for each in access_sizes(now) if each.name == name]


def test_a_kind_of_output_with_other_sizes_has_a_buffer_of_its_own() -> None:
    both = {CHECKPOINTS: kind(4 * MIB), PURE_OUTPUTS: kind(16 * MIB)}
    whole, pure = derived(situation(both), "SCR_FILE_BUF_SIZE")
    assert (whole.value, whole.scope, whole.phase) == (4 * MIB, Scope.JOB, Phase.INIT)
    assert (pure.value, pure.scope, pure.phase) == (16 * MIB, Scope.OUTPUT_KIND, Phase.START_OUTPUT)
    assert "pure outputs" in pure.rule


@pytest.mark.parametrize(
    "kinds",
    [
        {CHECKPOINTS: kind(16 * MIB)},
        {CHECKPOINTS: kind(4 * MIB), PURE_OUTPUTS: kind(4 * MIB)},
        {CHECKPOINTS: kind(4 * MIB), PURE_OUTPUTS: kind(0, count=0)},
    ],
)
def test_else_there_is_one_for_all(kinds: dict[str, KindSizes]) -> None:
    assert len(derived(situation(kinds), "SCR_FILE_BUF_SIZE")) == 1


@pytest.mark.parametrize(
    ("settings", "value", "why_not"),
    [
        ({"SCR_CACHE_BYPASS": 0, "SCR_MPI_BUF_SIZE": 4096}, MIB, ""),
        ({"SCR_CACHE_BYPASS": 0, "SCR_MPI_BUF_SIZE": MIB}, None, "it has 1 MiB already"),
        ({"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE"}, None, "nothing is encoded (SINGLE)"),
        ({"SCR_CACHE_BYPASS": 1, "SCR_MPI_BUF_SIZE": 4096}, None, "nothing is encoded (past the cache)"),
    ],
)
def test_the_message_buffer_matters_where_something_is_encoded(
    settings: dict[str, Any], value: int | None, why_not: str
) -> None:
    (parameter,) = derived(situation(**settings), "SCR_MPI_BUF_SIZE")
    assert (parameter.value, parameter.why_not.startswith(why_not)) == (value, True)


def test_without_a_trace_nothing_is_derived() -> None:
    assert [*access_sizes(Situation(intents=Intents()))] == []
