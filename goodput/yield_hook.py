"""Callback by which background work yields to the threads of the application."""

from collections.abc import Callable
from typing import TypeAlias

YieldHook: TypeAlias = Callable[[], bool]
"""To be called between small pieces of work; returns whether somebody waits for its end."""


def never_yield() -> bool:
    """Work on."""
    return False
