"""Intent 5: the largest set that is safe enough, and the losses that it survives."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtrc

from scrtune.goodput.interval.failures import Failures
from scrtune.intents.declared import Declared
from scrtune.intents.events import Values
from scrtune.intents.observe.faults.fault_tolerance import (
    SET_SHARE,
    FaultTolerance,
    largest_set,
    p_loss,
    set_sizes,
)
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.parameters import declared

from .....support.situations import parameter, situation

XOR: Values = {"SCR_CACHE_BYPASS": 0, "SCR_CACHE_SIZE": 2, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 10}
RS: Values = {**XOR, "SCR_COPY_TYPE": "RS"}
OWN: dict[str, str] = {"SCR_COPY_TYPE": "user config", "SCR_CACHE_BYPASS": "user config"}


class TestProbability:
    @pytest.mark.parametrize(("nodes", "size", "sizes"), [
        (16, 8, (8, 8)), (17, 8, (9, 8)), (7, 8, (7,)), (20, 8, (10, 10)), (23, 5, (6, 6, 6, 5)), (1, 8, (1,))
    ])  # fmt: skip
    def test_sets_are_those_of_redset(self, nodes: int, size: int, sizes: tuple[int, ...]) -> None:
        assert set_sizes(nodes, size) == sizes

    @pytest.mark.parametrize("tolerated", [0, 1, 2, 3])
    def test_it_is_that_of_all_outcomes(self, tolerated: int) -> None:
        nodes, p_node, total = 7, 0.2, 0.0
        sets = (range(4), range(4, 7))
        for count in range(nodes + 1):
            for lost in combinations(range(nodes), count):
                if any(len(set(lost) & set(each)) > tolerated for each in sets):
                    total += p_node**count * (1 - p_node) ** (nodes - count)
        assert p_loss(nodes, 3, tolerated, p_node) == pytest.approx(total)

    def test_rare_losses_lose_no_digits_and_sure_ones_are_sure(self) -> None:
        assert p_loss(8, 8, 1, 1e-12) == pytest.approx(28e-24)
        assert p_loss(100_000, 100_000, 1, 0.5) == pytest.approx(1.0)
        assert p_loss(8, 8, 8, 0.9) == p_loss(8, 8, 1, 0.0) == 0.0

    @given(st.integers(1, 3000), st.integers(0, 255), st.floats(1e-12, 1.0))
    def test_it_is_scipys_of_one_set(self, nodes: int, tolerated: int, p_node: float) -> None:
        expected = float(bdtrc(tolerated, nodes, p_node)) if nodes > tolerated else 0.0
        assert p_loss(nodes, nodes, tolerated, p_node) == pytest.approx(expected, rel=1e-8, abs=1e-290)

    @given(st.integers(2, 400), st.integers(1, 400), st.integers(0, 5), st.floats(1e-9, 0.9))
    def test_a_larger_set_is_never_safer(self, nodes: int, size: int, tolerated: int, p_node: float) -> None:
        assert p_loss(nodes, size + 1, tolerated, p_node) >= p_loss(nodes, size, tolerated, p_node) * (
            1 - 1e-9
        )

    @given(st.integers(2, 400), st.integers(1, 400), st.integers(0, 5), st.floats(1e-9, 0.9))
    def test_more_tolerated_losses_are_never_less_safe(
        self, nodes: int, size: int, tolerated: int, p_node: float
    ) -> None:
        assert p_loss(nodes, size, tolerated + 1, p_node) <= p_loss(nodes, size, tolerated, p_node) * (
            1 + 1e-9
        )


class TestLargestSet:
    @pytest.mark.parametrize(
        ("nodes", "tolerated", "p_node", "size"),
        [
            (8, 1, 1e-6, 8),
            (1000, 1, 2.6e-4, 66),
            (1000, 1, 0.05, 2),
            (1000, 2, 2.6e-4, 500),
            (2, 1, 0.5, 2),
        ],
    )
    def test_the_largest_that_adds_one_percent(
        self, nodes: int, tolerated: int, p_node: float, size: int
    ) -> None:
        found, _ = largest_set(nodes, tolerated, p_node)
        assert found == size
        bound = SET_SHARE * p_loss(nodes, 1, 0, p_node)
        assert found == 2 or p_loss(nodes, found, tolerated, p_node) <= bound
        assert found == nodes or p_loss(nodes, found + 1, tolerated, p_node) > bound

    def test_what_bounded_it_is_said(self) -> None:
        assert largest_set(8, 1, 1e-6)[1] == "the job has 8 nodes"
        assert "no set is small enough" in largest_set(1000, 1, 0.05)[1]
        assert largest_set(10_000, 3, 1e-9, "RS") == (
            253,
            "redset's Reed-Solomon codes have 256 symbols at most",
        )

    @given(st.integers(2, 2000), st.integers(1, 4), st.floats(1e-9, 0.5), st.floats(1, 10))
    def test_the_more_is_lost_the_smaller_it_is(
        self, nodes: int, tolerated: int, p_node: float, times: float
    ) -> None:
        worse = largest_set(nodes, tolerated, min(0.9, p_node * times))[0]
        assert max(2, tolerated + 1) <= worse <= max(largest_set(nodes, tolerated, p_node)[0], tolerated + 1)


class TestParameters:
    def test_a_safe_job_gets_one_large_set_which_stores_less(self) -> None:
        found = parameter("SCR_SET_SIZE", situation(XOR, nodes=64, ranks=128, sources=OWN))
        assert (found.value, found.is_users_word, found.clipped) == (32, False, "")
        assert "stores 1.03 x the data, with 8 1.14 x" in found.inputs
        assert found.overruled == "trials decide: it is a lever"

    def test_a_job_that_often_fails_gets_smaller_ones(self) -> None:
        often = Failures(observed_s=86_400.0, unknown=400, nodes=64)
        found = parameter("SCR_SET_SIZE", situation(XOR, nodes=64, ranks=128, sources=OWN, failures=often))
        assert found.value == 2
        assert "no set is small enough" in found.clipped
        assert found.stands, "no trial would find it: it costs more"

    @pytest.mark.parametrize(
        ("settings", "nodes", "flush", "why"),
        [
            ({**XOR, "SCR_COPY_TYPE": "SINGLE"}, 64, None, "SINGLE has no parity"),
            ({**XOR, "SCR_COPY_TYPE": "PARTNER"}, 64, None, "PARTNER has no parity"),
            (XOR, 1, None, "SINGLE has no parity"),
            ({**XOR, "SCR_CACHE_BYPASS": 1}, 64, None, "bypass the cache"),
            (XOR, 64, FlushBehaviour(), "not known yet"),
            (XOR, 8, None, "makes the same sets"),
        ],
    )
    def test_else_it_is_said_why_not(
        self, settings: Values, nodes: int, flush: FlushBehaviour | None, why: str
    ) -> None:
        flushed = {} if flush is None else {"flush": flush}
        found = parameter("SCR_SET_SIZE", situation(settings, nodes=nodes, sources=OWN, **flushed))
        assert found.value is None
        assert why in found.why_not

    def test_your_own_set_size_stands_where_a_smaller_one_would_be_safer(self) -> None:
        often = Failures(observed_s=86_400.0, unknown=400, nodes=64)
        now = situation({**XOR, "SCR_SET_SIZE": 4}, nodes=64, ranks=128, failures=often)
        assert parameter("SCR_SET_SIZE", now).overruled == "your own value stands (user config)"

    @pytest.mark.parametrize(("losses", "nodes", "value"), [(2, 8, 2), (3, 8, 3), (7, 8, 7), (9, 8, 7)])
    def test_rs_survives_what_you_declare(self, losses: int, nodes: int, value: int) -> None:
        now = situation(XOR, nodes=nodes, said=Declared(losses=losses), sources=OWN)
        found = parameter("SCR_SET_FAILURES", now)
        assert (found.value, found.is_users_word) == (value, True)
        assert bool(found.clipped) == (losses > value)

    @pytest.mark.parametrize(
        ("losses", "why"), [(None, "--tolerate-losses N says how many"), (1, "only RS reads it")]
    )
    def test_and_nothing_else_reads_it(self, losses: int | None, why: str) -> None:
        now = situation(XOR, said=Declared(losses=losses), sources=OWN)
        assert why in parameter("SCR_SET_FAILURES", now).why_not

    def test_where_not_all_can_be_survived_that_is_said(self) -> None:
        now = situation({"SCR_CACHE_BYPASS": 0}, nodes=1, said=Declared(losses=2), sources=OWN)
        assert "as much as can be here (the most of 1 node)" in parameter("SCR_SET_FAILURES", now).why_not

    def test_a_set_has_more_members_than_it_may_lose(self) -> None:
        now = situation({**RS, "SCR_SET_SIZE": 3}, said=Declared(losses=5), sources=OWN)
        found = parameter("SCR_SET_SIZE", now)
        assert (found.value, found.is_users_word) == (6, True)
        made = {
            name: value for each, veto in declared(now) for name, value in each.changes.items() if not veto
        }
        assert made == {"SCR_SET_SIZE": 6, "SCR_SET_FAILURES": 5}

    @given(st.integers(0, 12), st.integers(0, 12), st.integers(2, 12))
    def test_more_losses_never_mean_a_smaller_number(self, losses: int, more: int, nodes: int) -> None:
        def survived(count: int) -> int:
            now = situation(XOR, nodes=nodes, said=Declared(losses=count), sources=OWN)
            return int(parameter("SCR_SET_FAILURES", now).value or 0)

        assert survived(losses + more) >= survived(losses)


def test_the_sentence_says_how_long_what_is_exposed_and_how_likely_it_is_lost() -> None:
    assert "not known yet" in FaultTolerance().sentence()
    said = situation(XOR).intents.tolerance.sentence()
    assert "XOR in 1 set of 8 nodes or more survives 1 loss a set" in said
    exposure_s = situation(XOR).intents.tolerance.exposure_s
    assert math.isclose(exposure_s, 10 * 600 + 60)
    assert "go to the prefix directory" in situation({"SCR_CACHE_BYPASS": 1}).intents.tolerance.sentence()
    single = situation({**XOR, "SCR_COPY_TYPE": "SINGLE"}).intents.tolerance.sentence()
    assert "SINGLE survives the loss of no node: it is lost with probability" in single
