"""Carry out a plan with ranks of MPI, each a process of its own, and read back what they recorded."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ...client.libscr.find import HINTS
from ...client.mpi import ENGINE_VARIABLE, NODES_VARIABLE, mpiexec, plain_environment
from ...scr_config.catalogue import ParameterError, checked, coerce
from ...units import bytes_text
from ..reading.scan import read_table
from ..table import TraceTable
from .plan import Plan, ReenactError

PLAN, TRACES = "plan", "traces"
"""Names in the directory of a re-enactment."""

_NAME = "scrtune-reenact-"
_SPARE = 0.9
"""The share of the free disk that may be filled."""
_SAID = 2000


class Directories(msgspec.Struct, frozen=True, kw_only=True):
    """Where directories for prefix and cache are made, which are gone afterwards."""

    prefix: Path
    cache: Path


def write_again(plan: Plan, settings: Mapping[str, str], places: Directories) -> TraceTable:
    """Write the files of `plan` under SCR's `settings`; return the table of what that took.

    Uses the embedded engine, or what SCRTUNE_ENGINE says. Raises ReenactError, FileNotFoundError.
    """
    _check_room(plan, settings, places)
    with _directory(places.prefix) as own, _directory(places.cache) as cache:
        prefix = own / "prefix"
        prefix.mkdir()
        (own / TRACES).mkdir()
        (own / PLAN).write_bytes(msgspec.msgpack.encode(plan))
        engine = os.environ.get(ENGINE_VARIABLE, "")
        by_engine = (
            {name: os.environ[name] for name in HINTS if name in os.environ} | {ENGINE_VARIABLE: engine}
            if engine == "libscr"
            else {NODES_VARIABLE: str(plan.nodes)}
        )
        bases = dict.fromkeys(("SCR_CACHE_BASE", "SCR_CNTL_BASE"), str(cache))
        where = {"SCR_PREFIX": str(prefix), "SCR_JOB_ID": "reenact", **bases}
        _run(plan, own, plain_environment() | by_engine | dict(settings) | where)
        return read_table([own / TRACES], {str(prefix): "prefix", str(cache): "cache"})


@contextmanager
def _directory(parent: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix=_NAME, dir=parent) as path:
        yield Path(path)


def _run(plan: Plan, directory: Path, environment: Mapping[str, str]) -> None:
    job = [mpiexec(), "-n", str(plan.ranks), sys.executable, "-m", f"{__package__}.rank", str(directory)]
    output = directory / "output"
    with output.open("wb") as file:
        ranks = subprocess.Popen(job, env=environment, stdout=file, stderr=subprocess.STDOUT)
        try:
            code = ranks.wait()
        except BaseException:
            ranks.terminate()  # mpiexec ends its ranks
            ranks.wait()
            raise
    if code:
        said = output.read_text(encoding="utf-8", errors="replace")
        raise ReenactError(f"{' '.join(job)}\nended with exit code {code}:\n{said[-_SAID:]}")


def _check_room(plan: Plan, settings: Mapping[str, str], places: Directories) -> None:
    """Raise ReenactError where prefix directory and cache may not hold all that is written."""
    try:
        known = checked({name: coerce(name, text) for name, text in settings.items()})
    except ParameterError as error:
        raise ReenactError(str(error)) from error
    largest = max((checkpoint.bytes for checkpoint in plan.checkpoints), default=0)
    # each with redundancy of at most its own size, and one more than are kept
    cached = 0 if known["SCR_CACHE_BYPASS"] else 2 * largest * (int(known["SCR_CACHE_SIZE"]) + 1)
    needs: dict[int, int] = {}
    for path, size in ((places.prefix, plan.bytes), (places.cache, cached)):
        device = path.stat().st_dev
        needs[device] = needs.get(device, 0) + size
        free = int(shutil.disk_usage(path).free * _SPARE)
        if needs[device] > free:
            raise ReenactError(
                f"{bytes_text(needs[device])} would be written, and {bytes_text(free)} are free in {path}:"
                f" take a scale below {plan.scale * free / needs[device]:.2g}, fewer checkpoints or ranks"
            )
