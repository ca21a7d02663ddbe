"""Intent 12: the checkpoint that a diverged job can go back to. Advice: nothing goes back by itself."""

from collections.abc import Iterator

from msgspec.structs import replace

from ...mutability import Mutability
from ..parameter import DerivedParameter, Phase
from ..situation import Situation

CURRENT = "SCR_CURRENT"


def divergence(now: Situation) -> Iterator[DerivedParameter]:
    """Yield the checkpoint to begin the next run with."""
    seen = now.intents.divergence
    advice = DerivedParameter(
        intent="divergence",
        name=CURRENT,
        phase=Phase.BETWEEN_OUTPUTS,
        change=Mutability.LAUNCH,
        rule="the newest checkpoint that had ended while the metric was usual, and is still kept",
        inputs=(seen.sentence(),) if seen.evidence.count else (),
        source="LLNL study, next step 3; SCR documentation (SCR_CURRENT)",
    )
    if seen.sign is None:
        yield replace(
            advice, why_not="no metric diverges" if seen.evidence.count else "no metric was reported"
        )
    elif not seen.back_to:
        yield replace(advice, why_not="no checkpoint from before is in the prefix directory any more, or yet")
    else:
        yield replace(advice, value=seen.back_to)
