"""Intent 6: how many checkpoints the prefix directory keeps.

SCR deletes what falls out of a window of SCR_PREFIX_SIZE checkpoints, the newest included, after each flush
of one (scr_prefix_delete_sliding, scr_prefix.c:332); those that are outputs, too, stay, and do not count
against it when they lie outside. A job that was seen to go back r checkpoints needs r more than the user
wants to have.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from .....units import bytes_text, count_text
from ....observe.faults.history import History
from ...parameter import DerivedParameter
from ...situation import Situation
from ..table import PREFIX_PURGE, PREFIX_SIZE

_LARGEST = 2**31 - 1


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
