"""Lines that the fault model derives, in the config file of a real SCR: what they promise comes back."""

import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from scrtune.goodput.interval.failures import Failures
from scrtune.intents.events import AllocationObserved, StorageProbed, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe.io.flush import FlushBehaviour

from ..conftest import RealScr
from ..support.situations import GIB, parameter, situation

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

APPLICATION = Path(__file__).parents[1] / "apps" / "mpi_libscr.py"
NODES = 4
ONLY_IN_THE_CACHE: Values = {"SCR_CACHE_BYPASS": 0, "SCR_CACHE_SIZE": 2, "SCR_FLUSH": 20}


class CachedJob:
    """A job of 4 nodes with a rank and a cache each, under the config file that has the derived lines."""

    def __init__(self, scr: RealScr, base: Path, lines: tuple[str, ...], **settings: str) -> None:
        self.scr, self.base = scr, base
        self.settings = {"SCR_FLUSH": "20", "SCR_FETCH": "0", **settings}
        (base / "user.conf").write_text("\n".join(lines) + "\n")

    def run(self, outputs: int) -> str:
        """Take that many checkpoints; return what the application says."""
        job = (sys.executable, str(APPLICATION), str(outputs), "1", "65536")
        conf = str(self.base / "user.conf")
        ran = self.scr.mpiexec(self.base, NODES, *job, nodes=NODES, SCR_CONF_FILE=conf, **self.settings)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        (self.base / "prefix" / ".scr" / "halt.scr").unlink()  # else SCR ends the next run at once
        return ran.stdout

    def lose(self, *nodes: int) -> None:
        """Lose all that is on these nodes."""
        for node in nodes:
            shutil.rmtree(self.base / f"node{node}")


def test_a_menu_loses_no_more_than_the_checkpoints_since_the_last_encoded_one(
    libscr: RealScr, tmp_path: Path
) -> None:
    settings = {**ONLY_IN_THE_CACHE, "SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BASE": f"{tmp_path}/cache"}
    spared = Failures(observed_s=864_000.0, cache=90, prefix=10, nodes=NODES)
    flush = FlushBehaviour(
        evidence=Evidence(count=10), checkpoint_bytes=4 * GIB, interval_s=600.0, flush_s=60.0, write_s=2.5
    )
    rates = StorageProbed(host="n", cache_read_bytes_per_s=GIB / 2, cache_write_bytes_per_s=GIB)
    now = replace(situation(settings, flush=flush, failures=spared, nodes=NODES, ranks=NODES), probe=rates)
    menu = parameter("CKPT", now).lines
    assert menu[-1].startswith("CKPT=1 INTERVAL=3 "), menu
    job = CachedJob(libscr, tmp_path, menu)
    job.run(8)
    assert "restart ckpt.8 same=1" in job.run(0)
    job.lose(1)
    assert "restart ckpt.6 same=1" in job.run(0)


def test_sets_across_switches_survive_the_loss_of_one(libscr: RealScr, tmp_path: Path) -> None:
    switches = {"n0": "s0", "n1": "s0", "n2": "s1", "n3": "s1"}
    allocation = AllocationObserved(scheduler="slurm", hosts=tuple(switches), switches=switches)
    settings: Values = {**ONLY_IN_THE_CACHE, "SCR_COPY_TYPE": "XOR"}
    now = situation(settings, allocation=allocation, nodes=NODES, ranks=NODES)
    lines = parameter("SCR_GROUP", now).lines
    job = CachedJob(libscr, tmp_path, lines, SCR_COPY_TYPE="XOR", SCR_CACHE_BYPASS="0")
    job.run(2)
    job.lose(0, 1)
    assert "restart ckpt.2 same=1" in job.run(0)
    job.lose(0, 2)
    assert "restart" not in job.run(0), "a set has lost two nodes"
