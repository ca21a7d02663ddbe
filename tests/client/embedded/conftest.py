"""A job on the embedded engine."""

from pathlib import Path

import pytest

from .job import Job


@pytest.fixture
def job(tmp_path: Path, system_conf: Path) -> Job:
    """The system's config file is its own, too."""
    return Job(tmp_path)
