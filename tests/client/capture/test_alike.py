"""Processes that do the same are known by what they read and wrote."""

import pytest

from scrtune.client.capture.alike import AlikeProcesses
from scrtune.intents.events import Operation
from scrtune.intents.trace.digest import AccessSum

MIB = 1024 * 1024


def seen(*processes: tuple[int, int, int], standing_for: int = 1) -> AlikeProcesses:
    """What processes did: (pid, writes, their bytes) each."""
    alike = AlikeProcesses(standing_for)
    for pid, calls, size in processes:
        alike.add(AccessSum(Operation.WRITE, (pid, pid), None, calls, size, 0, 0, 0))
    return alike


@pytest.mark.parametrize(
    ("processes", "count"),
    [
        ((), 1),
        (((7, 100, MIB),), 1),
        (((7, 100, MIB), (8, 100, MIB), (9, 90, MIB)), 3),
        (((7, 100, MIB), (8, 100, 2 * MIB)), 1),
        (((7, 100, MIB), (8, 10, MIB)), 1),
        (((7, 100, MIB), (8, 100, 0)), 1),
        (((7, 3, MIB), (8, 3, MIB)), 1),
        (((7, 10, MIB), (8, 10, MIB), (8, 10, MIB)), 1),
    ],
    ids=[
        "none",
        "one",
        "alike",
        "other bytes",
        "other calls",
        "no bytes",
        "too few calls",
        "by all they did",
    ],
)
def test_they_are_alike_in_calls_and_bytes(processes: tuple[tuple[int, int, int], ...], count: int) -> None:
    assert seen(*processes).count() == count


def test_one_stands_for_all_until_another_is_seen() -> None:
    alike = seen((7, 10, MIB), (8, 10, MIB))
    alike.standing_for = alike.count()
    assert (alike.take(), alike.has_another) == (1, False)
    alike.add(AccessSum(Operation.WRITE, (7, 7), None, 10, MIB, 0, 0, 0))
    assert (alike.take(), alike.has_another) == (2, False)
    alike.add(AccessSum(Operation.WRITE, (9, 9), None, 10, MIB, 0, 0, 0))
    assert alike.has_another


def test_calls_that_move_nothing_do_not_count() -> None:
    alike = seen((7, 10, MIB), (8, 10, MIB))
    alike.add(AccessSum(Operation.METADATA, (9, 9), None, 10, 0, 0, 0, 0))
    assert alike.count() == 2
