"""Times within the ledger: whole nanoseconds, so that sums are exact. Loads no numpy."""

NEVER = 1 << 62
NS = 1_000_000_000
"""Nanoseconds in a second."""


def to_ns(seconds: float) -> int:
    """Return whole nanoseconds."""
    return round(seconds * NS)
