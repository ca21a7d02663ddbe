"""What a daemon keeps of messages that make no sense: its resident memory over a million of them.

    python benchmarks/daemon/fuzz_memory.py [--json] [--messages 1000000] [--warm-up 3000000] [--seed 1]

A daemon process is sent messages at random: events of every type with random fields, bytes of such messages
changed at random, bytes that are none, broken trace lines, from very many senders. That takes an hour.

Before them comes the warm-up, by which what a daemon keeps, and what has a bound, is full: as many steps as
fill the ledger of the job's time (262,144 claims), and more than their bounds of writers, nodes, processes,
runs, failures and recoveries, each with a name and a time of its own. At random that would take some tens of
millions of messages. Then two snapshots of all that are waited for, each of which needs some 25 MiB for a
moment, and three million messages at random: then what stays lies among what is freed as it will from then
on.

The target is that resident memory is flat over a million messages then: its mean over the last quarter of
them is 8 MiB above that over the first one at most. (It moves by 6 MiB with every snapshot, so that a single
look, or the least of a short time, says where a snapshot lay and not what is left.)
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import psutil
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport import wire
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.daemon.views import StatusView
from scrtune.goodput.events import (
    JobEnded,
    JobHalted,
    JobStarted,
    NodeFailed,
    Recovered,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.intents.events import Event, NodeObserved, TraceDigest

TARGET_GROWTH_MIB = 8
QUARTERS, LOOKS = 4, 2500
LIMIT_S = 60.0
SNAPSHOTS, CHUNK = 2, 2000
_TEXTS = ("", "a", "SCR_FLUSH", "XOR", "cache", "broken json", "\x1b[31m", "\x00", "é" * 40)
_NUMBERS = (0, 1, -1, 2, 7, 64, 2**31, 2**32, 2**40, 2**53, -(2**53))
_JOB_STEPS, _BATCH = 400_000, 500
_MOST_NODES, _MOST_WRITERS, _MOST_RUNS = 17_000, 33_000, 5_000
_NOW_S = time.time()


def long_job() -> Iterator[bytes]:
    """Yield the steps that fill a ledger, a hundredth of a second each."""
    for first in range(0, _JOB_STEPS, _BATCH):
        ends_s = [_NOW_S + (number - _JOB_STEPS) / 100 for number in range(first, first + _BATCH)]
        steps = [
            StepCompleted(step=first + index, start_s=end_s - 0.01, end_s=end_s)
            for index, end_s in enumerate(ends_s)
        ]
        yield wire.encode(sender="job", sequence=first // _BATCH, events=steps)


def crowds() -> Iterator[bytes]:
    """Yield more of everything else than a daemon keeps, a hundred events in a message.

    Names are as long as those at random, so that what is replaced later leaves room for what replaces it.
    """
    for number in range(0, 70_000, 100):
        names = [f"text-{each}" * (1 + each % 3) for each in range(number, number + 100)]
        times_s = [_NOW_S - each / 20 for each in range(number, number + 100)]
        failed = [NodeFailed(time_s=at, node=name) for name, at in zip(names, times_s, strict=True)]
        back = [
            Recovered(kind="fetch", dataset=number + index, start_s=at - 0.01, end_s=at)
            for index, at in enumerate(times_s)
        ]
        processes = tuple((name, 1) for name in names)
        events: list[Event] = [*failed, *back, TraceDigest(lines=1, events=1, processes=processes)]
        if number < _MOST_RUNS:
            events += (event for name, at in zip(names, times_s, strict=True) for event in _run(name, at))
        if number < _MOST_NODES:
            events += (NodeObserved(host=name, cpus=(0,)) for name in names)
        if number < _MOST_WRITERS:
            started = (
                StepStarted(step=1, time_s=at, writer=name) for name, at in zip(names, times_s, strict=True)
            )
            events += started
        yield wire.encode(sender=f"crowd-{number}", sequence=0, events=events)


def _run(name: str, time_s: float) -> tuple[Event, ...]:
    """A run of one writer that goes back to a checkpoint, is halted and ends, all at once."""
    return (
        JobStarted(time_s=time_s, writer=name),
        RestartCompleted(dataset=1, name=name, start_s=time_s, end_s=time_s),
        JobHalted(time_s=time_s),
        JobEnded(time_s=time_s, writer=name, exit_code=0),
    )


def messages(seed: int) -> Iterator[bytes]:
    """Yield messages without end, the same for each `seed`."""
    rng = random.Random(seed)  # noqa: S311
    kinds = get_args(Event)
    while True:
        events = [_value(rng, rng.choice(kinds)) for _ in range(rng.choice((0, 1, 1, 1, 4)))]
        lines = rng.randbytes(50) + b'\n{"name":"write","ts":1e400}\n' if rng.random() < 0.1 else b""
        sender = f"{_text(rng)}{rng.randrange(100_000)}"
        counts = {
            "sequence": rng.choice((0, 1, 2, rng.randrange(2**40))),
            "dropped": rng.choice((0, 0, 2**30)),
        }
        message = wire.encode(sender=sender, lines=lines, events=events, **counts)
        match rng.randrange(4):
            case 0:  # damaged
                damaged = bytearray(message)
                for _ in range(rng.randrange(1, 6)):
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                yield bytes(damaged)
            case 1:
                yield rng.randbytes(rng.randrange(60))
            case _:
                yield message


def _text(rng: random.Random) -> str:
    many = 10**6 if rng.random() < 0.01 else 100
    return rng.choice(_TEXTS) if rng.random() < 0.5 else f"text-{rng.randrange(many)}" * rng.randrange(1, 4)


def _value(rng: random.Random, kind: Any) -> Any:
    """Return a value of the type `kind`, most often one that could be."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _value(rng, inner[0])
    if origin in (Union, types.UnionType):
        return _value(rng, rng.choice(inner))
    if origin is tuple:
        kinds = [inner[0]] * rng.randrange(4) if inner[1:] == (...,) else inner
        return tuple(_value(rng, each) for each in kinds)
    if origin is dict:
        return {_value(rng, inner[0]): _value(rng, inner[1]) for _ in range(rng.randrange(4))}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        given = {each.name: _value(rng, each.type) for each in fields if each.required or rng.random() < 0.5}
        return kind(**given)
    return _plain(rng, kind)


