"""The cost model: the study's numbers, and what must hold whatever the rates."""

import sys
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scrtune.intents.events import Values
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.model import GIB, PRIORS, Parts, draw_rates, predict
from scrtune.intents.tune.belief.shape import Columns, Shape, flush_threads

sys.path.append(str(Path(__file__).parents[4]))  # benchmarks are no part of the package

from benchmarks.model_study import ROWS, mean_errors, predicted

MIB = 1024**2
CACHED: Values = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1, "SCR_COPY_TYPE": "SINGLE"}
THREADS: Values = {**CACHED, "SCR_FLUSH_TYPE": "PTHREAD", "SCRTUNE_FLUSH_THREADS": 1}
ASYNC: Values = {**THREADS, "SCR_FLUSH_ASYNC": 1}
ALONE = {
    "application_bytes_per_s": np.full(64, np.inf),
    "shared_bytes_per_s": np.full(64, np.inf),
    "create_s": np.zeros(64),
}
"""A job whose application produces nothing slowly, alone with the prefix directory."""
DRAWN = draw_rates(np.random.default_rng(0), PRIORS, 64)
RATES = {**DRAWN, **ALONE}
SHAPE = Shape(
    nodes=4,
    ranks_per_node=4,
    rank_bytes=2.0 * GIB,
    files=8,
    between_s=60.0,
    cores=16,
    used_cores=1.0,
    mask_cores=4,
)


def parts(settings: Values, shape: Shape = SHAPE, **rates: float) -> Parts:
    """Return what 64 draws of all rates say but `rates`, the same in each, and :data:`ALONE`."""
    given = {name: np.full(64, value) for name, value in rates.items()}
    return Parts(*(part[0] for part in predict(Columns.of([settings], shape), shape, {**RATES, **given})))


