"""The meaning of DFTracer's event names: the operation, its bytes, and what a span does with a checkpoint."""

from enum import IntEnum
from typing import NamedTuple

from ..events import Operation, SpanKind
from .digest import MOVES_DATA
from .lines import MAX_BYTES, MAX_COUNT, MAX_TIME, Arguments, integer

IO_CATEGORIES = ("POSIX", "STDIO")

# sendfile's record names the file that is written to
_CALLS = {
    Operation.READ: "read readv pread pread64 preadv preadv2 preadv64 preadv64v2 fread fread_unlocked",
    Operation.WRITE: "write writev pwrite pwrite64 pwritev pwritev2 pwritev64 pwritev64v2 fwrite"
    " fwrite_unlocked sendfile sendfile64 copy_file_range",
    Operation.SYNC: "fsync fdatasync msync sync syncfs sync_file_range fflush",
    None: "fork vfork clone wait waitpid wait3 wait4 waitid execv execve execvp execvpe execl execlp execle",
}
OPERATION_OF = {call: op for op, calls in _CALLS.items() for call in calls.split()}
"""Call -> operation; None for calls on no file. Every other call is about a file's metadata."""

_ITEM_CALLS = frozenset(("fread", "fwrite", "fread_unlocked", "fwrite_unlocked"))
"""Their result counts items of `size` bytes."""

_CHECKPOINT_CATEGORIES = ("checkpoint", "ck")
_CHECKPOINT_PREFIXES = ("checkpoint.", "ckpt.")
CHECKPOINT_CALLS = ("save_checkpoint", "load_checkpoint")
"""Each is a whole checkpoint; other calls of the category may be a part of one."""
_LOADS = ("load", "restart", "restore", "resume", "recover", "read")
_NEITHER = ("__init__", "init", "finalize", "get_tensor")
"""How calls of the category begin that load a checkpoint, and that do neither (DLIO's and pydftracer's)."""


def span_kind(category: str, name: str) -> SpanKind | None:
    """Return whether a span saves or loads a checkpoint; None for all others.

    Of the checkpoint category what is not known by its name is taken to save.
    """
    lower = name.lower()
    call = lower.rpartition(".")[2]
    if not (
        category.lower() in _CHECKPOINT_CATEGORIES
        or lower.startswith(_CHECKPOINT_PREFIXES)
        or call in CHECKPOINT_CALLS
    ) or call.startswith(_NEITHER):
        return None
    return SpanKind.LOAD if call.startswith(_LOADS) else SpanKind.SAVE


class Handling(IntEnum):
    """What a scanner does with the lines of one name."""

    LEAVE = 1
    """They go to the decoder, one by one."""
    COUNT = 2
    ACCESS = 3
    EXPLAIN_FILE = 4


class SizeRule(IntEnum):
    """Where the bytes of an access come from."""

    NONE = 0
    RESULT = 1
    ITEMS = 2
    """The result times the size of an item."""


class Treatment(NamedTuple):
    """All that a scanner must know of a name. `operation` is that of an access."""

    handling: Handling
    operation: Operation = Operation.METADATA
    size: SizeRule = SizeRule.NONE


def treatment_of(category: str, name: str, *, is_metadata: bool) -> Treatment:
    """Return what to do with the complete events, or the metadata lines, of a name."""
    if is_metadata:
        if name == "FH":
            return Treatment(Handling.EXPLAIN_FILE)
        return Treatment(Handling.LEAVE if name in {"HH", "CM"} else Handling.COUNT)
    if category not in IO_CATEGORIES:
        return Treatment(Handling.LEAVE if span_kind(category, name) else Handling.COUNT)
    operation = OPERATION_OF.get(name, Operation.METADATA)
    if operation is None:
        return Treatment(Handling.COUNT)
    if operation not in MOVES_DATA:
        return Treatment(Handling.ACCESS, operation)
    return Treatment(Handling.ACCESS, operation, SizeRule.ITEMS if name in _ITEM_CALLS else SizeRule.RESULT)


def size_of(call: str, args: Arguments) -> int | None:
    """Return the bytes that a read or write moved, from its result; None when it failed or has none."""
    result = args.ret
    if result is None or result < 0:
        return None
    if call not in _ITEM_CALLS:
        return result
    item = _item_bytes(args)
    return None if item is None else min(result * item, MAX_BYTES)


def summed(call: str, op: Operation, args: Arguments, unit_ns: int) -> tuple[int, int | None, int, int]:
    """Return (nanoseconds, size, count, bytes) of the accesses of one aggregated line.

    ``dft_cnt`` comes out too small for some calls (seen for open64), so the sums bound it from below. A size
    is known only when all were equal.
    """
    duration = args.dur_sum if args.dur_sum is not None else integer(args.dur, 0, MAX_TIME) or 0
    total = args.ret_sum if args.ret_sum is not None else args.ret
    smallest, largest = (args.ret, args.ret) if args.ret_sum is None else (args.ret_min, args.ret_max)
    count = max(
        1, args.dft_cnt or 0, _at_least(args.dur_sum, args.dur_max), _at_least(args.ret_sum, args.ret_max)
    )
    count = min(count, MAX_COUNT)
    item = _item_bytes(args) if call in _ITEM_CALLS else 1
    if op not in MOVES_DATA or total is None or item is None:
        return (duration * unit_ns, None, count, 0)
    equal = smallest is not None and smallest >= 0 and smallest == largest and smallest * count == total
    size = smallest * item if equal and smallest is not None else None
    return (duration * unit_ns, size, count, max(0, total) * item)


def _at_least(total: int | None, largest: int | None) -> int:
    """Return the least number of values, none above `largest`, that make `total`."""
    return -(-total // largest) if total and largest and total > 0 and largest > 0 else 0


def _item_bytes(args: Arguments) -> int | None:
    """Return the bytes of one item of fread or fwrite; None when an aggregated line mixes several."""
    if args.size_min is not None or args.size_max is not None:
        return args.size_min if args.size_min == args.size_max else None
    return 1 if args.size is None else integer(args.size, 0, MAX_BYTES)
