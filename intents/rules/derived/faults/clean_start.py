"""Intent 4: whether the cache is emptied when the job begins.

SCR_CACHE_PURGE=1 deletes the cache in every SCR_Init (scr.c:2499), also of a restart that needs it. So
`scrtune run --clean-start` writes it into the config file for the first start, and it is 0 for all others.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from ....observe.faults.clean_start import PURGE
from ...parameter import DerivedParameter
from ...situation import Situation
from ..table import CACHE_PURGE, DISTRIBUTE

_NOT_SAID = "only on your word: scrtune run --clean-start"


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
