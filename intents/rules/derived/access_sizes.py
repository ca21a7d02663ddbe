"""Intent 2: the buffers that the access sizes ask for, of the job and of each kind of output.

Both are levers: trials decide. This says what the rules would have, and why.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from ....units import bytes_text
from ..levers import MEMORY_SHARE, MIB, STEP_BYTES, file_buffer_bytes, in_steps
from ..parameter import DerivedParameter, Phase, Scope
from ..situation import Situation
from .table import FILE_BUF_SIZE, MPI_BUF_SIZE


def file_buffer(p90_bytes: int, memory_bytes: int, buffers: int) -> tuple[int, str]:
    """Return the bytes of a file buffer for accesses of `p90_bytes`, and the bound that changed it.

    All `buffers` of a node together take 5 % of its memory at most (0: not known).
    """
    wanted, size = in_steps(p90_bytes), file_buffer_bytes(p90_bytes)
    clipped = ""
    if size != wanted:
        bound = "at least a stripe" if size > wanted else "the study gained nothing beyond"
        clipped = f"{bytes_text(size)}: {bound}"
    most = int(MEMORY_SHARE * memory_bytes / max(1, buffers)) // STEP_BYTES * STEP_BYTES
    if memory_bytes > 0 and most < size:
        size = max(STEP_BYTES, most)
        clipped = f"{bytes_text(size)}: {MEMORY_SHARE:.0%} of the memory for {buffers} buffers"
    return size, clipped


def access_sizes(now: Situation) -> Iterator[DerivedParameter]:
    """Derive the file buffer, the one of each kind of output that needs another, and the message buffer."""
    buffers = now.intents.buffers
    if not buffers.top:
        return
    whole = _file_buffer(now, buffers.p90_bytes)
    yield whole
    kinds = now.intents.outputs.kinds
    for kind, sizes in kinds.items() if len(kinds) > 1 else ():
        each = _file_buffer(now, sizes.writes.p90_bytes)
        if sizes.writes.count and each.value != whole.value:
            rule = whole.rule.replace("all outputs", kind)
            yield replace(each, rule=rule, phase=Phase.START_OUTPUT, scope=Scope.OUTPUT_KIND)
    yield _message_buffer(now)


def _file_buffer(now: Situation, p90_bytes: int) -> DerivedParameter:
    size, clipped = file_buffer(p90_bytes, now.memory_bytes, now.copies_of_node)
    inputs = (f"p90 {bytes_text(p90_bytes)}", f"{now.copies_of_node} buffers on a node")
    return replace(FILE_BUF_SIZE, value=size, inputs=inputs, clipped=clipped)


def _message_buffer(now: Situation) -> DerivedParameter:
    scheme = now.scheme(now.settings)
    is_small = now.own_number("SCR_MPI_BUF_SIZE") < MIB
    why_not = "" if is_small else f"it has {bytes_text(now.own_number('SCR_MPI_BUF_SIZE'))} already"
    if not now.encodes(now.settings):
        why_not = f"nothing is encoded ({scheme if now.cached else 'past the cache'}): it is not used"
    inputs = (f"scheme {scheme}",)
    return replace(MPI_BUF_SIZE, value=None if why_not else MIB, why_not=why_not, inputs=inputs)
