"""The tuner's changes as a report shows them: when, what, what became of it, and what it gained."""

from collections.abc import Sequence

import msgspec

from ...intents.tune.decisions import NOT_MADE, Decision, Verdict
from ...intents.tune.gains import Gain, GainView
from ...units import count_text
from ..text import show
from ..text.show import printable


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made, or was not: `until_s` is when its trial ended (epoch seconds).

    `number` counts them from 1; `because` is why it was tried, `outcome` what became of it for which reason.
    """

    number: int
    time_s: float
    until_s: float | None
    generation: int
    verdict: Verdict
    rule: str
    what: str
    because: str
    outcome: str = ""
    gain: Gain | None

    @property
    def is_made(self) -> bool:
        """Whether it was in force at all."""
        return self.verdict not in NOT_MADE

    @property
    def name(self) -> str:
        """What it is called where it stands beside others."""
        return f"{self.number}. {self.rule}"

    @property
    def short(self) -> str:
        """In few words, with what it saved."""
        if self.gain is None:
            return self.name
        word, saved_s, low_s, high_s = _in_words(self.gain)
        return f"{self.name}: {word} {saved_s:.3f} s ({low_s:.3f} to {high_s:.3f} s)"

    @property
    def text(self) -> str:
        """In one line."""
        gain = f"; {saved(self.gain)}" if self.gain is not None else ""
        return f"{self.name}: {self.what}{gain}"


def saved(gain: Gain) -> str:
    """What a change saved, or cost, with its interval, as its trial measured it."""
    word, saved_s, low_s, high_s = _in_words(gain)
    between = f"{low_s:.3f} to {high_s:.3f} s with 90 %, in {count_text(gain.pairs, 'pair')}"
    than = "more than" if gain.saved_s < 0 else "of"
    return f"{word} {saved_s:.3f} s {than} {gain.before_s:.3f} s a checkpoint ({between})"


def _in_words(gain: Gain) -> tuple[str, float, float, float]:
    """Whether it saves or costs, how much of a checkpoint, and between which bounds; in seconds."""
    if gain.saved_s < 0:
        return "costs", -gain.saved_s, -gain.high_s, -gain.low_s
    return "saves", gain.saved_s, gain.low_s, gain.high_s


def changes(decisions: Sequence[Decision], gains: Sequence[GainView]) -> tuple[Change, ...]:
    """Every decision, a trial and its verdict as one, oldest first."""
    found = {view.generation: view.gain for view in gains}
    made = []
    for number, (change, verdict) in enumerate(show.joined(decisions), start=1):
        last = verdict or change
        made.append(
            Change(
                number=number,
                time_s=change.time_s,
                until_s=verdict.time_s if verdict else None,
                generation=change.generation,
                verdict=last.verdict,
                rule=printable(change.rule),
                what=printable(show.changed(change.previous, change.changes)),
                because=printable(change.because),
                outcome=printable(verdict.because) if verdict else "",
                gain=found.get(change.generation) if change.verdict is Verdict.TRIAL else None,
            )
        )
    return tuple(made)
