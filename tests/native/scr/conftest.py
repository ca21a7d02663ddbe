"""Applications on a real libscr, tuned by libscrtune.so: at the next output, on all ranks or on none.

Most are in C. What a Python application could have otherwise is tried with both: there libscrtune.so is not
preloaded, but loaded before libscr.
"""

from pathlib import Path

import pytest

from scrtune.client.libscr.library import WHY_NOT, libscrtune_path

from ...conftest import RealScr
from ...support.native_build import build_application
from .job import TWIN, Job


@pytest.fixture(scope="session")
def application(libscr: RealScr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_application(tmp_path_factory.mktemp("application") / "app", libscr.path)


@pytest.fixture
def job(request: pytest.FixtureRequest, libscr: RealScr, tmp_path: Path) -> Job:
    if getattr(request, "param", "C") == "C":
        library, application = request.getfixturevalue("library"), request.getfixturevalue("application")
        return Job(libscr, tmp_path, (str(application),), (library,))
    if libscrtune_path() is None:
        pytest.skip(WHY_NOT)
    return Job(libscr, tmp_path, TWIN)
