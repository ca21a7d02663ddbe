"""The heap of a process that lives long: what was needed for a moment goes back."""

import sys

from scrtune.heap import give_back


def test_what_python_keeps_of_freed_objects_is_given_back() -> None:
    freed = [(number,) * 7 for number in range(2000)]
    freed.clear()
    before = sys.getallocatedblocks()
    give_back()
    assert before - sys.getallocatedblocks() > 1000
