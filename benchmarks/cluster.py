"""What the daemons of a job's nodes cost the one that leads, and how long one decision from all takes.

    python benchmarks/cluster.py [--slurm 1,2,4,8,16] [--nodes 1024,10000] [--seconds 20] [--json]

With ``--slurm`` each number of nodes is a private Slurm on this machine, whose daemons `scrtune run` starts:
one process a node says that it is a rank, rank 0 describes the job. Nodes are simulated, cores are not: past
a few nodes their processes wait for each other, and times are upper bounds. One node is the baseline.

With ``--nodes`` a real daemon leads, and another process speaks for all other nodes over 32 real connections:
first for each the first time, as fast as the leader answers; then at the pace of a job that goes on, measured
when that has settled. A decision's time is that of a question about it meanwhile.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport import wire
from scrtune.client.transport.daemon_client import ask_daemon
from scrtune.client.transport.sender import Emitter
from scrtune.daemon.cluster.keys import job_keys
from scrtune.daemon.cluster.lead import Membership
from scrtune.daemon.cluster.messages import CLUSTER_VERSION, Address, Beat, Reply, decode, encode
from scrtune.goodput.events import JobStarted
from scrtune.intents.events import (
    Access,
    NodeObserved,
    ProcessUse,
    SettingsObserved,
    StorageProbed,
    TraceDigest,
)

ROOT = Path(__file__).parents[1]
CONNECTIONS = 32
RANKS_PER_NODE, CPUS = 8, 64
LOOKS_PER_S = 50
PATIENCE_S = 120.0
ASK_EVERY_S = 0.05
SETTLE_S = 15.0

RANK = """
import os, sys, time
from pathlib import Path
from socket import gethostname
from benchmarks.cluster import described
ranks, seconds = Path("ranks"), float(sys.argv[1])
Path("ranks", f"{gethostname()} {os.getpid()}").touch()
if os.environ["SLURM_PROCID"] == "0":
    described(ranks, int(os.environ["SLURM_NTASKS"]))
while not Path("over").exists():
    time.sleep(0.1)
