"""What may never be traded: the rails that follow from what a user declared, or gave explicitly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import Durability, SettingsObserved, Values
from scrtune.intents.observe.faults.redundancy import SURVIVES
from scrtune.intents.rules.durability import NEVER, Rails, permits, rails
from scrtune.intents.settings import DEFAULTS

CACHED: Values = {"SCR_CACHE_BYPASS": 0}
EVERY_4TH: Values = {**CACHED, "SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": 4}
STRICT, NEXT = Durability.STRICT, Durability.NEXT


def asked(user: Values, durability: str = "", floor: str = "", source: str = "user config") -> Rails:
    own = {**DEFAULTS, **user}
    sources = {name: source if name in user else "default" for name in own}
    job = SettingsObserved(settings=own, sources=sources, durability=durability, floor=floor)
    return rails(job, own)


@pytest.mark.parametrize(
    ("user", "durability", "floor", "expected"),
    [
        ({}, "", "", (NEXT, "SINGLE", 1)),
        ({"SCR_FLUSH": 4}, "", "", (NEXT, "SINGLE", 1)),
        ({"SCR_CACHE_BYPASS": 1}, "", "", (STRICT, "SINGLE", 1)),
        ({"SCR_CACHE_BYPASS": 1}, "next", "", (NEXT, "SINGLE", 1)),
        (CACHED, "", "", (None, "XOR", 10)),
        (EVERY_4TH, "", "", (None, "SINGLE", 4)),
        ({**EVERY_4TH, "SCR_FLUSH": 0}, "", "", (None, "SINGLE", NEVER)),
        ({"SCR_FLUSH": 0}, "", "", (NEXT, "SINGLE", 1)),
        ({"SCR_FLUSH": -1}, "", "PROCESS", (None, "SINGLE", 1)),
        ({"SCR_COPY_TYPE": "PARTNER"}, "", "", (None, "PARTNER", 10)),
        (EVERY_4TH, "", "NODE", (None, "PARTNER", 4)),
        (EVERY_4TH, "", "process", (None, "SINGLE", 4)),
        ({}, "", "RS", (None, "RS", 10)),
        (EVERY_4TH, "strict", "", (STRICT, "SINGLE", 1)),
        (EVERY_4TH, "strict", "NODE", (STRICT, "PARTNER", 1)),
        (EVERY_4TH, "next", "NODE", (NEXT, "PARTNER", 1)),
        (EVERY_4TH, "a word that there is not", "", (None, "SINGLE", 4)),
        ({}, "", "everything", (NEXT, "SINGLE", 1)),
    ],
)
def test_what_was_declared_comes_first_then_what_was_given_explicitly(
    user: Values, durability: str, floor: str, expected: tuple[Durability | None, str, int]
) -> None:
    found = asked(user, durability, floor)
    assert (found.durability, found.floor, found.flush_every) == expected
    assert found.because


@pytest.mark.parametrize("source", ["environment", "user config", "SCR_Config", "system config", "edited"])
def test_any_source_but_scrs_defaults_is_explicit(source: str) -> None:
    assert asked({"SCR_COPY_TYPE": "PARTNER"}, source=source).floor == "PARTNER"
    assert asked({"SCR_COPY_TYPE": "PARTNER"}, source="default") == Rails()


def test_before_the_job_has_described_itself_the_default_holds() -> None:
    assert rails(None, DEFAULTS) == Rails()


ASYNC: Values = {**CACHED, "SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}


@pytest.mark.parametrize(
    ("after", "passes"),
    [
        ({"SCR_CACHE_BYPASS": 1}, "strict next XOR-10"),
        ({**CACHED, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}, "strict next"),
        ({**ASYNC, "SCR_COPY_TYPE": "SINGLE"}, "next"),
        (ASYNC, "next XOR-10"),
        ({**ASYNC, "SCR_CACHE_SIZE": 2}, "XOR-10"),  # the next output does not wait for its flush
        ({**CACHED, "SCR_FLUSH": 1, "SCR_CACHE_SIZE": 2}, "strict next XOR-10"),
        ({**ASYNC, "SCR_FLUSH_TYPE": "SYNC", "SCR_COPY_TYPE": "SINGLE"}, "strict next"),
        ({**CACHED, "SCR_FLUSH": 2}, "XOR-10"),
        ({**CACHED, "SCR_FLUSH": 10}, "XOR-10"),
        ({**CACHED, "SCR_FLUSH": 11}, ""),
        ({**CACHED, "SCR_FLUSH": 0}, ""),
        ({**CACHED, "SCR_FLUSH": -1}, ""),
        ({**CACHED, "SCR_FLUSH": 10, "SCR_COPY_TYPE": "PARTNER"}, "XOR-10"),
        ({**CACHED, "SCR_FLUSH": 10, "SCR_COPY_TYPE": "RS"}, "XOR-10"),
        ({**CACHED, "SCR_FLUSH": 10, "SCR_COPY_TYPE": "SINGLE"}, ""),
    ],
)
def test_what_each_of_the_rails_lets_pass(after: Values, passes: str) -> None:
    every = {
        "strict": Rails(durability=STRICT),
        "next": Rails(durability=NEXT),
        "XOR-10": Rails(durability=None, floor="XOR", flush_every=10),
    }
    found = [name for name, each in every.items() if permits(each, {**DEFAULTS, **after})]
    assert found == passes.split()


@given(
    bypass=st.sampled_from([0, 1]),
    scheme=st.sampled_from(sorted(SURVIVES)),
    every=st.integers(0, 12),
    floor=st.sampled_from(["", "PROCESS", "NODE", *SURVIVES]),
)
def test_without_a_declared_durability_the_users_own_settings_always_pass(
    bypass: int, scheme: str, every: int, floor: str
) -> None:
    user: Values = {"SCR_CACHE_BYPASS": bypass, "SCR_COPY_TYPE": scheme, "SCR_FLUSH": every}
    found = asked(user, floor=floor)
    if SURVIVES[scheme] >= SURVIVES.get(found.floor, 0):
        assert permits(found, {**DEFAULTS, **user})
