"""Intent 8 of the LLNL study: how many checkpoints the job needs, and how many there still can be."""

import msgspec

from ...units import count_text
from ...units import rounded_duration_text as _time
from ..declared import Declared
from ..events import AllocationObserved
from ..intent import Evidence, Intent


class CheckpointsRequired(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The least and the most checkpoints of the whole job, as declared, those `taken`, and the time left.

    `left_s` is None where neither the job's length was declared nor the end of its allocation is known;
    `is_length_declared` tells the one from the other, which only bounds the time.
    """

    title, number = "checkpoints required", 8

    evidence: Evidence = Evidence()
    least: int | None = None
    most: int | None = None
    taken: int = 0
    left_s: float | None = None
    is_length_declared: bool = False

    @property
    def least_left(self) -> int:
        """Checkpoints that must still be taken."""
        return max(0, (self.least or 0) - self.taken)

    @property
    def most_left(self) -> int | None:
        """Checkpoints that may still be taken; None: as many as there can be."""
        return None if self.most is None else max(0, self.most - self.taken)

    def still_to_come(self, interval_s: float) -> int | None:
        """Return how many end before the job does, if one comes every `interval_s`; None: not known."""
        if self.left_s is None or interval_s <= 0:
            return None
        fit = int(min(self.left_s / interval_s, 2.0**31))
        return fit if self.most_left is None else min(fit, self.most_left)

    def _text(self) -> str:
        least = "" if self.least is None else f"at least {self.least}"
        most = "" if self.most is None else f"at most {self.most}"
        wanted = " and ".join(filter(None, (least, most))) or "no number declared"
        left = "the time left is not known"
        if self.left_s is not None:
            bound = "" if self.is_length_declared else "at most "
            left = f"{bound}{_time(self.left_s)} left"
        return f"{wanted}; {count_text(self.taken, 'checkpoint')} taken, {left}"


def observe(
    declared: Declared, taken: int, ran_s: float, allocation: AllocationObserved | None, now: float
) -> CheckpointsRequired:
    """Return the intent of a job that ran for `ran_s` and took `taken` checkpoints until `now`.

    A length that the job has exceeded says nothing of its end; nor does an allocation that is over.
    """
    of_length_s = 0.0 if declared.run_s is None else declared.run_s - ran_s
    of_allocation_s = allocation.end_s - now if allocation is not None and allocation.end_s else 0.0
    lefts_s = [each for each in (of_length_s, of_allocation_s) if each > 0]
    is_said = any(
        each is not None for each in (declared.checkpoints_least, declared.checkpoints_most, declared.run_s)
    )
    said = {"what you declared": is_said, "the end of the allocation": of_allocation_s > 0}
    source = " and ".join(text for text, is_there in said.items() if is_there)
    evidence = Evidence(count=1, source=source, end_s=now, declared=is_said) if source else Evidence()
    return CheckpointsRequired(
        evidence=evidence,
        least=declared.checkpoints_least,
        most=declared.checkpoints_most,
        taken=taken,
        left_s=min(lefts_s, default=None),
        is_length_declared=of_length_s > 0,
    )
