"""Which rules may ask: a bounded number of times, and none may undo what a change has won."""

from ..events import Value, Values
from ..rules.situation import Proposal

TRIES = 3


class RuleCooldown:
    """What the rules have asked for so far, and what became of it."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}
        self._closed: set[str] = set()
        self._given_up: set[tuple[str, Value]] = set()

    def may(self, proposal: Proposal) -> bool:
        """Whether its rule may ask: 3 times, and after a lost trial not before another change has won.

        No rule may undo what a change has won: A, then B, then A again is not tried.
        """
        is_open = proposal.rule not in self._closed and self._tries.get(proposal.rule, 0) < TRIES
        return is_open and not any(each in self._given_up for each in proposal.changes.items())

    def tried(self, rule: str) -> None:
        """A trial of `rule` begins."""
        self._tries[rule] = self._tries.get(rule, 0) + 1

    def lost(self, rule: str) -> None:
        """Its change was taken back."""
        self._closed.add(rule)

    def won(self, previous: Values) -> None:
        """A change stays, for which `previous` was given up: what did not help before may help now."""
        self._closed.clear()
        self._given_up.update(previous.items())

    def forget(self) -> None:
        """The user's settings are back: every rule may ask again."""
        self._closed.clear()
        self._given_up.clear()

    def close(self) -> None:
        """No rule that has ever had a trial may ask again."""
        self._closed.update(self._tries)
