"""The settings of SCR that a trace shows.

By the tier that is written, SCR's own files, and the threads and the accesses of a flush.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from ..intents.events import Operation, SpanKind, Tier, Values
from ..intents.rules.situation import MAX_FLUSH_THREADS
from ..intents.settings import DEFAULTS
from ..intents.trace.rows import Amount
from .study_rows import RunRow
from .table import AccessKey, JobThread, TraceTable

SCR_OWN = ".scr/"
"""How the classes of SCR's own files begin."""
_REDUNDANCY = re.compile(r"\.(xor|partner|rs)\b|redset|reddesc", re.IGNORECASE)
_SCHEMES = {".xor": "XOR", ".partner": "PARTNER", ".rs": "RS", ".single": "SINGLE"}
_REDUNDANT = 0.05
"""Of a checkpoint's bytes: with less in files that SCR adds there is no redundancy (XOR of 8: 0.14)."""
_AS_MUCH = 0.5
"""Of a checkpoint's bytes: who writes so much of it to a second tier flushes it there."""
_SHOWN = ("SCR_CACHE_BYPASS", "SCR_COPY_TYPE", "SCR_FLUSH", "SCR_FLUSH_ASYNC", "SCR_FLUSH_TYPE")
_BY_ABSENCE = (("SCR_COPY_TYPE", "SINGLE"), ("SCR_FLUSH", 0))

Writes: TypeAlias = Sequence[tuple[AccessKey, Amount]]


def application_writes(table: TraceTable) -> tuple[Writes, Writes]:
    """Return the writes to the application's own files in a tier: by threads that save, and by others.

    Where no thread says that it saves, all are of the first kind.
    """
    saving = {span.thread for span in table.spans if span.kind == SpanKind.SAVE}
    writes = _writes(table)
    mine = [each for each in writes if not saving or each[0].thread in saving]
    return mine, [each for each in writes if saving and each[0].thread not in saving]


def seen_settings(table: TraceTable, row: RunRow) -> Values:
    """Return what a resolved table shows of the settings: tier, scheme, kind, threads and buffer of a flush.

    `row` is the run's in a study.
    """
    mine, copies = application_writes(table)
    cached, direct = bytes_in(mine, Tier.CACHE), bytes_in(mine, Tier.PREFIX)
    if not cached:
        return {"SCR_CACHE_BYPASS": 1}
    seen: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 0}
    names = " ".join({key.file_class for key in table.accesses if key.tier == Tier.CACHE}).lower()
    schemes = [scheme for mark, scheme in _SCHEMES.items() if mark in names]
    if schemes or _added_bytes(table) < _REDUNDANT * cached:
        seen["SCR_COPY_TYPE"] = schemes[0] if schemes else "SINGLE"
    if row.flushes:
        buffers = Counter[int]()
        for key, amount in copies:
            buffers[key.size] += amount.bytes * (key.tier == Tier.PREFIX)
        every = max(1, round(row.checkpoints / row.flushes))
        seen |= {"SCR_FLUSH": every, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
        seen["SCRTUNE_FLUSH_THREADS"] = min(
            MAX_FLUSH_THREADS, _at_once([each for each in copies if each[0].tier == Tier.PREFIX])
        )
        seen["SCR_FILE_BUF_SIZE"] = 1 << max(0, max(buffers, key=lambda size: buffers[size]) - 1)
    elif direct > _AS_MUCH * cached:
        seen |= {"SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 0, "SCR_FLUSH_TYPE": "SYNC"}
    return seen


def certain(seen: Values) -> Values:
    """Return what of :func:`seen_settings` is SCR's, is not its default, and is there to be seen.

    Files that a trace lacks may not have been traced, and sizes of accesses are near that of a buffer only.
    """
    return {
        name: value
        for name, value in seen.items()
        if name in _SHOWN and (name, value) not in _BY_ABSENCE and value != DEFAULTS[name]
    }


def _writes(table: TraceTable) -> Writes:
    """Return the writes to the application's own files in a tier, not those that SCR adds."""
    return [
        (key, amount)
        for key, amount in table.accesses.items()
        if key.operation == Operation.WRITE
        and key.tier in {Tier.CACHE, Tier.PREFIX}
        and amount.bytes
        and _is_of_application(key)
    ]


def _is_of_application(key: AccessKey) -> bool:
    return not key.file_class.startswith(SCR_OWN) and not _REDUNDANCY.search(key.file_class)


def bytes_in(writes: Writes, tier: Tier) -> int:
    """Return the bytes of `writes` in `tier`."""
    return sum(amount.bytes for key, amount in writes if key.tier == tier)


def _added_bytes(table: TraceTable) -> int:
    """Return what is written to the cache in files that SCR adds to those of the application."""
    return sum(
        amount.bytes
        for key, amount in table.accesses.items()
        if key.tier == Tier.CACHE and key.operation == Operation.WRITE and not _is_of_application(key)
    )


def _at_once(copies: Writes) -> int:
    """Return the most threads of one process that copy at a time, each from its first copy to its last."""
    times: dict[JobThread, tuple[int, int]] = {}
    for key, amount in copies:
        start_ns, end_ns = times.get(key.thread, (amount.start_ns, amount.end_ns))
        times[key.thread] = min(start_ns, amount.start_ns), max(end_ns, amount.end_ns)
    most, busy = 1, Counter[tuple[str, int]]()
    ends = ((end_ns, -1, thread) for thread, (_, end_ns) in times.items())
    for _, change, thread in sorted(
        [*ends, *((start_ns, 1, thread) for thread, (start_ns, _) in times.items())]
    ):
        busy[thread[:2]] += change
        most = max(most, busy[thread[:2]])
    return most
