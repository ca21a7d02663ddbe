"""How long an application waits for advice at a checkpoint, against a bare ZeroMQ round trip.

    python benchmarks/advice_latency.py [--json] [--asks 5000] [--endpoint ipc://.../control.sock]

Without --endpoint a process of our own answers at once, so that the client's part is seen alone; with it the
daemon that listens there is asked. Asks and bare round trips alternate in blocks, in one run.
Target: p99 < 1 ms. The load average is printed with it: on a machine that is busy p99 measures its scheduler.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import zmq

from scrtune.client.transport.daemon_client import AdviceClient
from scrtune.client.transport.wire import Answer
from scrtune.intents.effects import Advice

TARGET_P99_MS = 1.0
BLOCKS = 20

ANSWERING = """
import sys, zmq
context = zmq.Context()
router, rep = context.socket(zmq.ROUTER), context.socket(zmq.REP)
router.bind(sys.argv[1])
rep.bind(sys.argv[2])
answer = sys.argv[3].encode()
poller = zmq.Poller()
poller.register(router, zmq.POLLIN)
poller.register(rep, zmq.POLLIN)
while True:
    for socket, _ in poller.poll():
        if socket is router:
            identity, empty, question = router.recv_multipart()
            router.send_multipart([identity, empty, answer])
        else:
            rep.send(rep.recv())
"""

ADVICE = Advice(
    generation=3,
    settings={"SCR_FLUSH": 4, "SCR_FLUSH_ASYNC": 1, "SCR_COPY_TYPE": "XOR", "SCR_FILE_BUF_SIZE": 33554432},
    reason="a reason of the usual length, as the policy gives it for a change of the buffer size",
)


def measure(endpoint: str, bare: str, asks: int) -> dict[str, object]:
    """Milliseconds of `asks` asks at `endpoint` and as many REQ/REP round trips at `bare`."""
    client = AdviceClient(endpoint, limit_s=1.0)
    ask_ms, bare_ms = [], []
    payload = b'{"command":"recommendation","version":1}'
    with zmq.Context() as context, context.socket(zmq.REQ) as req:
        req.connect(bare)
        for _ in range(50):
            client.ask()
            req.send(payload)
            req.recv()
        if client.timeouts > 1:
            sys.exit(f"nobody answers at {endpoint}: name a daemon's control endpoint")
        client.timeouts = 0
        for _ in range(BLOCKS):
            for _ in range(asks // BLOCKS):
                client.ask()
                ask_ms.append(client.wait_s * 1000)
            for _ in range(asks // BLOCKS):
                started_s = time.perf_counter()
                req.send(payload)
                req.recv()
                bare_ms.append((time.perf_counter() - started_s) * 1000)
    client.close()
    ask50, ask99 = np.percentile(ask_ms, [50, 99])
    bare50, bare99 = np.percentile(bare_ms, [50, 99])
    return {
        "asks": len(ask_ms),
        "timeouts": client.timeouts,
        "unusable": client.unusable,
        "ask_p50_ms": round(ask50, 4),
        "ask_p99_ms": round(ask99, 4),
        "bare_p50_ms": round(bare50, 4),
        "bare_p99_ms": round(bare99, 4),
        "p50_ratio": round(ask50 / bare50, 2),
        "p99_ratio": round(ask99 / bare99, 2),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "target_p99_ms": TARGET_P99_MS,
        "target_met": bool(ask99 < TARGET_P99_MS),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--asks", type=int, default=5000, help="number of asks (default 5000)")
    parser.add_argument("--endpoint", help="ask the daemon here instead of our own answering process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        own, bare = (f"ipc://{Path(directory, name)}" for name in ("own.sock", "bare.sock"))
        answer = msgspec.json.encode(Answer(result=msgspec.Raw(msgspec.json.encode(ADVICE)))).decode()
        with subprocess.Popen([sys.executable, "-c", ANSWERING, own, bare, answer]) as answering:
            try:
                result = measure(options.endpoint or own, bare, max(BLOCKS, options.asks))
            finally:
                answering.kill()
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['asks']} asks, {result['timeouts']} without an answer in time")
    print(f"AdviceClient.ask   p50 {result['ask_p50_ms']} ms   p99 {result['ask_p99_ms']} ms")
    print(f"bare REQ/REP       p50 {result['bare_p50_ms']} ms   p99 {result['bare_p99_ms']} ms")
    print(f"ratio              p50 {result['p50_ratio']}      p99 {result['p99_ratio']}")
    print(f"load average       {result['load_average_1_min']}")
    print(f"target p99 < {TARGET_P99_MS} ms: {'met' if result['target_met'] else 'MISSED'}")


if __name__ == "__main__":
    main()
