"""Intent 1: what the cores that the application leaves idle say of its flushes.

The parameters are levers: trials decide. This says what the rules would have, and why.
"""

from collections.abc import Iterator

from ....units import count_text
from ...mutability import Mutability
from ..levers import AXL_SOURCE, STUDY, cpu_list
from ..parameter import DerivedParameter, Phase, Scope
from ..situation import MAX_FLUSH_THREADS, Situation

INTENT = "core affinity"
MOST_LOAD = 0.7
"""Flush seconds per second between checkpoints, beyond which the next one may have to wait for a flush."""


def flush_threads(files: int, idle_cores_of_rank: float) -> tuple[int, str]:
    """Return how many threads a rank's flush can use, and the bound that holds: one file is never split."""
    bounds = {
        "the rank has no more files": files,
        "the rank has no more idle cores": int(idle_cores_of_rank),
        "AXL starts no more": MAX_FLUSH_THREADS,
    }
    clipped = min(bounds, key=bounds.__getitem__)
    return max(1, bounds[clipped]), clipped


def process_cores(now: Situation) -> Iterator[DerivedParameter]:
    """Derive the mask and the number of the flush threads, and whether they run beside the computation."""
    affinity, flush = now.intents.affinity, now.intents.flush
    if not affinity.cpus:
        return
    idle = f"{affinity.idle_cores} of {affinity.cores} cores in no mask"
    spare = f"{affinity.spare_cores:.2f} cores not used"
    has_idle = affinity.bound and affinity.unbound
    yield DerivedParameter(
        intent=INTENT,
        name="SCRTUNE_FLUSH_CPUS",
        value=cpu_list(affinity.unbound) if has_idle else None,
        why_not="" if has_idle else "the ranks are not bound" if not affinity.bound else "no core is idle",
        scope=Scope.NODE,
        change=Mutability.LIVE,
        rule="flush threads run on all CPUs of the cores that no rank is bound to",
        inputs=(idle,),
        source=f"{STUDY}: 41.4 s bound, 23.0 s unbound",
    )
    threads, clipped = flush_threads(now.files_per_rank, affinity.spare_cores / now.ranks_per_node)
    yield DerivedParameter(
        intent=INTENT,
        name="SCRTUNE_FLUSH_THREADS",
        value=threads,
        scope=Scope.NODE,
        change=Mutability.LIVE,
        rule="as many threads as a rank has files and idle cores (a core is one, whatever its hyperthreads)",
        inputs=(
            spare,
            f"{count_text(now.ranks_per_node, 'rank')} on a node",
            f"{count_text(now.files_per_rank, 'file')} of a rank",
        ),
        clipped=clipped,
        source=f"{AXL_SOURCE}; {STUDY}",
    )
    why_not = _why_not_beside(affinity.spare_cores, flush.load)
    yield DerivedParameter(
        intent=INTENT,
        name="SCR_FLUSH_ASYNC",
        value=None if why_not else 1,
        why_not=why_not,
        phase=Phase.START_OUTPUT,
        change=Mutability.LIVE,
        rule=f"beside the computation, if a core is idle and flushes take below {MOST_LOAD:.0%} of the time",
        inputs=(spare, "load not known yet" if flush.load is None else f"load {flush.load:.0%}"),
        source=f"derived; {STUDY}",
    )


def _why_not_beside(spare_cores: float, load: float | None) -> str:
    """Return why a flush should not run beside the computation; empty where it should."""
    if spare_cores < 1:
        return "no core is idle: a flush beside the computation would take its time; compare with the bypass"
    if load is not None and load >= MOST_LOAD:
        return f"flushes take {load:.0%} of the time between checkpoints; compare with the bypass"
    return ""
