"""What nothing claims, for it is estimated over many steps and checkpoints: moved out of other buckets."""

from collections.abc import Mapping

from .. import buckets
from ..buckets import FLUSH_SLOWDOWN, PRODUCTIVE, STEP_SLOWDOWN, TUNING, Codes

CHARGED = (FLUSH_SLOWDOWN, TUNING)
"""What is charged: estimates over many checkpoints."""

_MADE_DEARER = (
    buckets.CHECKPOINT_WAIT,
    buckets.CHECKPOINT_WRITE,
    buckets.CHECKPOINT_ENCODE,
    buckets.CHECKPOINT_FLUSH,
    buckets.CHECKPOINT_OTHER,
    FLUSH_SLOWDOWN,
)
"""Where what a trial cost was felt."""


def charged(row: list[int], whole: list[int], charges_ns: Mapping[str, int], codes: Codes) -> list[int]:
    """Move what was charged to the `whole` job between the buckets of `row`, by its share of them."""
    made, job = list(row), list(whole)
    _move(made, job, codes[FLUSH_SLOWDOWN], [codes[PRODUCTIVE]], charges_ns[FLUSH_SLOWDOWN])
    _move(made, job, codes[TUNING], [codes[bucket] for bucket in _MADE_DEARER], charges_ns[TUNING])
    return made


def slowed(row: list[int], whole: list[int], reference_ns: int, codes: Codes) -> list[int]:
    """Move what the steps in `row`, which is all or a part of the `whole` job, took beyond the reference.

    All steps that the job made should have taken `reference_ns`; those in `row`, their share of it.
    """
    steps, productive = codes[buckets.STEPS_MADE], codes[PRODUCTIVE]
    if row[steps] < whole[steps]:
        reference_ns = reference_ns * max(0, row[steps]) // whole[steps]
    made = list(row)
    _move(made, list(row), codes[STEP_SLOWDOWN], [productive], row[productive] - reference_ns)
    return made


def _move(row: list[int], whole: list[int], bucket: int, sources: list[int], wanted_ns: int) -> None:
    """Move `wanted_ns` of the whole from `sources` to `bucket`, as far as they go, and of `row` its share."""
    there_ns = sum(whole[source] for source in sources)
    moved_ns = min(max(0, wanted_ns), there_ns)
    for source in sources:
        if part_ns := moved_ns * whole[source] // there_ns if there_ns else 0:
            share_ns = part_ns * row[source] // whole[source]
            row[bucket] += share_ns
            row[source] -= share_ns
            whole[bucket] += part_ns
            whole[source] -= part_ns
