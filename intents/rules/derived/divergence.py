"""Intent 12: the checkpoint that a diverged job can go back to. It is advice: nothing goes back by itself."""

from collections.abc import Iterator

from msgspec.structs import replace

from ..parameter import DerivedParameter
from ..situation import Situation
from .table import CURRENT


def divergence(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_CURRENT: the checkpoint to begin the next run with."""
    seen = now.intents.divergence
    why_not = "" if seen.back_to else "no checkpoint from before is in the prefix directory any more, or yet"
    if seen.sign is None:
        why_not = "no metric diverges" if seen.evidence.count else "no metric was reported"
    inputs = (seen.sentence(),) if seen.evidence.count else ()
    yield replace(CURRENT, value=None if why_not else seen.back_to, inputs=inputs, why_not=why_not)
