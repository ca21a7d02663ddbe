"""Intent 12: the checkpoint to go back to; never by itself."""

import pytest

from scrtune.intents.intent import Evidence
from scrtune.intents.observe.divergence import Divergence, Sign
from scrtune.intents.observe.intents import Intents
from scrtune.intents.rules.derived.divergence import divergence
from scrtune.intents.rules.guards import veto
from scrtune.intents.rules.parameters import declared, derived
from scrtune.intents.rules.situation import Situation

SEEN = Evidence(count=20, source="the recorder")
DIVERGED = Divergence(evidence=SEEN, metric="loss", sign=Sign.NOT_FINITE, step=90, good_step=80, good_s=1e9)
BACK = Divergence(
    **{**{name: getattr(DIVERGED, name) for name in DIVERGED.__struct_fields__}, "back_to": "c.7"}
)


def situation(seen: Divergence) -> Situation:
    return Situation(intents=Intents(divergence=seen))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (Divergence(), "no metric was reported"),
        (Divergence(evidence=SEEN, metric="loss", value=1.0), "no metric diverges"),
        (DIVERGED, "no checkpoint from before"),
    ],
)
def test_it_says_why_there_is_nothing_to_go_back_to(seen: Divergence, why: str) -> None:
    (found,) = divergence(situation(seen))
    assert found.value is None
    assert why in found.why_not


def test_the_checkpoint_from_before_is_advice_that_only_the_user_follows() -> None:
    now = situation(BACK)
    (found,) = (each for each in derived(now) if each.name == "SCR_CURRENT")
    assert found.value == "c.7"
    assert "only the user may change this" in found.veto
    assert not found.is_users_word
    assert declared(now) == ()
    assert veto({"SCR_CURRENT": "c.7"}, now)
    assert found.inputs == (BACK.sentence(),)
    assert "the last checkpoint of that time is c.7" in BACK.sentence()