def blocking_s(settings: Values, shape: Shape = SHAPE) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return what a flushed checkpoint blocks."""
    found = parts(settings, shape)
    flush_s = found.wait_s if settings.get("SCR_FLUSH_ASYNC") else found.flush_s
    return cast("np.ndarray[tuple[int], np.dtype[np.float64]]", found.write_s + found.encode_s + flush_s)


def replaced(**fields: float) -> Shape:
    return msgspec.structs.replace(SHAPE, **fields)


class TestStudy:
    """The errors are of one set of rates for all rows: `make bench-model` prints them."""

    def test_mean_errors_are_at_most_3_and_20_percent(self) -> None:
        checkpoints, flushes = mean_errors([predicted(row) for row in ROWS])
        assert checkpoints <= 0.03
        assert flushes <= 0.20

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
    def test_no_row_is_far_off(self, row: object) -> None:
        found = predicted(row)  # type: ignore[arg-type]
        assert abs(found.checkpoints_error) <= 0.05
        assert abs(found.flush_error or 0.0) <= 0.22

    def test_its_order_is_the_studys(self) -> None:
        """Unbinding pays more than threads, threads more than buffers, and XOR at 2 nodes costs most."""
        found = {row.name: predicted(row) for row in ROWS}
        one = found["PFS, SINGLE, 1 thread"]
        assert found["PFS, SINGLE, 1 thread, 1.75 GiB"].flush_s == pytest.approx(one.flush_s, rel=0.02)
        assert found["PFS, SINGLE, 2 threads"].flush_s < 0.9 * one.flush_s
        assert found["PFS, SINGLE, 1 thread, unbound"].flush_s < 0.6 * one.flush_s
        assert found["PFS, XOR"].checkpoints_s > 2 * found["PFS, SINGLE, 16 threads, 32 MiB"].checkpoints_s


class TestFormulas:
    def test_a_write_takes_its_bytes_and_its_files(self) -> None:
        found = parts(CACHED, cache_bytes_per_s=4.0 * GIB, cache_fixed_s=0.25, cache_file_s=0.125)
        assert found.write_s == pytest.approx(2.0 * 4 / 4 + 0.25 + 8 * 0.125)
        rates = {"prefix_bytes_per_s": 2.0 * GIB, "thread_bytes_per_s": 9.0 * GIB, "writer_share": 1.0}
        past = parts(DEFAULTS, **rates, prefix_file_s=0.125)
        assert past.write_s == pytest.approx(2.0 * 4 / 2 + 8 * 0.125)
        others = past._replace(write_s=0, haste=0, cores=0)
        assert not any(np.any(part) for part in others), "there is nothing else"

    @pytest.mark.parametrize(
        ("scheme", "seconds"),
        [
            ("SINGLE", 0.0),
            ("PARTNER", 8 / 4 + 8 / 2 + 8 / 16),
            ("XOR", 8 / 4 + 8 / 2 + 8 / 8 + 8 / 3 / 16),
            ("RS", 8 / 4 + 2 * 8 / 2 + 8 / 8 + 8 / 16),
        ],
    )
    def test_an_encode_reads_sends_and_writes_what_the_scheme_takes(
        self, scheme: str, seconds: float
    ) -> None:
        rates = {
            "cache_bytes_per_s": 16.0,
            "encode_read_bytes_per_s": 4.0,
            "encode_send_bytes_per_s": 2.0,
            "encode_xor_bytes_per_s": 8.0,
        }
        at = {name: rate * GIB for name, rate in rates.items()}
        found = parts({**CACHED, "SCR_COPY_TYPE": scheme}, **at, message_s=0.0)
        assert found.encode_s == pytest.approx(seconds)

    @pytest.mark.parametrize(
        ("scheme", "forced"), [("SINGLE", 0.0), ("PARTNER", 8 * 2.0), ("XOR", 8 * 4 / 3), ("RS", 8 * 2.0)]
    )
    def test_an_encode_forces_the_data_and_what_it_adds_to_the_device_of_the_cache(
        self, scheme: str, forced: float
    ) -> None:
        """Less what it took in while all that was written, at a rate of 4 GiB/s."""
        settings, on_device = {**CACHED, "SCR_COPY_TYPE": scheme}, replaced(on_device=True)
        rates = {"cache_bytes_per_s": 4.0 * GIB, "synced_bytes_per_s": GIB / 2}
        more_s = parts(settings, on_device, **rates).encode_s - parts(settings, **rates).encode_s
        assert more_s == pytest.approx(forced * 2 - forced / 4, abs=1e-9)
        rates["synced_bytes_per_s"] = 8.0 * GIB  # a write that waits for the device leaves it nothing
        assert parts(settings, on_device, **rates).encode_s == pytest.approx(
            parts(settings, **rates).encode_s
        )

    def test_an_output_beside_an_earlier_flush_takes_longer(self) -> None:
        """The cache has room for it, and the flush outlasts the interval."""
        encoded = {**ASYNC, "SCR_COPY_TYPE": "PARTNER", "SCR_CACHE_SIZE": 2}
        one_place, two_places = {**encoded, "SCR_CACHE_SIZE": 1}, encoded
        often, seldom = replaced(between_s=0.001), replaced(between_s=1e6)
        alone = parts(one_place, often, beside=0.5)
        assert parts(two_places, seldom, beside=0.5).write_s == pytest.approx(alone.write_s)
        beside = parts(two_places, often, beside=0.5)
        assert beside.write_s == pytest.approx(1.5 * alone.write_s)
        assert beside.encode_s == pytest.approx(1.5 * alone.encode_s)
        few = parts({**two_places, "SCR_FLUSH": 10**9}, often, beside=0.5)
        assert np.all(few.write_s < 1.01 * alone.write_s), "of many outputs few are beside a flush"

    def test_want_of_a_core_slows_threads_at_nice_19_down_and_not_the_prefix_directory(self) -> None:
        no_idle_core = replaced(cores=4, mask_cores=4, used_cores=1.0, between_s=1e9)
        nice = {**ASYNC, "SCRTUNE_FLUSH_NICE": 19}
        rates = {"thread_bytes_per_s": 1000.0 * GIB, "call_s": 0.0, "prefix_file_s": 0.0, "yielded": 0.015}
        rates["copy_bytes_per_s"] = 1.0 * GIB
        slow_prefix = rates | {"prefix_bytes_per_s": 1.0 * GIB}
        assert parts(nice, no_idle_core, **slow_prefix).flush_s == pytest.approx(
            parts(ASYNC, no_idle_core, **slow_prefix).flush_s
        )
        fast_prefix = rates | {"prefix_bytes_per_s": 1e18}
        assert np.all(
            parts(nice, no_idle_core, **fast_prefix).flush_s
            > 50 * parts(ASYNC, no_idle_core, **fast_prefix).flush_s
        )

    def test_only_the_time_for_which_threads_at_nice_19_need_a_core_becomes_longer(self) -> None:
        """2 GiB by one thread at 1 GiB/s, of which a core takes 1 s: that becomes 1 s / 0.015."""
        no_idle_core = replaced(cores=4, mask_cores=4, used_cores=1.0, between_s=1e9)
        rates = {
            "thread_bytes_per_s": 1.0 * GIB,
            "prefix_bytes_per_s": 1e18,
            "call_s": 0.0,
            "cache_misses": 0.0,
        }
        rates |= {"prefix_file_s": 0.0, "copy_bytes_per_s": 2.0 * GIB, "yielded": 0.015, "thread_cores": 0.0}
        found = parts({**ASYNC, "SCRTUNE_FLUSH_NICE": 19}, no_idle_core, **rates).flush_s
        assert found == pytest.approx(1 + 1 / 0.015, rel=0.05)

    def test_threads_at_nice_19_copy_as_little_however_many_share_the_storage(self) -> None:
        """Four have 0.08 of a core, which copies 0.04 GiB/s: the 0.25 that storage takes are no limit."""
        no_idle_core = replaced(cores=4, mask_cores=4, used_cores=1.0, between_s=1e9)
        rates = {"thread_bytes_per_s": 0.5 * GIB, "copy_bytes_per_s": 0.5 * GIB, "prefix_bytes_per_s": GIB}
        rates |= {"yielded": 0.02, "thread_cores": 0.0, "largest_file": 0.125, "cache_misses": 0.0}
        rates |= {"call_s": 0.0, "prefix_file_s": 0.0}
        four = {**ASYNC, "SCRTUNE_FLUSH_NICE": 19, "SCRTUNE_FLUSH_THREADS": 4}
        assert parts(four, no_idle_core, **rates).flush_s == pytest.approx(2 / 0.04, rel=0.01)

    @pytest.mark.parametrize(("used", "seconds"), [(1.0, 1 + 1 / 0.02), (0.6, 2 / 0.423), (0.0, 2.0)])
    def test_a_flush_at_nice_19_goes_on_while_the_ranks_wait(self, used: float, seconds: float) -> None:
        """2 GiB, of which a core takes half of the 2 s: 0.4 of the time for all, else 2 % of a core."""
        shape = replaced(cores=4, mask_cores=4, used_cores=used, between_s=1e9)
        rates = {"thread_bytes_per_s": GIB, "prefix_bytes_per_s": 1e18, "call_s": 0.0, "cache_misses": 0.0}
        rates |= {
            "prefix_file_s": 0.0,
            "copy_bytes_per_s": 2.0 * GIB,
            "thread_cores": 0.0,
            "yielded": 0.02,
            "shared_bytes_per_s": 1e18,
        }
        found = parts({**ASYNC, "SCRTUNE_FLUSH_NICE": 19}, shape, **rates).flush_s
        assert found == pytest.approx(seconds, rel=0.05)

    def test_of_a_core_that_computes_each_thread_at_nice_19_takes_little_for_as_long_as_it_lasts(
        self,
    ) -> None:
        shape = replaced(cores=4, mask_cores=4, used_cores=1.0, between_s=2.0)
        rates = {"yielded": 0.02, "interference": 0.0, "contention": 1.0, "copy_bytes_per_s": 0.1 * GIB}
        rates |= {"thread_bytes_per_s": 0.1 * GIB, "prefix_bytes_per_s": 0.4 * GIB}
        nice = {**ASYNC, "SCRTUNE_FLUSH_NICE": 19}
        one, four = ({**nice, "SCRTUNE_FLUSH_THREADS": each} for each in (1, 4))
        assert parts(one, shape, **rates).slowdown_s == pytest.approx(0.04)
        assert parts(four, shape, **rates).slowdown_s == pytest.approx(0.16)
        hardly = rates | {"contention": 0.01}
        at_0_s = parts({**four, "SCRTUNE_FLUSH_NICE": 0}, shape, **hardly).slowdown_s
        assert np.all(at_0_s < 0.16)
        assert parts(four, shape, **hardly).slowdown_s == pytest.approx(at_0_s), "no more than at nice 0"

    @pytest.mark.parametrize("prefix_rate", [0.4, 0.1, 0.01])
    def test_a_flush_takes_as_much_of_cores_however_slow_storage_is(self, prefix_rate: float) -> None:
        """2 GiB at 2 GiB/s: a thread that storage limits wants its core for a smaller part of its time."""
        shape = replaced(cores=4, mask_cores=4, used_cores=1.0, between_s=1e9)
        rates = {"thread_bytes_per_s": 0.1 * GIB, "copy_bytes_per_s": 2.0 * GIB, "interference": 0.0}
        rates |= {"prefix_bytes_per_s": prefix_rate * GIB, "shared_bytes_per_s": 1e18, "contention": 1.0}
        rates |= {"thread_cores": 0.0, "cache_misses": 0.0, "call_s": 0.0, "prefix_file_s": 0.0}
        found = parts({**ASYNC, "SCRTUNE_FLUSH_THREADS": 1}, shape, **rates)
        assert found.flush_cpu_s == pytest.approx(1.0)
        assert found.slowdown_s == pytest.approx(1.0)

    def test_an_application_writes_no_faster_than_it_produces_its_data_to_whatever_tier(self) -> None:
        for settings in (CACHED, DEFAULTS):
            more_s = parts(settings, application_bytes_per_s=0.5 * GIB).write_s - parts(settings).write_s
            assert more_s == pytest.approx(2.0 / 0.5)

    def test_nodes_share_the_prefix_directory_and_ranks_its_metadata_server(self) -> None:
        rates = {
            "prefix_bytes_per_s": 1e18,
            "thread_bytes_per_s": 1e18,
            "writer_share": 1.0,
            "prefix_file_s": 0.0,
        }
        shared = {"shared_bytes_per_s": 4.0 * GIB, "create_s": 0.01}
        assert parts(DEFAULTS, **rates, **shared).write_s == pytest.approx(4 * 4 * 2 / 4 + 8 * 16 * 0.01)
        flush = {"call_s": 0.0, "bound_share": 1.0, "cache_misses": 0.0, "largest_file": 0.2}
        assert parts(THREADS, **rates, **shared, **flush).flush_s == pytest.approx(8 + 8 * 16 * 0.01)

    @pytest.mark.parametrize(
        ("prefix_rate", "seconds"),
        [(1.0, 2 + 0.25 * (8 - 2)), (4.0, 2.0), (8.0, 1.0)],
    )
    def test_pages_used_again_spare_a_part_of_what_a_write_takes_beyond_the_rate_of_memory(
        self, prefix_rate: float, seconds: float
    ) -> None:
        rates = {
            "cache_bytes_per_s": 4.0 * GIB,
            "prefix_bytes_per_s": prefix_rate * GIB,
            "thread_bytes_per_s": 100.0 * GIB,
            "writer_share": 1.0,
            "prefix_file_s": 0.0,
            "beyond_pages": 0.25,
        }
        drops: Values = {**DEFAULTS, "SCRTUNE_DROP_BEHIND": 1}
        assert parts(DEFAULTS, **rates).write_s == pytest.approx(8 / prefix_rate)
        assert parts(drops, **rates).write_s == pytest.approx(seconds)
        in_cache: Values = {**CACHED, "SCRTUNE_DROP_BEHIND": 1}
        assert parts(in_cache).write_s == pytest.approx(parts(CACHED).write_s)

    def test_pages_used_again_spare_a_part_of_the_time_in_which_a_flush_copies(self) -> None:
        """A thread copies for 0.8 s of 1 s a GiB, of which a quarter is left, and waits for storage else."""
        rates = {
            "thread_bytes_per_s": 1.0 * GIB,
            "copy_bytes_per_s": 1.25 * GIB,
            "prefix_bytes_per_s": 1e15,
            "shared_bytes_per_s": 1e15,
            "thread_cores": 0.0,
            "bound_share": 1.0,
            "largest_file": 0.01,
            **dict.fromkeys(("call_s", "cache_misses", "prefix_file_s", "create_s"), 0.0),
        }
        busy, drops = replaced(cores=4, mask_cores=4), {**ASYNC, "SCRTUNE_DROP_BEHIND": 1}
        before, after = parts(ASYNC, busy, **rates), parts(drops, busy, copy_pages=0.25, **rates)
        assert after.flush_cpu_s == pytest.approx(0.25 * before.flush_cpu_s)
        assert after.flush_s == pytest.approx((0.2 + 0.8 / 4) * before.flush_s)
        assert np.all(after.slowdown_s < before.slowdown_s), "the node's four cores are its ranks'"

    def test_a_flush_is_the_makespan_of_files_that_are_not_split(self) -> None:
        rates = {"thread_bytes_per_s": 1.0 * GIB, "bound_share": 1.0, "call_s": 0.0, "cache_misses": 0.0}
        wide = {**rates, "prefix_bytes_per_s": 1e15, "prefix_file_s": 0.0}
        for threads, seconds in ((1, 2.0), (2, 1.0), (4, 0.6), (8, 0.6)):
            settings = {**THREADS, "SCRTUNE_FLUSH_THREADS": threads}
            assert parts(settings, largest_file=0.3, **wide).flush_s == pytest.approx(seconds)
        narrow = {**wide, "prefix_bytes_per_s": 2.0 * GIB}
        assert parts(THREADS, largest_file=0.3, **narrow).flush_s == pytest.approx(4.0), "ranks share it"

    @pytest.mark.parametrize(("at_once", "seconds"), [(0.5, 0.8), (1.0, 0.8), (2.0, 0.4), (64.0, 0.1)])
    def test_its_threads_make_files_side_by_side_as_far_as_the_prefix_directory_does(
        self, at_once: float, seconds: float
    ) -> None:
        rates = {"thread_bytes_per_s": 1e18, "prefix_bytes_per_s": 1e18, "call_s": 0.0, "create_s": 0.0}
        settings = {**THREADS, "SCRTUNE_FLUSH_THREADS": 8}
        found = parts(settings, prefix_file_s=0.1, metadata_threads=at_once, **rates)
        assert found.flush_s == pytest.approx(seconds)

    def test_bound_threads_copy_slower_and_idle_cpus_free_them(self) -> None:
        freed = {**THREADS, "SCRTUNE_FLUSH_CPUS": "4-15"}
        assert np.all(parts(freed).flush_s <= parts(THREADS).flush_s)
        assert np.all(parts(freed).flush_s == parts(freed, replaced(mask_cores=16)).flush_s)

    @pytest.mark.parametrize(("shared", "bound_s", "freed_s"), [(1e18, 4.0, 2.0), (4.0 * GIB, 12.0, 10.0)])
    def test_cores_that_are_missed_do_not_slow_down_what_all_nodes_share(
        self, shared: float, bound_s: float, freed_s: float
    ) -> None:
        rates = {"prefix_bytes_per_s": 4.0 * GIB, "shared_bytes_per_s": shared, "bound_share": 0.5}
        fast = {"thread_bytes_per_s": 1e18, "call_s": 0.0, "cache_misses": 0.0, "largest_file": 0.1}
        no_files = {"prefix_file_s": 0.0, "create_s": 0.0}
        freed = {**THREADS, "SCRTUNE_FLUSH_CPUS": "4-15"}
        for settings, seconds in ((THREADS, bound_s), (freed, freed_s)):
            assert parts(settings, **rates, **fast, **no_files).flush_s == pytest.approx(seconds)

    def test_a_wait_is_what_a_flush_outlasts_the_interval_and_the_place_for_one_more(self) -> None:
        short = replaced(between_s=0.01)
        two = {**ASYNC, "SCR_CACHE_SIZE": 2}
        found, roomy = parts(ASYNC, short), parts(two, short)
        assert found.wait_s == pytest.approx(np.maximum(0, found.flush_s - 0.01))
        assert roomy.wait_s == pytest.approx(np.maximum(0, found.flush_s - 0.01 - found.write_s))
        assert not np.any(parts(ASYNC, replaced(between_s=1e9)).wait_s)

    @pytest.mark.parametrize(("size", "intervals", "writes"), [(1, 1, 0), (2, 10, 10), (20, 10, 10)])
    def test_a_flush_has_until_the_next_one_where_the_cache_has_a_place_beside_it(
        self, size: int, intervals: int, writes: int
    ) -> None:
        """SCR gives up datasets that are not being flushed first."""
        settings = {**ASYNC, "SCR_FLUSH": 10, "SCR_CACHE_SIZE": size}
        found = parts(settings, replaced(between_s=1.0), beside=0.0)
        free_s = intervals * 1.0 + writes * found.write_s
        assert found.wait_s == pytest.approx(np.maximum(0, found.flush_s - free_s))

    def test_only_a_flush_beside_the_steps_slows_them_and_never_by_more_than_it_lasts(self) -> None:
        assert not np.any(parts(THREADS).slowdown_s)
        for cores in (4, 16, 64):
            found = parts({**ASYNC, "SCRTUNE_FLUSH_THREADS": 8}, replaced(cores=cores, mask_cores=cores))
            assert np.all(found.slowdown_s > 0)
            assert np.all(found.slowdown_s <= np.minimum(found.flush_s, SHAPE.between_s))

    def test_axls_own_number_of_threads_is_the_cores_16_at_most_and_the_files_and_of_sync_one(self) -> None:
        own = {**THREADS, "SCRTUNE_FLUSH_THREADS": 0}
        assert flush_threads(own, replaced(files=100)) == 16
        assert flush_threads(own, replaced(files=100, cores=4)) == 4
        assert flush_threads(own, replaced(files=3)) == 3
        assert flush_threads(CACHED, replaced(files=100)) == 1


schemes = st.sampled_from(["SINGLE", "PARTNER", "XOR", "RS"])
settings_of_jobs: st.SearchStrategy[Values] = st.builds(
    lambda chosen: {**DEFAULTS, **chosen},
    st.fixed_dictionaries(
        {
            "SCR_CACHE_BYPASS": st.sampled_from([0, 0, 1]),
            "SCR_CACHE_SIZE": st.integers(1, 3),
            "SCR_COPY_TYPE": schemes,
            "SCR_FLUSH": st.sampled_from([1, 2, 10]),
            "SCR_FLUSH_ASYNC": st.sampled_from([0, 1]),
            "SCR_FLUSH_TYPE": st.sampled_from(["SYNC", "PTHREAD"]),
            "SCRTUNE_FLUSH_THREADS": st.integers(0, 16),
            "SCRTUNE_FLUSH_CPUS": st.sampled_from(["", "8-15"]),
            "SCRTUNE_FLUSH_NICE": st.sampled_from([0, 19]),
            "SCRTUNE_DROP_BEHIND": st.sampled_from([0, 1]),
        }
    ),
)
shapes = st.builds(
    Shape,
    nodes=st.integers(1, 64),
    ranks_per_node=st.integers(1, 16),
    rank_bytes=st.floats(1, 1e12),
    files=st.integers(1, 1000),
    between_s=st.floats(1e-3, 1e5),
    cores=st.integers(1, 128),
    used_cores=st.floats(0, 16),
    mask_cores=st.integers(1, 128),
    on_device=st.booleans(),
)


class TestWhateverTheRates:
    @given(st.lists(settings_of_jobs, min_size=1, max_size=8), shapes)
    def test_each_of_many_settings_costs_what_it_costs_alone(
        self, candidates: list[Values], shape: Shape
    ) -> None:
        together = predict(Columns.of(candidates, shape), shape, RATES)
        for index, settings in enumerate(candidates):
            for part, alone in zip(together, parts(settings, shape), strict=True):
                assert part[index] == pytest.approx(alone, rel=1e-12)

    @given(settings_of_jobs, shapes)
    def test_all_parts_are_finite_and_not_negative(self, settings: Values, shape: Shape) -> None:
        for part in parts(settings, shape):
            assert np.all(np.isfinite(part))
            assert np.all(part >= 0)

    @given(settings_of_jobs, shapes, st.floats(1.1, 8))
    def test_more_bytes_never_block_less(self, settings: Values, shape: Shape, factor: float) -> None:
        more = msgspec.structs.replace(shape, rank_bytes=factor * shape.rank_bytes)
        assert np.all(blocking_s(settings, more) >= blocking_s(settings, shape) * (1 - 1e-9))

    @given(settings_of_jobs, shapes)
    def test_more_files_never_block_less(self, settings: Values, shape: Shape) -> None:
        """But for what more threads copy at once, and for the largest of them."""
        assume(settings["SCRTUNE_FLUSH_THREADS"] == 1 or settings["SCR_CACHE_BYPASS"])
        assume(shape.files > 1)
        more = msgspec.structs.replace(shape, files=2 * shape.files)
        assert np.all(parts(settings, more).write_s >= parts(settings, shape).write_s * (1 - 1e-9))

    @given(settings_of_jobs, shapes)
    def test_single_encodes_nothing_and_more_nodes_in_a_set_send_less(
        self, settings: Values, shape: Shape
    ) -> None:
        cached = {**settings, "SCR_CACHE_BYPASS": 0}
        assert not np.any(parts({**cached, "SCR_COPY_TYPE": "SINGLE"}, shape).encode_s)
        xor = {**cached, "SCR_COPY_TYPE": "XOR"}
        small, large = {**xor, "SCR_SET_SIZE": 2}, {**xor, "SCR_SET_SIZE": 16}
        assert np.all(parts(large, shape).encode_s <= parts(small, shape).encode_s)

    @given(settings_of_jobs, shapes, st.floats(1.1, 100))
    def test_a_longer_interval_never_waits_longer(
        self, settings: Values, shape: Shape, factor: float
    ) -> None:
        longer = msgspec.structs.replace(shape, between_s=factor * shape.between_s)
        assert np.all(parts(settings, longer).wait_s <= parts(settings, shape).wait_s)

    @given(settings_of_jobs, shapes)
    def test_a_node_alone_has_no_redundancy(self, settings: Values, shape: Shape) -> None:
        assert not np.any(parts(settings, msgspec.structs.replace(shape, nodes=1)).encode_s)


class TestCpusOfTheirOwn:
    """SCRTUNE_FLUSH_CPUS: four ranks, one thread each, that keep half a core busy at their full rate."""

    @staticmethod
    def on(cpus: str) -> Parts:
        own = {**ASYNC, "SCRTUNE_FLUSH_CPUS": cpus}
        shape = replaced(files=1, used_cores=4.0, between_s=1e6)
        rates = {"thread_bytes_per_s": GIB, "copy_bytes_per_s": 2.0 * GIB, "prefix_bytes_per_s": 1e18}
        rates |= {"shared_bytes_per_s": 1e18, "call_s": 0.0, "prefix_file_s": 0.0, "interference": 0.0}
        rates |= {"thread_cores": 0.0}
        return parts(own, shape, **rates)

    def test_two_are_enough_and_one_is_half_as_fast(self) -> None:
        enough, more, one = (self.on(cpus).flush_s for cpus in ("14-15", "3,8-11", "15"))
        assert enough == pytest.approx(more)
        assert one == pytest.approx(2 * enough)

    def test_on_fewer_they_take_less_from_the_ranks(self) -> None:
        one, two = (found.slowdown_s / found.flush_s for found in (self.on("15"), self.on("14-15")))
        assert one == pytest.approx(two / 2)

    @given(st.text(max_size=30) | st.text("0123456789-, ", max_size=400) | st.integers())
    def test_what_is_no_cpu_list_is_no_error(self, text: str | int) -> None:
        found = parts({**ASYNC, "SCRTUNE_FLUSH_CPUS": text})
        assert np.all(np.isfinite(found.flush_s) & (found.flush_s > 0))

    def test_a_flush_without_threads_is_not_held_to_them(self) -> None:
        alone = {**CACHED, "SCR_FLUSH_TYPE": "SYNC"}
        assert np.array_equal(parts(alone).flush_s, parts({**alone, "SCRTUNE_FLUSH_CPUS": "15"}).flush_s)


def test_draws_are_the_same_every_time_and_shares_at_most_1() -> None:
    again = draw_rates(np.random.default_rng(0), PRIORS, 64)
    assert list(again) == list(PRIORS)
    for name, drawn in again.items():
        assert np.array_equal(drawn, DRAWN[name])
        assert np.all(drawn > 0)
        assert np.median(np.log(drawn)) == pytest.approx(np.log(PRIORS[name].median), abs=0.5)
    assert np.all(again["bound_share"] <= 1)
    assert np.all(again["largest_file"] <= 1)


@given(st.floats(1e3, 1e12), st.floats(0.05, 2.0))
def test_a_measured_rate_is_weighed_against_the_prior(seen: float, spread: float) -> None:
    prior = PRIORS["cache_bytes_per_s"]
    found = prior.given(seen, spread)
    assert found.spread < min(prior.spread, spread)
    assert min(prior.median, seen) * 0.999 <= found.median <= max(prior.median, seen) * 1.001
