"""The settings under advice."""

import pytest

from scrtune.client.embedded.prefix.copy import CopyOptions
from scrtune.client.embedded.settings import Levers, UnsupportedSettingError, overlay
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
