"""A daemon that neither answers nor ends nor reads: no output of the application waits for it."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scrtune.daemon.journal.records import JournalReader
from scrtune.goodput.events import OutputCompleted

from ..conftest import until
from ..support.phased_job import PhasedJob

OUTPUTS = 200


@pytest.fixture
def job(tmp_path: Path) -> Iterator[PhasedJob]:
    # in memory, and written by the main thread alone: there the application has nothing else to wait for
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        job = PhasedJob(
            tmp_path,
            *(5, OUTPUTS, 5),
            options=("--trace", "off", "--mode", "observe"),
            SCR_PREFIX=memory,
            SCR_CACHE_BYPASS="1",
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
    until(lambda: len(told(job)) == OUTPUTS + 5)
    last = job.phase(2)
    job.end()
    assert [*first.valid, *stopped.valid, *last.valid] == [*range(1, OUTPUTS + 11)]
    # whoever waits gives up the processor: once an output would be 200 times
    assert stopped.slept < OUTPUTS // 10
    job.assert_kept(*stopped.valid)
    assert told(job) == [*range(1, OUTPUTS + 11)]
