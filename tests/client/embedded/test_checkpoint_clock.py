"""When a checkpoint is due."""

from scrtune.client.embedded.checkpoint_clock import CheckpointClock
from scrtune.client.embedded.settings import Levers


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
