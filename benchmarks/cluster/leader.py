"""A real daemon that leads, and a process that speaks for all other nodes."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from benchmarks.cluster.job import PATIENCE_S, asked, daemon_process, heard_bytes, job, until
from benchmarks.cluster.speaker import RANKS_PER_NODE, SETTLE_S
from scrtune.client.paths import JobPaths
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import JobStarted

ROOT = Path(__file__).parents[2]
ASK_EVERY_S = 0.05


@contextmanager
def leading(nodes: int) -> Iterator[tuple[JobPaths, Path]]:
    """A daemon that leads a job of so many nodes."""
    with tempfile.TemporaryDirectory(prefix="cluster") as base:
        paths, directory = JobPaths.of("j", "n1", Path(base) / "r"), Path(base) / "c"
        as_n1 = "import socket; socket.gethostname = lambda: 'n1'\nfrom scrtune.cli.main import main; main()"
        command = [
            sys.executable,
            "-c",
            as_n1,
            "daemon",
            "--job-id",
            "j",
            "--no-probe",
            "--cluster",
            directory,
        ]
        environment = {**os.environ, "SCRTUNE_RUN_DIR": f"{base}/r", "SCRTUNE_ADDRESS": "127.0.0.1"}
        with (Path(base) / "log").open("wb") as log:
            daemon = subprocess.Popen(command, env={**environment, "SLURM_NODEID": "0"}, stderr=log)
        try:
            until(paths.control_socket.exists, "a daemon")
            emitter = Emitter(paths.events_endpoint)
            emitter.emit(JobStarted(time_s=time.time(), ranks=nodes * RANKS_PER_NODE, nodes=nodes))
            emitter.emit(job(nodes, RANKS_PER_NODE))
            until(paths.decision.exists, "a decision")
            emitter.close(1.0)
            yield paths, directory
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_S)


def simulated(nodes: int, seconds: float) -> dict[str, float]:
    """One leader, and another process that speaks for the other nodes."""
    with leading(nodes) as (paths, directory):
        daemon = daemon_process(paths)
        endpoint = next((directory / "nodes").iterdir()).read_text()
        before_mib = daemon.memory_info().rss / 2**20
        join_cpu_s = _cpu_s(daemon)
        arguments = f"{endpoint!r}, {str(directory)!r}, {nodes}, {seconds}"
        code = f"from benchmarks.cluster.speaker import speak; speak({arguments})"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT.parent}:{ROOT}"}
        speaker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        assert speaker.stdout is not None
        joined = json.loads(speaker.stdout.readline())
        join_cpu_s = _cpu_s(daemon) - join_cpu_s
        time.sleep(SETTLE_S)
        heard, begun_s, cpu_s = heard_bytes(paths), time.monotonic(), _cpu_s(daemon)
        answers_s = []
        while time.monotonic() - begun_s < seconds - 0.5:
            asked_s = time.monotonic()
            asked(paths, "recommendation")
            answers_s.append(time.monotonic() - asked_s)
            time.sleep(ASK_EVERY_S)
        took_s = time.monotonic() - begun_s
        cpu_s = _cpu_s(daemon) - cpu_s
        heard = heard_bytes(paths) - heard
        beats = json.loads(speaker.stdout.readline())
        speaker.wait(PATIENCE_S)
        explain_s = time.monotonic()
        seen = len(asked(paths, "explain")["nodes"])
        explain_s = time.monotonic() - explain_s
        if seen < nodes - 1:
            raise SystemExit(f"the leader has evidence of {seen} nodes, not of {nodes - 1}")
        return {
            "nodes": nodes,
            "join_s": joined["join_s"],
            "join_cpu_ms_per_node": 1000 * join_cpu_s / nodes,
            "cpu_percent": 100 * cpu_s / took_s,
            "bytes_per_s": heard / took_s,
            "reply_p50_ms": beats["p50_ms"],
            "reply_p99_ms": beats["p99_ms"],
            "decision_p50_ms": 1000 * float(np.quantile(answers_s, 0.5)),
            "decision_p99_ms": 1000 * float(np.quantile(answers_s, 0.99)),
            "explain_s": explain_s,
            "rss_mib": daemon.memory_info().rss / 2**20,
            "rss_before_mib": before_mib,
        }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
