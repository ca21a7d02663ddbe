"""libscrtune.so of these sources, and what runs below it."""

from pathlib import Path

import pytest

from ..support.native_build import build_library
from ..support.observed import Program


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("native") / "libscrtune.so")


@pytest.fixture
def program(library: Path, tmp_path: Path) -> Program:
    """It is observed by DFTracer; SCR is not there."""
    return Program(library, tmp_path)
