"""A recorder, and who listens to the client where its daemon would."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrtune.client.recorder import Recorder

from ..support.ear import Ear


@pytest.fixture
def _no_job_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SCRTUNE", "SLURM", "PMI", "OMPI", "FLUX", "SCR_")) or name.endswith("RANK"):
            monkeypatch.delenv(name)


@pytest.fixture
def recorder(_no_job_around: None, tmp_path: Path) -> Iterator[Recorder]:
    with Recorder("j", writer="rank0", log=tmp_path / "log") as made:
        yield made


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path / 'events.sock'}"


@pytest.fixture
def ear(endpoint: str) -> Iterator[Ear]:
    """Somebody who may listen at the endpoint."""
    with contextlib.closing(Ear(endpoint)) as ear:
        yield ear
