"""Intent 1: what the cores that the application leaves idle say of its flushes.

The parameters are levers: trials decide. This says what the rules would have, and why.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from ....units import count_text
from ...cpu_list import cpu_list
from ..levers import LEAST_PRIORITY, has_core_for_each_flush
from ..parameter import DerivedParameter
from ..situation import MAX_FLUSH_THREADS, Situation
from .table import FLUSH_ASYNC, FLUSH_CPUS, FLUSH_NICE, FLUSH_THREADS, MOST_LOAD


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
    """Derive mask, number and priority of the flush threads, and whether they run beside the computation."""
    affinity, flush = now.intents.affinity, now.intents.flush
    if not affinity.cpus:
        return
    idle = f"{affinity.idle_cores} of {affinity.cores} cores in no mask"
    spare = f"{affinity.spare_cores:.2f} cores not used"
    has_idle = affinity.bound and affinity.unbound
    yield replace(
        FLUSH_CPUS,
        value=cpu_list(affinity.unbound) if has_idle else None,
        why_not="" if has_idle else "the ranks are not bound" if not affinity.bound else "no core is idle",
        inputs=(idle,),
    )
    threads, clipped = flush_threads(now.files_per_rank, affinity.spare_cores / now.ranks_per_node)
    yield replace(
        FLUSH_THREADS,
        value=threads,
        inputs=(
            spare,
            f"{count_text(now.ranks_per_node, 'rank')} on a node",
            f"{count_text(now.files_per_rank, 'file')} of a rank",
        ),
        clipped=clipped,
    )
    has_core = has_core_for_each_flush(now)
    yield replace(
        FLUSH_NICE,
        value=None if has_core else LEAST_PRIORITY,
        why_not="each rank has an idle core for its flush" if has_core else "",
        inputs=(spare, count_text(now.ranks_per_node, "rank") + " on a node"),
    )
    why_not = _why_not_beside(affinity.spare_cores, flush.load)
    load = "load not known yet" if flush.load is None else f"load {flush.load:.0%}"
    yield replace(FLUSH_ASYNC, value=None if why_not else 1, why_not=why_not, inputs=(spare, load))


def _why_not_beside(spare_cores: float, load: float | None) -> str:
    """Return why a flush should not run beside the computation; empty where it should."""
    if spare_cores < 1:
        return "no core is idle: a flush beside the computation would take its time; compare with the bypass"
    if load is not None and load >= MOST_LOAD:
        return f"flushes take {load:.0%} of the time between checkpoints; compare with the bypass"
    return ""
