"""All nodes but the leader, in one process."""

import json
import time
from pathlib import Path

import numpy as np
import zmq

from scrtune.client.transport import wire
from scrtune.daemon.cluster.keys import job_keys
from scrtune.daemon.cluster.lead import Membership
from scrtune.daemon.cluster.messages import CLUSTER_VERSION, Address, Beat, Reply, decode, encode
from scrtune.intents.events import (
    Access,
    NodeObserved,
    ProcessUse,
    StorageProbed,
    TraceDigest,
)

CONNECTIONS = 32
RANKS_PER_NODE, CPUS = 8, 64
LOOKS_PER_S = 50
SETTLE_S = 15.0


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
    )
    return TraceDigest(
        lines=500, events=460, accesses=(access,), processes=tuple((f"n{node}", pid) for pid in range(8))
    )


def speak(endpoint: str, directory: str, nodes: int, seconds: float) -> None:
    """The other nodes, in a process of their own."""
    speaker = Speaker(endpoint, Path(directory), nodes)
    print(json.dumps({"join_s": speaker.join()}), flush=True)
    speaker.go_on(seconds)
    p50, p99 = (1000 * float(np.quantile(speaker.latency_s, q)) for q in (0.5, 0.99))
    print(json.dumps({"p50_ms": p50, "p99_ms": p99}), flush=True)
    speaker.close()
