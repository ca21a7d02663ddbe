"""Durations, sizes and counts: one grammar for every option, one form for every display."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.units import bytes_text, count_text, duration_text, parse_duration_s, parse_rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600", 600), ("15m", 900), ("15min", 900), (" 2.5 H ", 9000), ("1d", 86_400), (".5s", 0.5)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "5 weeks", "1h30m", "1e3", "nan"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 600 \(seconds\), 10m or 10min, 2.5h or 1d"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("4GiB/s", 4 * 1024**3),
        ("500MB/s", 5e8),
        ("1.5 gb", 1.5e9),
        ("100", 100),
        ("2kib", 2048),
        (".5T", 5e11),
    ],
)
def test_a_rate_is_a_size_a_second(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1GB", "fast", "GiB", "1e9", "4GiB/h", "4i", "inf"])
def test_what_is_no_rate_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write 4GiB/s or 500MB/s"):
        parse_rate(text)


@given(st.floats(0.001, 1e9))
def test_every_plain_number_of_seconds_is_read_as_it_is_written(seconds: float) -> None:
    assert parse_duration_s(f"{seconds:.9f}") == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 ms"), (0.0123, "12.3 ms"), (4.56, "4.56 s"), (302, "5 min 02 s"), (11_220, "3 h 07 min")],
)
def test_a_duration_is_shown_with_its_unit_and_its_sign(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
    if seconds:
        assert duration_text(-seconds) == f"-{text}"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (320, "320 B"),
        (4096, "4 KiB"),
        (1.5 * 2**20, "1.5 MiB"),
        (2**40, "1 TiB"),
        (1023, "1023 B"),
    ],
)
def test_a_size_is_shown_with_its_binary_unit(count: float, text: str) -> None:
    assert bytes_text(count) == text


def test_numbers_agree_in_number() -> None:
    assert [count_text(count, "write") for count in (0, 1, 2)] == ["0 writes", "1 write", "2 writes"]
