"""How work that goes on beside an application lets its threads go on."""

from collections.abc import Callable
from typing import TypeAlias

Rest: TypeAlias = Callable[[], bool]
"""To be called between small pieces of work; returns whether somebody waits for its end."""


def no_rest() -> bool:
    """Work on."""
    return False
