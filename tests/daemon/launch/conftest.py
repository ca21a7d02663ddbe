"""A place where `scrtune run` runs."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    # not in tmp_path: the path of a socket must be short
    with tempfile.TemporaryDirectory(prefix="sr") as base:
        place = Place(tmp_path, Path(base) / "r", f"{tmp_path.name}-{os.getpid()}")
        yield place
        place.clean_up()
