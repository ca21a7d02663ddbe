"""Which numbers an event may carry: a sum of them must stay finite, and fit into JSON and MessagePack."""

from typing import Any

import msgspec

LARGEST_INTEGER = 2**53
LARGEST_FLOAT = 1e11
"""Seconds since the epoch reach it in the year 5138; milliseconds since the epoch are beyond it."""
LONGEST_TEXT = 65_536


def plausible(value: Any) -> bool:
    """Whether `value`, an event or a part of one, holds no number or text out of bounds, and no NaN."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    elif isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, tuple):
        return all(map(plausible, value))
    if isinstance(value, int):
        return -LARGEST_INTEGER <= value <= LARGEST_INTEGER
    if isinstance(value, float):
        return -LARGEST_FLOAT <= value <= LARGEST_FLOAT
    return value is None or (isinstance(value, str) and len(value) <= LONGEST_TEXT)