"""


def described(ranks: Path, count: int) -> None:
    """Describe the job as its rank 0 does, when all ranks are there."""
    while len(found := [each.name.split() for each in ranks.iterdir()]) < count:
        time.sleep(0.05)
    processes = tuple((host, int(pid)) for host, pid in found)
    emitter = Emitter(JobPaths.of().events_endpoint)
    emitter.emit(JobStarted(time_s=time.time(), ranks=count, nodes=count))
    Path("described").write_text(repr(time.time()))
    emitter.emit(job(count, 1, processes))
    emitter.close(5.0)


def job(nodes: int, ranks_per_node: int, processes: tuple[tuple[str, int], ...] = ()) -> SettingsObserved:
    """A job whose declared floor demands another scheme: its first decision needs no checkpoint."""
    return SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1},
        sources={"SCR_COPY_TYPE": "user config"},
        engine="embedded",
        ranks=nodes * ranks_per_node,
        nodes=nodes,
        floor="XOR",
        cache="/dev/shm",  # noqa: S108
        processes=processes,
    )


def until(found: Any, what: str, limit_s: float = PATIENCE_S) -> Any:
    """Wait until `found()` is true; returns that."""
    deadline_s = time.monotonic() + limit_s
    while not (value := found()):
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.02)
    return value


def asked(paths: JobPaths, command: str) -> dict[str, Any]:
    """What a daemon answers."""
    return dict(msgspec.json.decode(ask_daemon(paths.control_endpoint, command, PATIENCE_S).result))


# under Slurm


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
        daemon = _daemon(leader)
        before = daemon.cpu_times(), _heard(leader), time.monotonic()
        time.sleep(seconds)
        after, heard, took_s = daemon.cpu_times(), _heard(leader), time.monotonic() - before[2]
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


def _heard(leader: JobPaths) -> int:
    cluster = asked(leader, "status")["cluster"]
    return int(cluster["beat_bytes"]) if cluster else 0


def _daemon(paths: JobPaths) -> psutil.Process:
    """The process that holds the journal of a daemon."""
    for process in psutil.process_iter():
        try:
            if any(each.path == str(paths.journal) for each in process.open_files()):
                return process
        except psutil.Error:
            continue
    raise SystemExit("no daemon has that journal")


# nodes that another process speaks for


class Speaker:
    """All other nodes of a job, over a few connections to the leader."""

    def __init__(self, endpoint: str, directory: Path, nodes: int) -> None:
        self._nodes = nodes
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        keys = job_keys(directory)
        self._poller = zmq.Poller()
        self._sockets = []
        for _ in range(CONNECTIONS):
            made = self._context.socket(zmq.DEALER)
            made.linger = 0
            made.curve_serverkey = made.curve_publickey = keys.public
            made.curve_secretkey = keys.secret
            made.connect(endpoint)
            self._poller.register(made, zmq.POLLIN)
            self._sockets.append(made)
        self._sent_s: list[list[float]] = [[] for _ in self._sockets]
        self.latency_s: list[float] = []
        self._number = [0] * (nodes + 1)
        self._job_key = 0

    def beat(self, node: int, *events: TraceDigest | NodeObserved | StorageProbed) -> None:
        """Speak for one node."""
        packed = b""
        if events:
            self._number[node] += 1
            packed = wire.encode(sender=f"node:n{node}", sequence=self._number[node] - 1, events=events)
        sender = Address(f"n{node}", f"tcp://127.0.0.1:{node}", node)
        beat = Beat(
            CLUSTER_VERSION, "j", sender, time.time(), None, self._number[node], packed, self._job_key
        )
        index = node % CONNECTIONS
        self._sent_s[index].append(time.monotonic())
        self._sockets[index].send(encode(beat))

    def hear(self, timeout_s: float = 0.0) -> Reply | None:
        """Take in the replies that are there."""
        last = None
        for socket, _ in self._poller.poll(timeout_s * 1000):
            index = self._sockets.index(socket)
            while True:
                try:
                    data = socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    break
                last = decode(Reply, data, "j")
                self._job_key = last.job_key
                self.latency_s.append(time.monotonic() - self._sent_s[index].pop(0))
        return last

    @property
    def unanswered(self) -> int:
        """How many beats have no reply yet."""
        return sum(map(len, self._sent_s))

    def join(self) -> float:
        """Let every node speak for the first time; returns the seconds until all were heard."""
        begun_s = time.monotonic()
        for node in range(2, self._nodes + 1):
            self.beat(node, look(node), probe(node), digest(node))
            while self.unanswered > 4 * CONNECTIONS:
                self.hear(1.0)
        while self.unanswered:
            self.hear(1.0)
        return time.monotonic() - begun_s

    def go_on(self, seconds: float) -> None:
        """Speak for all nodes at their pace: a beat each, a look now and then."""
        beats_per_s = (self._nodes - 1) / Membership.beat_s(self._nodes)
        every_look = max(1, round(max(10.0, self._nodes / LOOKS_PER_S) / Membership.beat_s(self._nodes)))
        begun_s, sent = time.monotonic(), 0
        while (now_s := time.monotonic() - begun_s) < SETTLE_S + seconds:
            if now_s < SETTLE_S:
                self.latency_s.clear()
            while sent < now_s * beats_per_s:
                turn, node = divmod(sent, self._nodes - 1)
                self.beat(node + 2, *([look(node + 2)] if (turn + node) % every_look == 0 else []))
                sent += 1
            self.hear(0.002)

    def close(self) -> None:
        """Close the connections."""
        self._context.destroy(linger=0)


def look(node: int) -> NodeObserved:
    """A node of 64 CPUs with 8 bound ranks."""
    uses = tuple(
        ProcessUse(pid=1000 + rank, cpus=(rank,), cores_used=0.5 + 0.01 * (node % 40))
        for rank in range(RANKS_PER_NODE)
    )
    memory = 200 * 2**30 + node * 2**20
    return NodeObserved(
        host=f"n{node}",
        cpus=tuple(range(CPUS)),
        processes=uses,
        memory_available_bytes=memory,
        cache_free_bytes=memory // 2,
    )


def probe(node: int) -> StorageProbed:
    """The rates of its storage."""
    return StorageProbed(host=f"n{node}", cache_write_bytes_per_s=2e9 + node, xor_bytes_per_s=5e9)


def digest(node: int) -> TraceDigest:
    """The trace of a few outputs: 46 sizes, as the study's workload has."""
    sizes = {4096 * (1 + each): 10 for each in range(46)}
    access = Access(
        tier="cache",
        op="write",
        count=460,
        bytes=sum(size * count for size, count in sizes.items()),
        duration_s=1.0,
        start_s=1.0,
        end_s=2.0,
        sizes=sizes,
        seconds=dict.fromkeys(sizes, 0.02),
    )
    return TraceDigest(
        lines=500, events=460, accesses=(access,), processes=tuple((f"n{node}", pid) for pid in range(8))
    )


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
        daemon = _daemon(paths)
        endpoint = next((directory / "nodes").iterdir()).read_text()
        before_mib = daemon.memory_info().rss / 2**20
        join_cpu_s = _cpu_s(daemon)
        arguments = f"{endpoint!r}, {str(directory)!r}, {nodes}, {seconds}"
        code = f"from benchmarks.cluster import speak; speak({arguments})"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT.parent}:{ROOT}"}
        speaker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        assert speaker.stdout is not None
        joined = json.loads(speaker.stdout.readline())
        join_cpu_s = _cpu_s(daemon) - join_cpu_s
        time.sleep(SETTLE_S)
        heard, begun_s, cpu_s = _heard(paths), time.monotonic(), _cpu_s(daemon)
        answers_s = []
        while time.monotonic() - begun_s < seconds - 0.5:
            asked_s = time.monotonic()
            asked(paths, "recommendation")
            answers_s.append(time.monotonic() - asked_s)
            time.sleep(ASK_EVERY_S)
        took_s = time.monotonic() - begun_s
        cpu_s = _cpu_s(daemon) - cpu_s
        heard = _heard(paths) - heard
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


def speak(endpoint: str, directory: str, nodes: int, seconds: float) -> None:
    """The other nodes, in a process of their own."""
    speaker = Speaker(endpoint, Path(directory), nodes)
    print(json.dumps({"join_s": speaker.join()}), flush=True)
    speaker.go_on(seconds)
    p50, p99 = (1000 * float(np.quantile(speaker.latency_s, q)) for q in (0.5, 0.99))
    print(json.dumps({"p50_ms": p50, "p99_ms": p99}), flush=True)
    speaker.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slurm", default="", help="numbers of nodes, such as 1,2,4,8,16")
    parser.add_argument("--nodes", default="1024,10000", help="numbers of nodes that a process speaks for")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each is measured")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [under_slurm(int(each), options.seconds) for each in options.slurm.split(",") if each]
    rows += [simulated(int(each), options.seconds) for each in options.nodes.split(",") if each]
    for row in rows:
        print(
            json.dumps(row)
            if options.json
            else "  ".join(f"{name} {value:,.2f}" for name, value in row.items())
        )


if __name__ == "__main__":
    main()
