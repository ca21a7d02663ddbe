"""A daemon that neither answers nor ends nor reads: no output of the application waits for it."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from scrtune.cli.tables.summary import summary
from scrtune.client.transport import wire
from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.views import UNREAD, status_view
from scrtune.goodput.events import OutputCompleted, StepCompleted

from ..conftest import until
from ..support.phased_job import PhasedJob

FIRST, OUTPUTS, LAST = 5, 200, 50
NOW_S = 1.79e9


@pytest.fixture(params=["embedded", "libscr"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PhasedJob]:
    # in memory, and written by the main thread alone: there the application has nothing else to wait for
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        own: dict[str, str] = {}
        if request.param == "libscr":
            found = request.getfixturevalue("libscr").environment(Path(memory))
            own = {name: found[name] for name in ("LD_LIBRARY_PATH", "SCR_CNTL_BASE", "SCR_ROOT", "USER")}
        job = PhasedJob(
            tmp_path,
            *(FIRST, OUTPUTS, LAST),
            options=("--trace", "off", "--mode", "observe"),
            SCRTUNE_ENGINE=request.param,
            SCR_PREFIX=memory,
            SCR_CACHE_BYPASS="1",
            **own,
        )
        yield job
        job.close()


def told(job: PhasedJob) -> list[int]:
    """The outputs in the journal."""
    events = [event for _, event in JournalReader(job.paths.journal)]
    return [event.dataset for event in events if isinstance(event, OutputCompleted)]


def test_outputs_do_not_wait_for_a_stopped_daemon_and_all_of_them_are_told_afterwards(job: PhasedJob) -> None:
    daemon = job.daemon()
    first = job.phase(0)
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        stopped = job.phase(1)
        assert daemon.status() == psutil.STATUS_STOPPED
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    until(lambda: len(told(job)) == FIRST + OUTPUTS)
    last = job.phase(2)
    job.end()
    assert [*first.valid, *stopped.valid, *last.valid] == [*range(1, FIRST + OUTPUTS + LAST + 1)]
    # whoever waits gives up the processor: once an output would be 200 times more
    usual = 0
    if job.engine == "libscr":  # SCR itself waits, 50 to 60 times an output: less than 13 more do not show
        usual = 5 * OUTPUTS * last.slept // (4 * len(last.valid))
    assert stopped.slept < usual + OUTPUTS // 10
    job.assert_kept(*stopped.valid)
    assert told(job) == [*range(1, FIRST + OUTPUTS + LAST + 1)]


MESSAGES, STEPS_IN_EACH = 100, 500  # some seconds of work


def test_what_it_has_no_time_for_when_it_goes_on_at_the_end_is_counted_and_said(
    real_daemon: Any,
) -> None:
    process = real_daemon.start().process
    os.kill(process.pid, signal.SIGSTOP)
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.linger = 0
        socket.connect(real_daemon.paths.events_endpoint)
        for sequence in range(MESSAGES):
            first = sequence * STEPS_IN_EACH
            steps = range(first, first + STEPS_IN_EACH)
            events = [
                StepCompleted(step=step, start_s=NOW_S + step, end_s=NOW_S + step + 1) for step in steps
            ]
            socket.send(wire.encode(sender="test", sequence=sequence, events=events))
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(30) == 0
    pipeline, last_s = replay_journal(real_daemon.paths.journal)
    unread = pipeline.counters.lost[UNREAD]
    taken = sum(isinstance(each, StepCompleted) for _, each in JournalReader(real_daemon.paths.journal))
    assert 0 < unread <= MESSAGES - taken // STEPS_IN_EACH
    view = status_view(pipeline, last_s, job_id="j", host="n", running=False)
    assert f"scrtune: the daemon had no time for the last {unread} messages; no account has them" in summary(
        view
    )
