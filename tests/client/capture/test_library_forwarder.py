"""The preloaded library's events on their way to the daemon: each one once, whatever is restarted."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.capture.follow import ForwardCounts
from scrtune.client.capture.library_forwarder import LibraryForwarder
from scrtune.goodput.events import JobEnded, JobStarted, OutputCompleted, OutputStarted
from scrtune.intents.events import SettingsObserved

from ...support.ear import Ear, kinds

WaitUntil = Callable[[Callable[[], object]], None]
BEGUN_S = float(int(time.time()) - 1000)


def line(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, **fields}) + "\n"


def started(time_s: float, prefix: Path) -> str:
    return line("started", time_s=time_s, ranks=2, nodes=1, cwd=str(prefix), prefix=str(prefix))


def output(dataset: int) -> str:
    """One output follows the other: what lies between them would be a step, an event of its own."""
    begun_s = BEGUN_S + 2 * dataset - 2
    times = {"entered_s": begun_s, "opened_s": begun_s + 0.1, "closing_s": begun_s + 0.5}
    return line("output", dataset=dataset, name=f"c{dataset}", closed_s=begun_s + 2, **times)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "library.events"


@pytest.fixture
def forwarder(file: Path, endpoint: str) -> Iterator[Callable[[], LibraryForwarder]]:
    """A forwarder; the one before it is killed: nothing it holds is sent any more."""
    made: list[LibraryForwarder] = []

    def make() -> LibraryForwarder:
        for each in made:
            each.close()
        made.append(LibraryForwarder(file, endpoint, ForwardCounts()))
        return made[-1]

    yield make
    made and made[-1].close()


Make = Callable[[], LibraryForwarder]


def append(file: Path, *lines: str) -> None:
    with file.open("a") as opened:
        opened.writelines(lines)


def work(forwarder: LibraryForwarder) -> None:
    while forwarder.poll():
        pass


def test_events_arrive_as_the_file_grows_which_may_appear_later(
    file: Path, ear: Ear, forwarder: Make
) -> None:
    ear.listen()
    first = forwarder()
    assert not first.poll()
    append(file, started(BEGUN_S, file.parent), output(1))
    work(first)
    assert kinds(ear.hear(4)) == ["JobStarted", "SettingsObserved", "OutputStarted", "OutputCompleted"]
    append(file, output(2), output(3)[:20])
    work(first)
    assert kinds(ear.hear(2)) == ["OutputStarted", "OutputCompleted"]
    append(file, output(3)[20:], line("job_ended", time_s=BEGUN_S + 9))
    work(first)
    assert kinds(ear.hear(3)) == ["OutputStarted", "OutputCompleted", "JobEnded"]
    assert [sequence for _, sequence in ear.messages] == [0, 1, 2]
    assert len({sender for sender, _ in ear.messages}) == 1


def test_a_forwarder_that_is_started_again_sends_what_is_news(file: Path, ear: Ear, forwarder: Make) -> None:
    ear.listen()
    append(file, started(BEGUN_S, file.parent), *map(output, range(1, 400)))
    work(forwarder())
    ear.hear(2 + 2 * 399)
    append(file, output(400), line("job_ended", time_s=BEGUN_S + 900))
    again = forwarder()
    work(again)
    first, second, third = ear.hear(3)
    assert isinstance(first, OutputStarted)
    assert isinstance(second, OutputCompleted)
    assert (first.dataset, second.dataset, third) == (400, 400, JobEnded(time_s=BEGUN_S + 900))
    append(file, started(BEGUN_S + 910, file.parent))
    again = forwarder()
    work(again)
    begun, settings = ear.hear(2)
    assert begun == JobStarted(time_s=BEGUN_S + 910, ranks=2, nodes=1)
    assert isinstance(settings, SettingsObserved)
    assert again.counts.events_repeated == 2 + 2 * 400 + 1
    assert ear.hears_nothing()


def test_while_nobody_listens_the_events_wait_and_none_comes_twice(
    file: Path, ear: Ear, forwarder: Make
) -> None:
    count = 4000  # more than fits into all queues between the two
    append(file, started(BEGUN_S, file.parent), *map(output, range(1, count)))
    first = forwarder()
    for _ in range(100):
        first.poll()
    assert first.poll(), "something waits"
    ear.listen()
    expected = 2 + 2 * (count - 1)
    while len(ear.events) < expected:
        first.poll()
        ear.hear_message()
    assert len(ear.events) == expected
    assert ear.hears_nothing()
    assert first.counts.events == expected
    assert [sequence for _, sequence in ear.messages] == list(range(len(ear.messages)))


@pytest.mark.parametrize(
    "mark", ["", "nan", "inf", "1e300", "x", "\xe4", pytest.param(str(time.time() + 1e6), id="ahead")]
)
def test_a_bad_mark_loses_no_event(file: Path, ear: Ear, forwarder: Make, mark: str) -> None:
    file.with_name("library.events.sent").write_text(mark)
    ear.listen()
    append(file, started(BEGUN_S, file.parent), output(1))
    work(forwarder())
    assert len(ear.hear(4)) == 4


def test_a_mark_that_cannot_be_written_loses_no_event(file: Path, ear: Ear, forwarder: Make) -> None:
    file.with_name("library.events.sent").mkdir()
    ear.listen()
    append(file, started(BEGUN_S, file.parent), output(1))
    work(forwarder())
    assert len(ear.hear(4)) == 4


def test_garbage_is_counted_and_skipped(file: Path, ear: Ear, forwarder: Make) -> None:
    ear.listen()
    append(file, started(BEGUN_S, file.parent), "nonsense\n", '{"type":"dance"}\n', output(1))
    first = forwarder()
    work(first)
    assert len(ear.hear(4)) == 4
    assert first.counts.events_garbage == 2


def test_the_command_follows_the_file_of_its_environment_and_the_daemon_gets_each_event_once(
    file: Path, real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start()
    append(file, started(BEGUN_S, file.parent), *map(output, range(1, 6)))
    named = [str(file.with_name("trace")), daemon.paths.events_endpoint]
    own = {"SCRTUNE_EVENTS_FILE": str(file), "SCRTUNE_RUN_DIR": str(daemon.paths.base), "SCRTUNE_JOB_ID": "j"}
    for number, arguments in ((signal.SIGKILL, named), (signal.SIGTERM, [])):
        with subprocess.Popen(
            [sys.executable, "-m", "scrtune", "forward", *arguments],
            env={**os.environ, **own},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            expected = 5 if number == signal.SIGKILL else 6
            wait_until(lambda expected=expected: daemon.view("status").checkpoints == expected)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        append(file, output(6))
    assert "events=2," in errors
    assert daemon.view("status").checkpoints == 6
    events = 3 + 2 * 6  # two of the run, what its prefix directory is on, and two of each output
    assert daemon.until_events(events).counters.events == events
    assert daemon.view("status").counters.dropped == {}
