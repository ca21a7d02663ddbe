"""What may never be traded for speed: how durable a checkpoint is, and when.

The user declares it (``--durability``, ``--redundancy-floor``); else what they set explicitly is the floor:
their scheme in the cache, how often they flush, or the prefix directory if they bypass the cache. Where
scheme and bypass are SCR's own defaults, a checkpoint has to be in the prefix directory before the next
output begins.
"""

import msgspec

from ..events import Durability, SettingsObserved, Values, ValueSource
from ..observe.faults.redundancy import declared_floor, keeps_floor
from ..settings import is_asynchronous, is_cached, number

NEVER = 2**31 - 1
"""More checkpoints than a job takes: with SCR_FLUSH of 0 or less none is flushed (scr.c:426)."""


class Rails(msgspec.Struct, frozen=True, kw_only=True):
    """The least durable that a checkpoint may be: `floor` is a scheme, SCR_FLUSH is at most `flush_every`.

    Without a `durability` a checkpoint may stay in the cache until its flush has ended, however long that
    takes.
    """

    durability: Durability | None = Durability.NEXT
    floor: str = "SINGLE"
    flush_every: int = 1
    because: str = "scheme and bypass are SCR's own defaults"


def rails(job: SettingsObserved | None, own: Values) -> Rails:
    """Return what `job` declared, or what follows from the settings that its user gave."""
    if job is None:
        return Rails()
    declared = declared_floor(job)
    if job.durability in set(Durability):
        return Rails(
            durability=Durability(job.durability),
            floor=declared or "SINGLE",
            because=f"--durability {job.durability}",
        )
    is_bypass = not is_cached(own)
    if is_bypass and job.is_given("SCR_CACHE_BYPASS"):
        is_unsafe = job.sources["SCR_CACHE_BYPASS"] == ValueSource.UNSAFE_CACHE
        because = "the cache directory is not yours alone" if is_unsafe else "you set SCR_CACHE_BYPASS=1"
        return Rails(durability=Durability.STRICT, floor=declared or "SINGLE", because=because)
    if not declared and not job.is_given("SCR_CACHE_BYPASS") and not job.is_given("SCR_COPY_TYPE"):
        return Rails()
    every = _flushed_every(own)
    if is_bypass and every == NEVER:  # which moves each checkpoint all the same, for none is in the cache
        every = 1
    scheme = declared or str(own["SCR_COPY_TYPE"])
    what = "the declared redundancy floor" if declared else "your SCR_COPY_TYPE"
    because = f"{what} {scheme}, SCR_FLUSH={own['SCR_FLUSH']}"
    return Rails(durability=None, floor=scheme, flush_every=every, because=because)


def _flushed_every(settings: Values) -> int:
    every = number(settings, "SCR_FLUSH")
    return every if every > 0 else NEVER


def permits(asked: Rails, after: Values) -> bool:
    """Return whether `after` is as durable as `asked`; the prefix directory survives everything."""
    if not is_cached(after):
        return True
    if _flushed_every(after) > asked.flush_every:
        return False
    if is_asynchronous(after) and not _is_soon_enough(asked, after):
        return False
    return keeps_floor(str(after["SCR_COPY_TYPE"]), asked.floor)


def _is_soon_enough(asked: Rails, after: Values) -> bool:
    """Return whether a flush beside the computation has ended when it must have.

    With one place in the cache SCR_Start_output waits for the flush before it, to have room (scr.c:1525);
    with more nothing does, however long flushes took so far.
    """
    if asked.durability is Durability.STRICT:
        return False
    return asked.durability is not Durability.NEXT or number(after, "SCR_CACHE_SIZE") <= 1