def _plain(rng: random.Random, kind: Any) -> Any:
    if kind is float:
        return rng.choice((0.0, 1.0, -1.0, 1e11, _NOW_S + rng.uniform(-3600, 60), _NOW_S))
    if kind is int:
        return rng.choice(_NUMBERS) if rng.random() < 0.3 else rng.randrange(10_000)
    if kind is bool:
        return rng.random() < 0.5
    if kind in (type(None), None):
        return None
    if isinstance(kind, type) and issubclass(kind, str) and kind is not str:
        return rng.choice(list(kind))  # type: ignore[call-overload]  # an enumeration
    return _text(rng)


def started(paths: JobPaths) -> "subprocess.Popen[bytes]":
    """Return a daemon that answers."""
    command = [sys.executable, "-m", "scrtune", "daemon", "--job-id", paths.job_id, "--no-probe"]
    daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not paths.control_socket.exists():
        assert daemon.poll() is None, "the daemon did not start"
        time.sleep(0.05)
    return daemon


def taken(paths: JobPaths) -> StatusView:
    """Return its status, once it has time to answer."""
    for _ in range(10):
        try:
            return msgspec.json.decode(
                ask_daemon(paths.control_endpoint, "status", LIMIT_S).result, type=StatusView
            )
        except DaemonUnavailable as error:
            last = error
    raise last


def sent(socket: "zmq.Socket[bytes]", paths: JobPaths, some: Iterable[bytes]) -> StatusView:
    """Send messages, and return the status once all are taken (a question may overtake them)."""
    for message in some:
        socket.send(message)
    count, view = -1, taken(paths)
    while count != view.counters.events:
        time.sleep(1.0)
        count, view = view.counters.events, taken(paths)
    return view


def snapshots_taken(socket: "zmq.Socket[bytes]", paths: JobPaths, some: Iterator[bytes]) -> None:
    """Send messages until the daemon has written snapshots of what it has now."""
    for _ in range(SNAPSHOTS):
        before_ns = time.time_ns()
        while not paths.snapshot.exists() or paths.snapshot.stat().st_mtime_ns < before_ns:
            sent(socket, paths, islice(some, CHUNK))


def grown(paths: JobPaths, warm_up: int, count: int, seed: int) -> tuple[list[float], StatusView]:
    """Return mean resident bytes for each quarter of `count` messages after the warm-up, and the status."""
    daemon = started(paths)
    means = []
    try:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.linger = 0
            socket.connect(paths.events_endpoint)
            sent(socket, paths, (*long_job(), *crowds()))
            at_random, process = messages(seed), psutil.Process(daemon.pid)
            snapshots_taken(socket, paths, at_random)
            for message in islice(at_random, warm_up):
                socket.send(message)
            sent(socket, paths, ())
            for _ in range(QUARTERS):
                looks = []
                for _ in range(LOOKS):
                    for message in islice(at_random, count // QUARTERS // LOOKS):
                        socket.send(message)
                    looks.append(process.memory_info().rss)
                view = taken(paths)
                means.append(mean(looks))
    finally:
        daemon.kill()
        daemon.wait()
    return means, view


def main() -> int:
    """Print the growth; return 1 when it is beyond the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--warm-up", type=int, default=3_000_000, help="messages at random before them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="sr"))
    os.environ["SCRTUNE_RUN_DIR"] = str(base)
    paths = JobPaths.of("fuzz", base=base)
    try:
        resident, view = grown(paths, options.warm_up, options.messages, options.seed)
    finally:
        shutil.rmtree(base)
        shutil.rmtree(paths.trace_directory.parent, ignore_errors=True)
    mib = [round(each / 2**20, 1) for each in resident]
    growth_mib = round(mib[-1] - mib[0], 1)
    is_missed = growth_mib > TARGET_GROWTH_MIB
    result = {
        "warm_up": options.warm_up,
        "messages": options.messages,
        "resident_mib": mib,
        "growth_mib": growth_mib,
        "events": view.counters.events,
        "rejected": sum(view.rejected.values()),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"{options.messages} messages: {view.counters.events} events taken, {result['rejected']} rejected"
        )
        print(f"mean resident memory in each quarter: {mib} MiB")
        print(
            f"from the first to the last {growth_mib:+.1f} MiB;"
            f" target {TARGET_GROWTH_MIB:+} MiB: {'missed' if is_missed else 'met'}"
        )
    return is_missed


if __name__ == "__main__":
    sys.exit(main())
