"""Which job is meant, of those that left something on this host."""

import os
from dataclasses import replace
from pathlib import Path

from scrtune.cli.jobs.find import latest_in
from scrtune.client.paths import JobPaths


def paths_of(base: Path, job_id: str) -> JobPaths:
    """The paths of a job on a node without shared memory."""
    return replace(JobPaths.of(job_id, base=base), shared_memory=base / "no-shared-memory")


def test_the_latest_job_is_the_one_whose_journal_was_written_last(tmp_path: Path) -> None:
    assert latest_in(tmp_path) is None
    for number, name in enumerate(("old", "new", "older")):
        made = paths_of(tmp_path, name).create()
        made.journal.touch()
        os.utime(made.journal, (0, 100 + (number == 1)))
    paths_of(tmp_path, "never-ran").create()
    latest = latest_in(tmp_path)
    assert latest is not None
    assert latest.job_id == "new"
