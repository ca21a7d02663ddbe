"""How work that goes on beside an application lets its threads go on."""

from collections.abc import Callable
from typing import TypeAlias

YieldHook: TypeAlias = Callable[[], bool]
"""To be called between small pieces of work; returns whether somebody waits for its end."""


def never_yield() -> bool:
    """Work on."""
    return False
