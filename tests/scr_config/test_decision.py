"""The decision file: what one side writes the other reads, and nothing else passes."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.intents.effects import Advice
from scrtune.scr_config.catalogue import CATALOGUE
from scrtune.scr_config.decision import (
    DECISION_LIMIT_BYTES,
    DecisionError,
    DecisionFile,
    ParsedDecision,
    decision_text,
    parse_decision,
)
from scrtune.scr_config.files import write_config

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
    assert decision.settings() == ADVICE.settings


@given(
    values=st.dictionaries(st.sampled_from(sorted(CATALOGUE)), VALUES), generation=st.integers(0, 10**9 - 1)
)
def test_every_value_of_one_line_survives(values: dict[str, str], generation: int) -> None:
    decision = parse_decision(decision_text(Advice(generation=generation, settings=dict(values))))
    assert (decision.generation, decision.values) == (generation, values)


@pytest.mark.parametrize("value", ["a\nSCR_FLUSH=0", "a\0", "\nend\n"])
def test_a_value_of_several_lines_stays_in_the_environment_it_came_from(value: str) -> None:
    text = decision_text(Advice(settings={"SCR_PREFIX": value, "SCR_FLUSH": 2}))
    assert parse_decision(text) == ParsedDecision(0, {"SCR_FLUSH": "2"})


@pytest.mark.parametrize("values", [{"SCR_FLUSHES": "1"}, {"SCR_FLUSH": "often"}])
def test_values_that_the_catalogue_has_not_are_refused_as_a_whole(values: dict[str, str]) -> None:
    with pytest.raises(DecisionError, match=next(iter(values))):
        ParsedDecision(1, {"SCR_CACHE_SIZE": "2", **values}).settings()


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


# ---- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decision"


def test_each_decision_is_seen_once(path: Path) -> None:
    file = DecisionFile(path)
    assert file.look() is None
    write_config(path, decision_text(ADVICE))
    found = file.look()
    assert found is not None
    assert (found.generation, found.settings()) == (12, ADVICE.settings)
    assert file.look() is None
    write_config(path, decision_text(Advice(generation=0)))
    assert file.look() == ParsedDecision(0, {}), "a daemon that lost its journal begins at 0 again"
    path.unlink()
    assert file.look() is None


def spoil(path: Path, how: str) -> None:
    match how:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(path.with_name("other"))
            write_config(path.with_name("other"), decision_text(ADVICE))
        case "queue":
            os.mkfifo(path)
        case "long":
            path.write_bytes(b"x" * (DECISION_LIMIT_BYTES + 1))
        case _:
            path.write_text(decision_text(ADVICE).replace("SINGLE", "XOR"))


@pytest.mark.parametrize("how", ["directory", "link", "queue", "long", "checksum"])
def test_what_is_no_decision_of_ours_is_refused_once_and_not_waited_for(path: Path, how: str) -> None:
    spoil(path, how)
    file = DecisionFile(path)
    with pytest.raises(DecisionError):
        file.look()
    assert file.look() is None


def test_a_file_that_may_not_be_read_is_refused_once(path: Path) -> None:
    write_config(path, decision_text(ADVICE))
    path.chmod(0)
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    file = DecisionFile(path)
    with pytest.raises(DecisionError, match="cannot be read"):
        file.look()
    assert file.look() is None
