"""The changes of the tuner, from which both the terminal and the page show them."""

from collections.abc import Iterator, Sequence

import msgspec

from ...intents.tune.decisions import NOT_MADE, Decision, Verdict
from ...intents.tune.gains import Gain, GainView
from ...units import count_text
from ..format import VERDICTS, transitions_text

_JUDGED = {Verdict.ACCEPTED, Verdict.REVERTED}


class TunerChange(msgspec.Struct, frozen=True, kw_only=True):
    """A decision of the tuner; for a trial, with the decision that `ended` it, and its `gain` if measured.

    `number` counts the changes from 1.
    """

    number: int
    decision: Decision
    ended: Decision | None = None
    gain: Gain | None = None

    @property
    def verdict(self) -> Verdict:
        """The last verdict on the change."""
        return (self.ended or self.decision).verdict

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return VERDICTS[self.verdict].word

    @property
    def is_made(self) -> bool:
        """True if the change was active at any time."""
        return self.verdict not in NOT_MADE

    @property
    def name(self) -> str:
        """The number and the rule."""
        return f"{self.number}. {self.decision.rule}"

    @property
    def what(self) -> str:
        """The parameters with their values before and after."""
        return transitions_text(self.decision.previous, self.decision.changes) or "no parameter changes"

    @property
    def short(self) -> str:
        """The name with what the change saves."""
        if self.gain is None:
            return self.name
        word, saved_s, low_s, high_s = _signed(self.gain)
        return f"{self.name}: {word} {saved_s:.3f} s ({low_s:.3f} to {high_s:.3f} s)"

    @property
    def text(self) -> str:
        """The name, the parameters, and what the change saves."""
        return "; ".join(filter(None, (f"{self.name}: {self.what}", self.gain_text)))

    @property
    def gain_text(self) -> str:
        """What the change is believed to save or cost, with the interval; empty if not measured."""
        gain = self.gain
        if gain is None:
            return ""
        word, saved_s, low_s, high_s = _signed(gain)
        seen = count_text(gain.checkpoints, "checkpoint")
        interval = f"{low_s:.3f} to {high_s:.3f} s with 90 %, after {seen}"
        than = "more than" if gain.saved_s < 0 else "of"
        return f"{word} {saved_s:.3f} s {than} {gain.before_s:.3f} s a checkpoint ({interval})"


def _signed(gain: Gain) -> tuple[str, float, float, float]:
    """Return "saves" or "costs", how much of a checkpoint, and the bounds of that; in seconds."""
    if gain.saved_s < 0:
        return "costs", -gain.saved_s, -gain.high_s, -gain.low_s
    return "saves", gain.saved_s, gain.low_s, gain.high_s


def tuner_changes(decisions: Sequence[Decision], gains: Sequence[GainView]) -> tuple[TunerChange, ...]:
    """Return one change for each decision, oldest first; a trial and the decision that ended it are one."""
    found = {(view.generation, Verdict.TRIAL): view.gain for view in gains}
    return tuple(
        TunerChange(number=number, decision=each, ended=end, gain=found.get((each.generation, each.verdict)))
        for number, (each, end) in enumerate(_joined(decisions), start=1)
    )


def _joined(log: Sequence[Decision]) -> Iterator[tuple[Decision, Decision | None]]:
    trial: Decision | None = None
    for decision in log:
        if decision.verdict is Verdict.TRIAL:
            trial = decision
            continue
        if trial is not None and decision.verdict in {*_JUDGED, Verdict.BASELINE}:
            yield trial, decision
            trial = None
            if decision.verdict in _JUDGED:
                continue
        yield decision, None  # the return to the baseline, as by a run under other settings, is a change too
    if trial is not None:
        yield trial, None
