"""Intent 1: cores, hyperthreads, masks of processes and threads, and the cgroup's limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import NodeObserved, ProcessUse
from scrtune.intents.observe.affinity import AffinityObserver, CoreAffinity

PAIRS = tuple((cpu, cpu + 4) for cpu in range(4))
"""Four cores of two hyperthreads each: CPUs 0 to 7."""


def observed(cpus: int, *uses: ProcessUse, **fields: Any) -> CoreAffinity:
    observer = AffinityObserver()
    observer.add(NodeObserved(host="n", cpus=tuple(range(cpus)), processes=uses, **fields), 10.0)
    return observer.found


def bound_to(*cpus: int, used: float = 1.0, threads: tuple[int, ...] = ()) -> ProcessUse:
    return ProcessUse(pid=cpus[0], cpus=cpus, cores_used=used, thread_cpus=threads)


@pytest.mark.parametrize(
    ("uses", "fields", "unbound", "idle_cores", "spare_cores"),
    [
        # eight cores, two in use
        ([bound_to(0), bound_to(1)], {}, (2, 3, 4, 5, 6, 7), 6, 6.0),
        # the same CPUs are four cores: two are left, with both their hyperthreads
        ([bound_to(0), bound_to(1)], {"siblings": PAIRS}, (2, 3, 6, 7), 2, 2.0),
        # both hyperthreads of one core leave three
        ([bound_to(0, 4, used=2.0)], {"siblings": PAIRS}, (1, 2, 3, 5, 6, 7), 3, 2.0),
        # a rank on each core leaves none, although four CPUs are in no mask
        ([bound_to(cpu) for cpu in range(4)], {"siblings": PAIRS}, (), 0, 0.0),
        # the process is bound to one, its threads to others
        ([bound_to(0, used=3.0, threads=(1, 2))], {}, (3, 4, 5, 6, 7), 5, 5.0),
        # the cgroup lets it use three at once
        ([bound_to(0), bound_to(1)], {"core_limit": 3.0}, (2, 3, 4, 5, 6, 7), 6, 1.0),
        # a limit beyond what there is says nothing
        ([bound_to(0)], {"core_limit": 64.0}, (1, 2, 3, 4, 5, 6, 7), 7, 7.0),
        # more in use than there is
        ([bound_to(*range(8), used=9.0)], {}, (), 0, 0.0),
    ],
)
def test_idle_and_spare_cores(
    uses: list[ProcessUse],
    fields: dict[str, Any],
    unbound: tuple[int, ...],
    idle_cores: int,
    spare_cores: float,
) -> None:
    seen = observed(8, *uses, **fields)
    assert (seen.unbound, seen.idle_cores, seen.spare_cores) == (unbound, idle_cores, spare_cores)


def test_ranks_that_wait_in_outputs_want_their_cores_between_them() -> None:
    """The measured use has the time in outputs, too, and that of cores that a flush took away."""
    seen = observed(8, bound_to(0, used=0.5), bound_to(1, used=0.6)).wanted(0.9)
    assert (seen.used_cores, seen.spare_cores) == (pytest.approx(1.8), pytest.approx(6.2))
    assert "rank 0 wants a core 90% of the time between outputs" in seen.sentence()
    threaded = observed(8, bound_to(0, used=3.0)).wanted(0.9)
    assert (threaded.used_cores, threaded.spare_cores) == (3.0, 5.0), "it has other threads"
    assert observed(8, bound_to(0, used=0.5)).wanted(0.0) == observed(8, bound_to(0, used=0.5))


def test_masks_are_counted_in_cores_too() -> None:
    seen = observed(8, bound_to(0, 4), bound_to(1, 2, 3), siblings=PAIRS)
    assert (seen.cores, seen.mask_cores, seen.bound) == (4, 1, True)


def test_the_sentence_says_what_the_machine_is() -> None:
    fields = {"siblings": PAIRS, "numa": ((0, 1, 4, 5), (2, 3, 6, 7)), "core_limit": 2.5}
    assert observed(8, bound_to(0), **fields).sentence() == (
        "4 cores, 8 hyperthreads, 2 NUMA nodes, of which the cgroup allows 2.5; 1.00 used by 1 application"
        " process (bound, 3 cores in no mask); 1.50 spare"
    )
    assert observed(2, bound_to(0, 1)).sentence().startswith("2 cores; 1.00 used")


MASKS = st.lists(st.sets(st.integers(0, 15), min_size=1), min_size=1, max_size=6)


@given(MASKS, st.integers(1, 8), st.floats(0, 20))
def test_hyperthreads_never_count_as_more_cores(masks: list[set[int]], threads: int, used: float) -> None:
    """Of the same CPUs, more of them hyperthreads of one core: never more cores, idle or spare."""
    uses = [bound_to(*sorted(mask), used=used / len(masks)) for mask in masks]
    siblings = tuple(tuple(range(first, min(16, first + threads))) for first in range(0, 16, threads))
    alone, together = observed(16, *uses), observed(16, *uses, siblings=siblings)
    assert together.cores <= alone.cores
    assert together.idle_cores <= alone.idle_cores
    assert together.spare_cores <= alone.spare_cores
    assert set(together.unbound) <= set(alone.unbound)
    assert together.idle_cores <= together.cores - together.mask_cores
