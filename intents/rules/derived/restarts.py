"""Intents 4, 6 and 12: what the next run finds to begin with, and to go back to.

**Clean start.** SCR_CACHE_PURGE=1 deletes the cache in every SCR_Init (scr.c:2499), also of a restart that
needs it. So `scrtune run --clean-start` writes it into the config file for the first start, and it is 0 for
all later ones.

**History.** SCR deletes what falls out of a window of SCR_PREFIX_SIZE checkpoints, the newest included, after
each flush of one (scr_prefix_delete_sliding, scr_prefix.c:332); those that are outputs, too, stay, and do not
count against it when they lie outside. A job that was seen to go back r checkpoints needs r more than the
user wants to have.

**Divergence.** The checkpoint that a diverged job can go back to is advice: nothing goes back by itself.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from ....units import bytes_text, count_text
from ...observe.faults.clean_start import PURGE
from ...observe.faults.history import History
from ..parameter import DerivedParameter
from ..situation import Situation
from .table import CACHE_PURGE, CURRENT, DISTRIBUTE, PREFIX_PURGE, PREFIX_SIZE

_NOT_SAID = "only on your word: scrtune run --clean-start"
_LARGEST = 2**31 - 1


def clean_start(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_CACHE_PURGE and SCR_DISTRIBUTE."""
    seen = now.intents.clean_start
    if not seen.declared:
        yield from (replace(each, why_not=_NOT_SAID) for each in (CACHE_PURGE, DISTRIBUTE))
        return
    if not seen.purged:
        yield replace(CACHE_PURGE, why_not="no start of this job was the first one that scrtune prepared")
    else:
        made = f"the first of {seen.runs} starts so far" if seen.runs > 1 else "this start"
        inputs = (f"--clean-start: {made} deleted it", "a restart needs the cache")
        yield replace(CACHE_PURGE, value=0, is_users_word=True, inputs=inputs)
    yield replace(DISTRIBUTE, why_not=f"{PURGE} does it: 0 deletes the cache, too, in every SCR_Init")


def history(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_PREFIX_SIZE and SCR_PREFIX_PURGE."""
    seen = now.intents.history
    window, clipped = prefix_size(seen)
    inputs = [f"at least {seen.least}"] if seen.least else []
    inputs += [f"at most {seen.most}"] if seen.most else []
    inputs += [f"the furthest rollback seen: {count_text(seen.rollback, 'checkpoint')}"]
    if window and seen.checkpoint_bytes:
        inputs += [f"takes {bytes_text(seen.checkpoint_bytes * window)} of the prefix directory"]
    enough = f"; {seen.rollback + 1} would have been enough for every rollback seen" if seen.restarts else ""
    why_all = f"SCR keeps all: deleting checkpoints is your word (--keep-checkpoints MIN:MAX){enough}"
    yield replace(
        PREFIX_SIZE,
        value=window or None,
        inputs=tuple(inputs),
        clipped=clipped,
        why_not="" if window else why_all,
        is_users_word=True,
    )
    why_never = "every SCR_Init deletes all datasets, outputs among them: set it yourself for one run"
    yield replace(PREFIX_PURGE, why_not=why_never)


def prefix_size(seen: History) -> tuple[int, str]:
    """Return the window, and the bound that changed it; 0: all are kept."""
    least, most = seen.least or 0, seen.most or 0
    wanted = min(_LARGEST, least + seen.rollback) if least else most
    if not most or wanted <= most:
        return wanted, ""
    if least > most:
        return least, f"at most {most} contradicts at least {least}: what would be deleted stays"
    return most, f"{least} and a rollback of {seen.rollback} would be {wanted}; at most {most} was declared"


def divergence(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_CURRENT: the checkpoint to begin the next run with."""
    seen = now.intents.divergence
    why_not = "" if seen.back_to else "no checkpoint from before is in the prefix directory any more, or yet"
    if seen.sign is None:
        why_not = "no metric diverges" if seen.evidence.count else "no metric was reported"
    inputs = (seen.sentence(),) if seen.evidence.count else ()
    yield replace(CURRENT, value=None if why_not else seen.back_to, inputs=inputs, why_not=why_not)
