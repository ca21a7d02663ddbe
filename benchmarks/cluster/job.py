"""The job whose nodes are counted, and what its leader says."""

import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from scrtune.client.paths import JobPaths
from scrtune.client.transport.daemon_client import ask_daemon
from scrtune.client.transport.sender import Emitter
from scrtune.goodput.events import JobStarted
from scrtune.intents.events import (
    SettingsObserved,
)

PATIENCE_S = 120.0


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


def heard_bytes(leader: JobPaths) -> int:
    """Return what the nodes have sent to the leader so far, in bytes."""
    cluster = asked(leader, "status")["cluster"]
    return int(cluster["beat_bytes"]) if cluster else 0


def daemon_process(paths: JobPaths) -> psutil.Process:
    """The process that holds the journal of a daemon."""
    for process in psutil.process_iter():
        try:
            if any(each.path == str(paths.journal) for each in process.open_files()):
                return process
        except psutil.Error:
            continue
    raise SystemExit("no daemon has that journal")
