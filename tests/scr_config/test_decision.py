"""The decision file: what one side writes the other reads, and nothing else passes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.client.libscr.decision import (
    DECISION_LIMIT_BYTES,
    DecisionError,
    decision_text,
    parse_decision,
)
from scrtune.intents.effects import Advice
from scrtune.scr_config.catalogue import CATALOGUE, coerce

GOLDEN = (
    "scrtune-decision 1\ngeneration 12\ncrc32 {crc}\n"
    "SCRTUNE_FLUSH_CPUS=\nSCR_COPY_TYPE=SINGLE\nSCR_FILE_BUF_SIZE=8388608\nend\n"
)
ADVICE = Advice(
    generation=12,
    settings={"SCR_FILE_BUF_SIZE": 8 << 20, "SCR_COPY_TYPE": "SINGLE", "SCRTUNE_FLUSH_CPUS": ""},
)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=20)


def test_the_form_is_the_documented_one() -> None:
    assert decision_text(ADVICE) == GOLDEN.format(crc="2a914b8c")


def test_it_is_read_back() -> None:
    decision = parse_decision(decision_text(ADVICE))
    assert decision.generation == 12
    assert {name: coerce(name, value) for name, value in decision.values.items()} == ADVICE.settings


@given(
    values=st.dictionaries(st.sampled_from(sorted(CATALOGUE)), VALUES), generation=st.integers(0, 10**9 - 1)
)
def test_every_value_of_one_line_survives(values: dict[str, str], generation: int) -> None:
    decision = parse_decision(decision_text(Advice(generation=generation, settings=dict(values))))
    assert (decision.generation, decision.values) == (generation, values)


@pytest.mark.parametrize("value", ["a\nSCR_FLUSH=0", "a\0", "\nend\n"])
def test_a_value_of_several_lines_is_refused(value: str) -> None:
    with pytest.raises(DecisionError):
        decision_text(Advice(settings={"SCR_PREFIX": value}))


@settings(max_examples=300)
@given(data=st.data())
def test_no_change_of_its_bytes_goes_unnoticed(data: st.DataObject) -> None:
    text = bytearray(decision_text(ADVICE).encode())
    index = data.draw(st.integers(0, len(text) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "insert"])):
        case "flip":
            text[index] ^= data.draw(st.integers(1, 255))
        case "cut":
            del text[index:]
        case _:
            text.insert(index, data.draw(st.integers(0, 255)))
    with pytest.raises(DecisionError):
        parse_decision(bytes(text))


@given(st.binary(max_size=300))
def test_other_bytes_are_no_decision(data: bytes) -> None:
    with pytest.raises(DecisionError):
        parse_decision(data)


def test_it_is_bounded() -> None:
    with pytest.raises(DecisionError, match="bytes at most"):
        parse_decision(b"x" * (DECISION_LIMIT_BYTES + 1))
