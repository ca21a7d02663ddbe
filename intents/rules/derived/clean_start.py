"""Intent 4: what an earlier job left in the cache goes, on the user's word, at the first start only.

SCR_CACHE_PURGE=1 deletes the cache in every SCR_Init (scr.c:2499), also of a restart that needs it. So
`scrtune run --clean-start` writes it into the config file for the first start, and it is 0 for all later
ones.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from ...observe.faults.clean_start import PURGE
from ..parameter import DerivedParameter
from ..situation import Situation

_NOT_SAID = "only on your word: scrtune run --clean-start"
_SOURCE = "SCR source (scr.c:2499)"


def clean_start(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_CACHE_PURGE and SCR_DISTRIBUTE."""
    seen, rule = now.intents.clean_start, "delete the cache at the job's first start alone"
    purge = DerivedParameter(intent="clean start", name=PURGE, rule=rule, source=_SOURCE)
    yield _purge(purge, now)
    yield DerivedParameter(
        intent="clean start",
        name="SCR_DISTRIBUTE",
        rule="rebuild what the cache holds",
        source="SCR source (scr.c:2512)",
        why_not=f"{PURGE} does it: 0 deletes the cache, too, in every SCR_Init"
        if seen.declared
        else _NOT_SAID,
    )


def _purge(purge: DerivedParameter, now: Situation) -> DerivedParameter:
    seen = now.intents.clean_start
    if not seen.declared:
        return replace(purge, why_not=_NOT_SAID)
    if not seen.purged:
        return replace(purge, why_not="no start of this job was the first one that scrtune prepared")
    made = f"the first of {seen.runs} starts so far deleted it" if seen.runs > 1 else "this start deleted it"
    return replace(
        purge, value=0, is_users_word=True, inputs=(f"--clean-start: {made}", "a restart needs the cache")
    )
