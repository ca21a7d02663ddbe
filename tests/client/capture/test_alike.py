"""Processes that do the same are known by what they read and wrote."""

import pytest

from scrtune.client.capture.alike import AlikeProcesses, Moved

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("moved", "count"),
    [
        ({}, 1),
        ({7: (100, MIB)}, 1),
        ({7: (100, MIB), 8: (100, MIB), 9: (90, MIB)}, 3),
        ({7: (100, MIB), 8: (100, 2 * MIB)}, 1),
        ({7: (100, MIB), 8: (10, MIB)}, 1),
        ({7: (100, MIB), 8: (100, MIB), 9: (100, 0)}, 1),
        ({7: (3, MIB), 8: (3, MIB)}, 1),
    ],
    ids=["none", "one", "alike", "other bytes", "other calls", "one reads nothing", "too few calls to say"],
)
def test_they_are_alike_in_calls_and_bytes(moved: dict[int, Moved], count: int) -> None:
    alike = AlikeProcesses()
    alike.add(moved)
    assert alike.count == count


def test_they_are_compared_by_all_that_they_did() -> None:
    alike = AlikeProcesses()
    alike.add({7: (10, MIB)})
    alike.add({8: (10, MIB)})
    assert alike.count == 2
    alike.add({8: (10, MIB)})
    assert alike.count == 1
