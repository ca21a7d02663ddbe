"""The native scanner."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scrtune.client.capture import scanner
from scrtune.client.capture.forward import Forwarder

from .followed import Kept, Start
from .scanned import Watched


@pytest.fixture(scope="session")
def native() -> Callable[[], Watched]:
    path = scanner.libscrtune_path()
    if path is None:
        pytest.skip("libscrtune.so was not built")
    return lambda: Watched(path)


@pytest.fixture
def sink() -> Kept:
    return Kept()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Where the files are."""
    (tmp_path / "traces").mkdir()
    return tmp_path / "traces"


@pytest.fixture
def start(traces: Path) -> Iterator[Start]:
    """Call it to have a forwarder, with these options."""
    with contextlib.ExitStack() as stack:

        def make(sink: Kept, log_prefix: Path = traces / "app", **options: object) -> Forwarder:
            return stack.enter_context(contextlib.closing(Forwarder(log_prefix, sink, **options)))  # type: ignore[arg-type]

        yield make


@pytest.fixture
def forwarder(start: Start, sink: Kept) -> Forwarder:
    return start(sink)
