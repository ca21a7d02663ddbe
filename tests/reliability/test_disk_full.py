"""A file system without room below the journal, the config file, the cache or the prefix directory.

The application goes on, what it completed is there bit for bit, and with room again all is as before.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from scrtune.cli.jobs import state as job_state
from scrtune.client.transport.wire import Question
from scrtune.daemon.views import OrderView

from ..conftest import until
from ..support.phased_job import Phase, PhasedJob

SMALL = "4m"
BLOCK = bytes(4096)
OUTPUTS = 10
PHASES = (OUTPUTS, OUTPUTS, OUTPUTS)


@pytest.fixture
def small() -> Iterator[Path]:
    """A file system of its own; its path is short, for it may have sockets in it."""
    with tempfile.TemporaryDirectory(prefix="sf") as place:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=700", "scrtune-test", place]
        tried = subprocess.run(mount, capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(f"a small file system cannot be mounted here: {tried.stderr.strip()}")
        yield Path(place)
        subprocess.run(["umount", "-l", place], check=True)


@contextmanager
def filled(place: Path) -> Iterator[None]:
    """Leave no room in `place` while the block runs."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(BLOCK):
                pass
        except OSError:
            pass
        yield
    filler.unlink()


@dataclass
class Ended:
    """A job of three phases, in whose second one there was no room."""

    before: Phase
    full: Phase
    after: Phase
    said: str

    @property
    def unflushed(self) -> set[int]:
        """The outputs that are said not to have come to the prefix directory."""
        return {int(number) for number in re.findall(r"dataset (\d+) \(.*\) is not in the prefix", self.said)}


def run(job: PhasedJob, place: Path, while_full: Callable[[], None] = lambda: None) -> Ended:
    """Run `job` to its end, which must be a good one with all that was completed in the prefix directory."""
    try:
        job.daemon()
        before = job.phase(0)
        with filled(place):
            full = job.phase(1)
            while_full()
        ended = Ended(before, full, job.phase(2), job.end())
    finally:
        job.close()
    assert before.invalid == ended.after.invalid == []
    assert len(before.valid) == len(full.valid + full.invalid) == len(ended.after.valid) == OUTPUTS
    completed = {*before.valid, *full.valid, *ended.after.valid}
    job.assert_kept(*(completed - ended.unflushed))
    return ended


def test_below_the_journal_the_account_says_what_it_misses(tmp_path: Path, small: Path) -> None:
    job = PhasedJob(tmp_path, *PHASES, SCRTUNE_RUN_DIR=str(small / "r"))

    def while_full() -> None:  # the daemon may still be behind the application
        until(lambda: job_state.status(job.paths).journal_lost >= OUTPUTS)

    ended = run(job, small, while_full)
    assert ended.full.invalid == []
    assert ended.unflushed == set()
    status = job_state.status(job.paths)
    assert 0 < 3 * OUTPUTS - status.checkpoints <= status.counters.lost["journal"]


def test_below_the_config_file_an_order_waits_until_it_can_be_written(tmp_path: Path, small: Path) -> None:
    job = PhasedJob(tmp_path, *PHASES, options=("--scr-conf", str(small / "scr.conf")))
    order = Question(command="pin", values={"SCR_FILE_BUF_SIZE": "2097152"})

    def is_published() -> bool:
        view = job_state.ask(job.paths, order, OrderView)
        assert view.is_published or "No space left on device" in view.failure
        return view.is_published

    def while_full() -> None:
        assert not is_published()
        assert "2097152" not in (small / "scr.conf").read_text()

    ended = run(job, small, while_full)
    assert ended.full.invalid == []
    assert ended.unflushed == set()


def test_below_the_cache_outputs_go_to_the_prefix_directory(tmp_path: Path, small: Path) -> None:
    job = PhasedJob(tmp_path, *PHASES, SCR_CACHE_BASE=str(small))
    ended = run(job, small)
    assert ended.full.invalid == []
    assert ended.unflushed == set()


def test_below_the_prefix_directory_each_flush_that_fails_is_said(tmp_path: Path, small: Path) -> None:
    job = PhasedJob(tmp_path, *PHASES, SCR_PREFIX=str(small))
    ended = run(job, small)
    # A phase's last flush may go on into the next one, where it meets the other state of the disk.
    assert set(ended.full.valid[:-1]) <= ended.unflushed <= {ended.before.valid[-1], *ended.full.valid}
