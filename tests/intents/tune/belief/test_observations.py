"""Observations: a wait is charged to the flush that caused it, and memory is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.events import OutputCompleted
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.observations import Observations, WaitAttribution


def cost(dataset: int, **parts: float) -> CheckpointCost:
    return CheckpointCost(dataset=dataset, generation=dataset, time_s=0.0, blocking_s=1.0, **parts)


class Outputs:
    """Outputs of 1 s that may wait before it, 10 s of computation between them, and flushes of any length."""

    def __init__(self, *, blocking: bool = False) -> None:
        self._waits = WaitAttribution()
        self._blocking = blocking
        self._now_s, self._dataset = 100.0, 0
        self._under_way: list[tuple[float, CheckpointCost]] = []
        self.complete: list[CheckpointCost] = []

    def one(self, *, flush_s: float = 0.0, wait_s: float = 0.0, between_s: float = 10.0) -> "Outputs":
        self._dataset += 1
        start_s = self._now_s + between_s
        end_s = start_s + wait_s + 1.0 + flush_s * self._blocking
        made = CheckpointCost(
            dataset=self._dataset,
            generation=self._dataset,
            time_s=end_s + flush_s * (not self._blocking),
            blocking_s=end_s - start_s,
            wait_s=wait_s,
            flush_s=flush_s,
            flushed=flush_s > 0,
            blocked_on_flush_s=flush_s * self._blocking,
            between_s=between_s,
        )
        self._until(end_s)
        self._waits.output(
            OutputCompleted(
                dataset=self._dataset, name=str(self._dataset), start_s=start_s, end_s=end_s, wait_s=wait_s
            )
        )
        self._under_way.append((made.time_s, made))
        self._now_s = end_s
        return self

    def _until(self, now_s: float) -> None:
        """A cost is known when its flush has ended."""
        for each in sorted(self._under_way, key=lambda each: each[0]):
            if each[0] <= now_s:
                self._under_way.remove(each)
                self.complete += self._waits.add(each[1])

    def told(self) -> list[tuple[int, float, float]]:
        """Return dataset, blocking and waiting seconds of the complete checkpoints, in their order."""
        self._until(1e9)
        return [(each.dataset, each.blocking_s, each.wait_s) for each in self.complete]


def test_a_checkpoint_that_waits_pays_nothing_for_it_and_the_one_before_does() -> None:
    assert Outputs().one(flush_s=13.0).one(wait_s=3.0).told() == [(1, 4.0, 3.0), (2, 1.0, 0.0)]


def test_so_it_does_where_outputs_that_are_not_flushed_lie_between() -> None:
    """With SCR_FLUSH=2: the one that waits is flushed itself, so that its cost is known only much later."""
    outputs = Outputs()
    for number in range(4):
        outputs.one(flush_s=24.0, wait_s=3.0 * (number > 0)).one()
    waits_s = {dataset: wait_s for dataset, _, wait_s in outputs.told() if dataset % 2}
    assert waits_s == {1: 3.0, 3: 3.0, 5: 3.0}
    assert {blocking_s for dataset, blocking_s, _ in outputs.told() if not dataset % 2} == {1.0}


def test_a_flush_that_ends_before_the_next_output_was_waited_for_by_nobody() -> None:
    assert Outputs().one(flush_s=9.0).one(wait_s=3.0).one().told()[0] == (1, 1.0, 0.0)


def test_the_settings_that_are_charged_are_those_of_the_flush() -> None:
    outputs = Outputs().one(flush_s=13.0).one(wait_s=3.0)
    outputs.told()
    assert [(each.generation, each.wait_s) for each in outputs.complete] == [(1, 3.0), (2, 0.0)]


def test_in_a_row_of_waits_each_goes_one_back() -> None:
    row = Outputs()
    for number in range(1, 5):
        row.one(flush_s=10.0 + number, wait_s=number - 1.0)
    assert row.told() == [(1, 2.0, 1.0), (2, 3.0, 2.0), (3, 4.0, 3.0)], "the last one is not known yet"


def test_a_wait_of_its_own_does_not_hide_that_another_one_may_wait_for_it() -> None:
    """An output that waited for longer than the job computes: its own flush outlasts the interval as well."""
    row = Outputs()
    for number in range(1, 6):
        row.one(flush_s=9.5, wait_s=9.0 * (number > 1), between_s=0.5)
    assert row.told() == [(number, 10.0, 9.0) for number in range(1, 5)]


def test_nothing_is_held_back_where_no_wait_can_come() -> None:
    for outputs in (
        Outputs().one(flush_s=2.0),
        Outputs(blocking=True).one(flush_s=10.0),
        Outputs().one(),
        Outputs().one(flush_s=10.0, between_s=0.0),
    ):
        assert len(outputs.told()) == 1


def test_to_start_a_flush_beside_the_computation_takes_a_little() -> None:
    waits = WaitAttribution()
    slow = cost(1, flush_s=10.0, flushed=True, blocked_on_flush_s=0.005, between_s=10.0)
    assert waits.add(slow) == []


@given(st.lists(st.tuples(st.floats(0, 40), st.floats(0, 5)), min_size=1, max_size=40))
def test_seconds_are_neither_lost_twice_nor_made(row: list[tuple[float, float]]) -> None:
    outputs = Outputs()
    for flush_s, wait_s in row:
        outputs.one(flush_s=flush_s, wait_s=wait_s)
    found = outputs.told()
    assert len({dataset for dataset, *_ in found}) == len(found)
    waited_s = sum(wait_s for _, wait_s in row)
    assert sum(wait_s for *_, wait_s in found) <= waited_s + 1e-9
    assert all(blocking_s == pytest.approx(1.0 + wait_s) for _, blocking_s, wait_s in found)


def test_of_each_settings_the_last_observations_are_remembered_in_order() -> None:
    seen = Observations()
    for number in range(1, 10_001):
        seen.add(cost(number), {**DEFAULTS, "SCR_FLUSH": 10 if number <= 3 else 1}, run=0)
    times = [each.time for each in seen.all]
    assert times == sorted(times)
    assert times[:3] == [1, 2, 3], "they are all there is of those settings"
    assert times[3:] == list(range(10_000 - len(times) + 4, 10_001))
    assert len(times) <= 20


def test_of_settings_without_number_those_used_last_are_remembered() -> None:
    seen = Observations()
    for number in range(1, 1001):
        seen.add(cost(number), {**DEFAULTS, "SCR_FLUSH": number}, run=0)
    assert 10 <= len(seen.all) <= 40
    assert seen.all[-1].time == 1000
    seen.forget(997)
    assert [each.time for each in seen.all] == [997, 998, 999, 1000]


def test_past_the_cache_nothing_is_flushed_though_scr_tells_of_a_flush() -> None:
    """It enters the dataset into its index: a flush of milliseconds would say how fast storage is."""
    observations = Observations()
    for dataset, bypass in enumerate((0, 1), 1):
        told = cost(dataset, write_s=1.0, encode_s=0.001, flush_s=0.005)
        observations.add(told, {**DEFAULTS, "SCR_CACHE_BYPASS": bypass}, 1)
    cached, past = observations.all
    assert (cached.encode_s, cached.flush_s) == (0.001, 0.005)
    assert (past.encode_s, past.flush_s, past.write_s, past.flushed) == (0.0, 0.0, 1.0, True)


def test_a_slowdown_may_be_known_better_later() -> None:
    observations = Observations()
    for run in (1, 2):
        observations.add(cost(7, slowdown_s=9.0, slowdown_error_s=9.0), DEFAULTS, run)
    observations.amend(cost(7, slowdown_s=1.0, slowdown_error_s=0.5, reference_error_s=0.25), 2)
    assert [each.slowdown_s for each in observations.all] == [9.0, 1.0], "datasets are numbered anew"
    assert (observations.all[1].slowdown_error_s, observations.all[1].reference_error_s) == (0.5, 0.25)


def test_so_it_may_be_of_a_checkpoint_of_which_a_wait_is_not_known_yet() -> None:
    waits = WaitAttribution()
    waits.output(OutputCompleted(dataset=1, name="1", start_s=0.0, end_s=1.0))
    beside = {"flush_s": 13.0, "between_s": 10.0, "slowdown_s": 9.0}
    assert not waits.add(cost(1, flushed=True, **beside)), "whether an output waits for its flush"
    waits.amend(cost(1, slowdown_s=1.0))
    waits.output(OutputCompleted(dataset=2, name="2", start_s=11.0, end_s=15.0, wait_s=3.0))
    assert {each.dataset: each.slowdown_s for each in waits.add(cost(2))} == {1: 1.0, 2: 0.0}
