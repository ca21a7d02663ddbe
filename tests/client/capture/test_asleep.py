"""A forwarder sleeps while nothing comes, and wakes at once."""

import select
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scrtune.client.capture.follow import ForwardCounts
from scrtune.client.capture.forward import Forwarder
from scrtune.client.capture.library_forwarder import LibraryForwarder

from .followed import Kept, Start, append


class Sleeper:
    """Does one thing of `meanwhile` in each sleep, which then goes on; ends in the sleep after the last."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        self._meanwhile = list(meanwhile)
        self.paused_s: list[float] = []
        self.slept_s: list[float] = []
        self.was_woken: list[bool] = []

    def __call__(self, seconds: float, *fds: int) -> bool:
        """Return whether all was done."""
        if seconds <= 0.1:  # the pause between two rounds
            self.paused_s.append(seconds)
            return False
        self.slept_s.append(seconds)
        is_last = not self._meanwhile
        if not is_last:
            self._meanwhile.pop(0)()
        self.was_woken.append(bool(select.select(fds, [], [], 0 if is_last else seconds)[0]))
        return is_last


@pytest.fixture
def library(tmp_path: Path, endpoint: str) -> Iterator[LibraryForwarder]:
    with closing(LibraryForwarder(tmp_path / "library.events", endpoint, ForwardCounts())) as made:
        yield made


def test_a_line_and_a_new_file_wake_it(traces: Path, forwarder: Forwarder, sink: Kept) -> None:
    file, other = traces / "app-1.pfw", traces / "app-2.pfw"
    sleeper = Sleeper(
        lambda: append(file, b"one\n"),
        lambda: append(other, b"two\n"),
        lambda: append(file, b"three\n"),
    )
    forwarder.run(sleeper)
    assert sink.chunks == [b"one\n", b"two\n", b"three\n"]
    assert sleeper.was_woken == [True, True, True, False], "its own mark is no change"
    assert min(sleeper.slept_s) > 1


def test_the_file_of_the_library_wakes_it(
    tmp_path: Path, forwarder: Forwarder, library: LibraryForwarder
) -> None:
    sleeper = Sleeper(lambda: append(tmp_path / "library.events", b"nonsense\n"))
    forwarder.run(sleeper, library)
    assert library.counts.events_garbage == 1
    assert sleeper.was_woken == [True, False]
    assert min(sleeper.slept_s) > 1


def test_only_the_beginning_of_a_run_is_told_without_a_pause(
    tmp_path: Path, forwarder: Forwarder, library: LibraryForwarder
) -> None:
    began_at: list[int] = []

    def say(line: bytes) -> None:
        began_at.append(len(sleeper.paused_s))
        append(tmp_path / "library.events", line)

    started = b'{"type":"started","time_s":1.0,"prefix":"%s"}\n' % bytes(tmp_path)
    sleeper = Sleeper(lambda: say(started), lambda: say(b"nonsense\n"))
    forwarder.run(sleeper, library)
    assert [sleeper.paused_s[each] for each in began_at] == [0.0, 0.1]


def test_what_cannot_be_watched_is_looked_at_more_often(tmp_path: Path, start: Start, sink: Kept) -> None:
    later = tmp_path / "later"
    sleeper = Sleeper(lambda: (later.mkdir(), append(later / "app-1.pfw", b"one\n")))
    start(sink, later / "app").run(sleeper)
    assert sink.lines == b"one\n"
    assert sleeper.slept_s[0] < 0.25
    assert sleeper.slept_s[-1] > 1
