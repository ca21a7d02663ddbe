"""Observations: a wait is charged to the flush that caused it, and memory is bounded."""

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.observations import Observations, WaitAttribution


def cost(  # noqa: PLR0913 - of a checkpoint
    dataset: int,
    *,
    blocking_s: float = 1.0,
    flush_s: float = 0.0,
    wait_s: float = 0.0,
    blocked_s: float = 0.0,
    between_s: float = 10.0,
) -> CheckpointCost:
    return CheckpointCost(
        dataset=dataset,
        generation=dataset,
        time_s=10.0 * dataset,
        blocking_s=blocking_s + wait_s,
        wait_s=wait_s,
        flush_s=flush_s,
        flushed=flush_s > 0,
        blocked_on_flush_s=blocked_s,
        between_s=between_s,
        write_s=blocking_s,
    )


def told(*costs: CheckpointCost) -> list[tuple[int, float, float]]:
    """Return dataset, blocking and waiting seconds of the checkpoints that are complete, in their order."""
    waits = WaitAttribution()
    return [(each.dataset, each.blocking_s, each.wait_s) for one in costs for each in waits.add(one)]


def test_a_checkpoint_that_waits_pays_nothing_for_it_and_the_one_before_does() -> None:
    slow, waiting = cost(1, flush_s=10.0), cost(2, wait_s=3.0)
    assert told(slow, waiting) == [(1, 4.0, 3.0), (2, 1.0, 0.0)]


def test_the_settings_that_are_charged_are_those_of_the_flush() -> None:
    waits = WaitAttribution()
    assert waits.add(cost(1, flush_s=10.0)) == []
    charged, own = waits.add(cost(2, wait_s=3.0))
    assert (charged.generation, own.generation) == (1, 2)


def test_in_a_row_of_waits_each_goes_one_back() -> None:
    row = [cost(number, flush_s=10.0, wait_s=float(number)) for number in range(1, 5)]
    assert told(*row) == [(1, 3.0, 2.0), (2, 4.0, 3.0), (3, 5.0, 4.0)], "the last one is not known yet"


def test_a_wait_of_its_own_does_not_hide_that_another_one_may_wait_for_it() -> None:
    """An output that waited for longer than the job computes: its own flush outlasts the interval as well."""
    row = [cost(number, flush_s=10.0, wait_s=9.0 * (number > 2), between_s=0.5) for number in range(1, 6)]
    assert told(*row) == [(1, 1.0, 0.0), *((number, 10.0, 9.0) for number in (2, 3, 4))]


def test_nothing_is_held_back_where_no_wait_can_come() -> None:
    for each in (
        cost(1, flush_s=2.0),
        cost(1, flush_s=10.0, blocked_s=10.0),
        cost(1),
        cost(1, flush_s=10.0, between_s=0.0),
    ):
        assert len(told(each)) == 1


def test_to_start_a_flush_beside_the_computation_takes_a_little() -> None:
    slow, waiting = cost(1, flush_s=10.0, blocked_s=0.005), cost(2, wait_s=3.0)
    assert told(slow, waiting) == [(1, 4.0, 3.0), (2, 1.0, 0.0)]


def test_seconds_are_neither_lost_nor_made() -> None:
    row = [cost(number, flush_s=9.0 + number % 2, wait_s=0.5 * (number % 3)) for number in range(1, 40)]
    found = told(*row, cost(40))
    first_wait_s = row[0].wait_s  # of a flush that nobody saw
    assert sum(each[1] for each in found) + first_wait_s == sum(each.blocking_s for each in row) + 1.0


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
    seen.forget(4)
    assert [each.time for each in seen.all] == [997, 998, 999, 1000]
