"""SCR logs local times."""

import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SCR logs local times: here those of UTC, in which the data were recorded."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
