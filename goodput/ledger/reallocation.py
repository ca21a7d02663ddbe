"""Reallocation between buckets of what no event claims: estimates over many steps and checkpoints."""

from collections.abc import Mapping

from .. import buckets
from ..buckets import FLUSH_SLOWDOWN, PRODUCTIVE, STEP_SLOWDOWN, TUNING, Codes

CHARGED = (FLUSH_SLOWDOWN, TUNING)
"""What is charged: estimates over many checkpoints."""

_RAISED_BY_TRIALS = (
    buckets.CHECKPOINT_WAIT,
    buckets.CHECKPOINT_WRITE,
    buckets.CHECKPOINT_ENCODE,
    buckets.CHECKPOINT_FLUSH,
    buckets.CHECKPOINT_OTHER,
    FLUSH_SLOWDOWN,
)
"""The buckets that a trial makes larger."""


def reallocate_charges(
    row: list[int], whole: list[int], charges_ns: Mapping[str, int], codes: Codes
) -> list[int]:
    """Return `row` with its share of what was charged to the `whole` job in the buckets of the charges."""
    made, job = list(row), list(whole)
    _reallocate(made, job, codes[FLUSH_SLOWDOWN], [codes[PRODUCTIVE]], charges_ns[FLUSH_SLOWDOWN])
    _reallocate(made, job, codes[TUNING], [codes[bucket] for bucket in _RAISED_BY_TRIALS], charges_ns[TUNING])
    return made


def reallocate_slowdown(row: list[int], reference_ns: int, codes: Codes) -> list[int]:
    """Return `row` with what its steps, which should have taken `reference_ns`, took beyond that apart."""
    made, productive = list(row), codes[PRODUCTIVE]
    _reallocate(made, list(row), codes[STEP_SLOWDOWN], [productive], row[productive] - reference_ns)
    return made


def _reallocate(row: list[int], whole: list[int], bucket: int, sources: list[int], wanted_ns: int) -> None:
    """Move `wanted_ns` of the whole from `sources` to `bucket`, as far as they go, and of `row` its share."""
    there_ns = sum(whole[source] for source in sources)
    reallocated_ns = min(max(0, wanted_ns), there_ns)
    for source in sources:
        if part_ns := reallocated_ns * whole[source] // there_ns if there_ns else 0:
            share_ns = part_ns * row[source] // whole[source]
            row[bucket] += share_ns
            row[source] -= share_ns
            whole[bucket] += part_ns
            whole[source] -= part_ns
