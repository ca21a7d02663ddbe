"""The settings under advice, and when a checkpoint is due."""

import pytest

from scrtune.client.embedded.copy import CopyOptions
from scrtune.client.embedded.settings import CheckpointClock, Levers, UnsupportedSettingError, overlay
from scrtune.scr_config.catalogue import compiled_defaults


def test_advice_lies_over_the_users_settings_and_goes_with_it() -> None:
    own = {**compiled_defaults(), "SCR_FLUSH": 3}
    advised = overlay(own, own, {"SCR_FLUSH": 5, "SCR_COPY_TYPE": "PARTNER", "SCR_PREFIX": "/x", "NEW": 1})
    assert advised == {**own, "SCR_FLUSH": 5, "SCR_COPY_TYPE": "PARTNER"}
    assert overlay(own, advised, {}) == own


@pytest.mark.parametrize(
    "bad", [{"SCR_FILE_BUF_SIZE": 0}, {"SCR_FLUSH": "often"}, {"SCR_COPY_TYPE": "MIRROR"}]
)
def test_one_invalid_value_refuses_the_whole_advice(bad: dict[str, int | str]) -> None:
    own = compiled_defaults()
    current = {**own, "SCR_FLUSH": 5}
    assert overlay(own, current, {"SCR_FLUSH": 7, **bad}) == current


def test_what_only_scr_has_stays_as_it_was_and_the_rest_is_taken() -> None:
    own = compiled_defaults()
    current = {**own, "SCR_COPY_TYPE": "PARTNER"}
    advised = overlay(own, current, {"SCR_COPY_TYPE": "RS", "SCR_FLUSH_TYPE": "BBAPI", "SCR_FLUSH": 7})
    assert advised == {**own, "SCR_COPY_TYPE": "PARTNER", "SCR_FLUSH": 7}


def test_levers_are_scrs_defaults_until_set() -> None:
    levers = Levers.of({})
    assert (levers.scheme, levers.bypass, levers.cache_size, levers.flush) == ("XOR", True, 1, 10)
    assert levers.copy_options == CopyOptions(threads=1, buffer_bytes=32 << 20)
    threaded = Levers.of({"SCR_FLUSH_TYPE": "PTHREAD", "SCR_FLUSH_ASYNC": 1, "SCRTUNE_FLUSH_CPUS": "1,3-4"})
    assert threaded.copy_options == CopyOptions(threads=None, buffer_bytes=32 << 20, cpus=(1, 3, 4))
    assert threaded.flush_async
    nice = {"SCR_FLUSH_TYPE": "PTHREAD", "SCRTUNE_FLUSH_NICE": 19}
    assert Levers.of({**nice, "SCR_FLUSH_ASYNC": 1}).copy_options.nice == 19
    assert Levers.of({**nice, "SCR_FLUSH_ASYNC": 0}).copy_options.nice == 0  # nothing runs beside it
    assert not Levers.of({"SCR_FLUSH_ASYNC": 1}).flush_async  # FLUSH_TYPE=SYNC blocks all the same
    with pytest.raises(UnsupportedSettingError, match="choose one of SINGLE, PARTNER, XOR"):
        Levers.of({"SCR_COPY_TYPE": "RS"})


def test_without_any_rule_a_checkpoint_is_always_due() -> None:
    assert CheckpointClock(ended_s=0.0).is_due(Levers.of({}), 0.0)


def test_seconds_count_from_the_end_of_the_last_checkpoint() -> None:
    levers = Levers.of({"SCR_CHECKPOINT_SECONDS": 10})
    clock = CheckpointClock(ended_s=100.0)
    assert [clock.is_due(levers, now_s) for now_s in (109.0, 110.0)] == [False, True]
    clock.note(110.0, 115.0)
    assert [clock.is_due(levers, now_s) for now_s in (124.0, 125.0)] == [False, True]


def test_overhead_is_the_mean_cost_against_the_time_since() -> None:
    levers = Levers.of({"SCR_CHECKPOINT_OVERHEAD": 10.0})
    clock = CheckpointClock(ended_s=0.0)
    assert clock.is_due(levers, 0.0)  # no cost is known yet
    clock.note(0.0, 1.0)
    clock.note(10.0, 13.0)
    assert [clock.is_due(levers, now_s) for now_s in (30.9, 31.1)] == [False, True]  # 2 s of 20
