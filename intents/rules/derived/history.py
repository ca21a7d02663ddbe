"""Intent 6: the sliding window of checkpoints in the prefix directory, if the user bounds what is kept.

SCR deletes what falls out of a window of SCR_PREFIX_SIZE checkpoints, the newest included, after each flush
of one (scr_prefix_delete_sliding, scr_prefix.c:332); those that are outputs, too, stay, and do not count
against it when they lie outside. A job that was seen to go back r checkpoints needs r more than the user
wants to have.
"""

from collections.abc import Iterator

from ....units import bytes_text, count_text
from ...mutability import Mutability
from ...observe.faults.history import History
from ..parameter import DerivedParameter, Phase
from ..situation import Situation

_INTENT, _SOURCE = (
    "history",
    "SCR manual (Control, cache, and prefix directories); SCR source (scr_prefix.c:332)",
)
_LARGEST = 2**31 - 1


def history(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_PREFIX_SIZE and SCR_PREFIX_PURGE."""
    seen, rule = now.intents.history, "keep the history that you ask for, and as much as a rollback needs"
    window, clipped = prefix_size(seen)
    size = f"takes {bytes_text(seen.checkpoint_bytes * window)} of the prefix directory"
    yield DerivedParameter(
        intent=_INTENT,
        name="SCR_PREFIX_SIZE",
        value=window or None,
        phase=Phase.START_OUTPUT,
        change=Mutability.LIVE,
        rule=rule,
        inputs=tuple(
            filter(
                None,
                (
                    f"at least {seen.least}" if seen.least else "",
                    f"at most {seen.most}" if seen.most else "",
                    f"the furthest rollback seen: {count_text(seen.rollback, 'checkpoint')}",
                    size if window and seen.checkpoint_bytes else "",
                ),
            )
        ),
        clipped=clipped,
        why_not="" if window else _why_all(seen),
        source=_SOURCE,
        is_users_word=True,
    )
    yield DerivedParameter(
        intent=_INTENT,
        name="SCR_PREFIX_PURGE",
        rule="delete nothing that was not asked for",
        why_not="every SCR_Init deletes all datasets, outputs among them: set it yourself for one run",
        source="SCR source (scr.c:2506)",
    )


def prefix_size(seen: History) -> tuple[int, str]:
    """Return the window, and the bound that changed it; 0: all are kept."""
    least, most = seen.least or 0, seen.most or 0
    if not seen.is_asked_for:
        return 0, ""
    if not least:
        return most, ""
    wanted = min(_LARGEST, least + seen.rollback)
    if not most or wanted <= most:
        return wanted, ""
    if least > most:
        return least, f"at most {most} contradicts at least {least}: what would be deleted stays"
    return most, f"{least} and a rollback of {seen.rollback} would be {wanted}; at most {most} was declared"


def _why_all(seen: History) -> str:
    needed = f"; {seen.rollback + 1} would have been enough for every rollback seen" if seen.restarts else ""
    return f"SCR keeps all: deleting checkpoints is your word (--keep-checkpoints MIN:MAX){needed}"
