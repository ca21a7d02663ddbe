"""Distributions of sizes: exact sums, the top five, percentiles within 3 %, and memory that does not grow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.intents.observe.io.sizes import BIN_ERROR, MAX_SIZES, SizeHistogram, Sizes

MANY = st.lists(st.dictionaries(st.integers(-5, 10**9), st.integers(-2, 50), max_size=50), max_size=10)


def sizes_of(*adds: dict[int, int]) -> Sizes:
    histogram = SizeHistogram()
    for each in adds:
        histogram.add(each)
    return histogram.sizes


def exact(share: float, counts: dict[int, int]) -> int:
    """The size up to which accesses carry a share of all bytes."""
    passed, total = 0, sum(size * count for size, count in counts.items())
    for size in sorted(counts):
        passed += size * counts[size]
        if passed >= share * total:
            return size
    return 0


def test_shares_are_of_bytes_and_of_calls_and_percentiles_by_bytes() -> None:
    sizes = sizes_of({100: 90, 1000: 1, 9000: 1})
    assert [
        (each.size_bytes, each.count, round(each.share, 3), round(each.calls_share, 3)) for each in sizes.top
    ] == [(100, 90, 0.474, 0.978), (9000, 1, 0.474, 0.011), (1000, 1, 0.053, 0.011)]
    assert (sizes.p50_bytes, sizes.p90_bytes, sizes.p99_bytes) == (1000, 9000, 9000)
    assert "100 B 47% (98% of calls)" in sizes.text()


def test_the_top_are_five_and_of_equal_ones_the_smaller_first() -> None:
    top = sizes_of({size: 60 // size for size in (1, 2, 3, 4, 5, 6)}).top
    assert [each.size_bytes for each in top] == [1, 2, 3, 4, 5]


def test_nothing_has_no_top_and_empty_calls_no_bytes() -> None:
    assert sizes_of() == Sizes()
    empty = sizes_of({0: 3})
    assert (empty.count, empty.bytes, empty.p90_bytes) == (3, 0, 0)


@given(MANY)
def test_sums_are_exact(adds: list[dict[int, int]]) -> None:
    sizes = sizes_of(*adds)
    counted = [(size, count) for each in adds for size, count in each.items() if size >= 0 < count]
    assert sizes.count == sum(count for _, count in counted)
    assert sizes.bytes == sum(size * count for size, count in counted)
    assert sum(each.share for each in sizes.top) <= 1 + 1e-9
    assert sizes.p50_bytes <= sizes.p90_bytes <= sizes.p99_bytes


@settings(max_examples=15)
@given(st.integers(0, 2**62))
def test_percentiles_of_many_sizes_are_within_three_percent_and_frequent_sizes_exact(first: int) -> None:
    counts = {**dict.fromkeys(range(first, first + 2 * MAX_SIZES), 1), 4096: 10**6}
    histogram = SizeHistogram()
    for start in range(0, len(counts), 1000):
        histogram.add(dict(list(counts.items())[start : start + 1000]))
    sizes = histogram.sizes
    assert len(histogram) <= MAX_SIZES
    assert sizes.bytes == sum(size * count for size, count in counts.items())
    assert 4096 in [each.size_bytes for each in sizes.top] or first > 2**22
    for share, found in ((0.5, sizes.p50_bytes), (0.9, sizes.p90_bytes), (0.99, sizes.p99_bytes)):
        assert exact(share, counts) <= found <= exact(share, counts) * (1 + BIN_ERROR)


@pytest.mark.parametrize("bits", [20, 40, 62])
def test_sizes_of_every_magnitude_are_remembered_in_bounded_memory(bits: int) -> None:
    histogram = SizeHistogram()
    for step in range(40):
        histogram.add({(2**bits // 40_000) * (1000 * step + each): 1 for each in range(1000)})
    assert len(histogram) <= MAX_SIZES
    assert histogram.sizes.count == 40_000
