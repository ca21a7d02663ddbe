"""How many checkpoints an expected gain counts for."""

from ..situation import Situation

_FEWEST, _MOST = 15, 200


def checkpoints_to_come(now: Situation) -> int:
    """Return the checkpoints to expect: as many as there were, 15 to 200 (Gott 1993, as trials count)."""
    return min(_MOST, max(_FEWEST, now.checkpoints))
