"""A private Slurm on this machine: one process a node says that it is a rank, rank 0 describes the job."""

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster.job import PATIENCE_S, asked, daemon_process, heard_bytes, until
from scrtune.client.paths import JobPaths

ROOT = Path(__file__).parents[2]

RANK = """
import os, sys, time
from pathlib import Path
from socket import gethostname
from benchmarks.cluster.job import described
ranks, seconds = Path("ranks"), float(sys.argv[1])
Path("ranks", f"{gethostname()} {os.getpid()}").touch()
if os.environ["SLURM_PROCID"] == "0":
    described(ranks, int(os.environ["SLURM_NTASKS"]))
while not Path("over").exists():
    time.sleep(0.1)
"""


def under_slurm(nodes: int, seconds: float) -> dict[str, float]:
    """One job on so many simulated nodes."""
    sys.path.insert(0, str(ROOT))
    from tests.support.slurm_cluster import Cluster  # noqa: PLC0415 - a private Slurm

    with tempfile.TemporaryDirectory(prefix="slurm") as base:
        cluster = Cluster(Path(base), nodes=nodes)
        try:
            cluster.start()
            return _one_job(cluster, Path(base), nodes, seconds)
        finally:
            cluster.stop()


def _one_job(cluster: Any, base: Path, nodes: int, seconds: float) -> dict[str, float]:
    directory = base / "job"
    (directory / "ranks").mkdir(parents=True)
    (directory / "rank.py").write_text(RANK)
    python = shlex.quote(sys.executable)
    run = f"{python} -m scrtune run --job-id j --no-probe --trace off --preload never --"
    script = f"cd {directory} && {run} srun --ntasks={nodes} --ntasks-per-node=1 {python} rank.py {seconds}"
    variables = {
        "SCRTUNE_RUN_DIR": str(directory / "r"),
        "SCRTUNE_ADDRESS": "127.0.0.1",
        "PYTHONPATH": f"{ROOT.parent}:{ROOT}",
    }
    job = subprocess.Popen(
        ["salloc", "--quiet", f"--nodes={nodes}", "--ntasks-per-node=1", "sh", "-c", script],
        env={**cluster.environment, **variables},
        stdin=subprocess.DEVNULL,
        stdout=(directory / "output").open("wb"),
        stderr=subprocess.STDOUT,
    )
    leader = JobPaths.of("j", "n1", directory / "r")
    try:
        described_s = float(until(lambda: _text(directory / "described"), "rank 0"))
        until(leader.decision.exists, "a decision")
        decided_s = leader.decision.stat().st_mtime - described_s
        wanted = nodes if nodes > 1 else 0
        until(lambda: len(asked(leader, "explain")["nodes"]) >= wanted, "evidence of all nodes")
        all_s = time.time() - described_s
        daemon = daemon_process(leader)
        before = daemon.cpu_times(), heard_bytes(leader), time.monotonic()
        time.sleep(seconds)
        after, heard, took_s = daemon.cpu_times(), heard_bytes(leader), time.monotonic() - before[2]
        cpu_s = after.user + after.system - before[0].user - before[0].system
        return {
            "nodes": nodes,
            "decision_s": decided_s,
            "from_all_nodes_s": all_s,
            "bytes_per_s": (heard - before[1]) / took_s,
            "cpu_percent": 100 * cpu_s / took_s,
            "rss_mib": daemon.memory_info().rss / 2**20,
        }
    finally:
        (directory / "over").touch()
        job.wait(PATIENCE_S)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
