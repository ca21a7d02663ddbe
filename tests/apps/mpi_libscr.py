"""An application on a real libscr, for test_libscr.py: ``python mpi_libscr.py PLAN RESULTS``.

PLAN is a JSON file: `config`, the texts for SCR_Config; `outputs`, one object each with `name`, the `bytes`
of each file, how many `files` each rank has, whether it is `valid`, where to `chdir` before, what the user's
file is by then (`conf`), and what rank 0 has at the apply point: `values` and `generation` of a decision, or
any `text`; `restart`: read back what SCR has first; `detach`: put the first settings back in the end; `ask`:
what to ask SCR_Config for then; `crash`: leave without SCR_Finalize. What each rank saw goes to RESULTS/RANK,
one JSON object.
"""

import contextlib
import dataclasses
import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scrtune.client.libscr.apply import Applier
from scrtune.client.libscr.decision import decision_text
from scrtune.client.libscr.library import Library, find
from scrtune.intents.effects import Advice

CHECKPOINT = 1


def content(name: str, rank: int, size: int) -> bytes:
    """What a rank writes: other bytes in each file."""
    return random.Random(f"{name} {rank}").randbytes(size)


def text_for(output: dict[str, Any]) -> str | None:
    """What rank 0 has at the apply point."""
    if "values" not in output:
        return output.get("text")
    return decision_text(Advice(generation=output["generation"], settings=output["values"]))


def write_calls() -> int:
    """How often this process has called write."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscw"])


def thread_cpus() -> dict[str, list[int]]:
    """The threads of this process, and where each may run."""
    found = {}
    for path in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found[path.name] = sorted(os.sched_getaffinity(int(path.name)))
    return found


@contextlib.contextmanager
def new_threads() -> Iterator[dict[str, list[int]]]:
    """The threads that come up in this context, however short they live, and where each may run."""
    before = thread_cpus().keys()
    found: dict[str, list[int]] = {}
    ended = threading.Event()

    def look(own: str) -> None:
        now = thread_cpus()
        found.update({number: now[number] for number in now.keys() - before - {own}})

    def watch() -> None:
        while not ended.wait(0.0005):
            look(str(threading.get_native_id()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
        look(str(watcher.native_id))  # a slow flush is still on
    finally:
        ended.set()
        watcher.join()


def take(library: Library, applier: Applier, output: dict[str, Any], rank: int) -> dict[str, Any]:
    """One output; what was seen of it."""
    if "chdir" in output:
        os.chdir(output["chdir"])
    if rank == 0 and "conf" in output:
        Path(library.prefix, ".scrconf").write_text(output["conf"])
    affinity = sorted(os.sched_getaffinity(0))
    applied = applier.apply(text_for(output) if rank == 0 else None)
    name = output["name"]
    library.start_output(name, CHECKPOINT)
    for file in range(output.get("files", 1)):
        path = Path(library.route_file(f"{name}/rank.{rank}" + (f".{file}" if file else "")))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(name, rank, output["bytes"]))
    calls = write_calls()
    with new_threads() as started, applier.around_flush():
        inside = sorted(os.sched_getaffinity(0))
        valid = library.complete_output(output.get("valid", True))
    return {
        "applied": dataclasses.asdict(applied) if applied else None,
        "dataset": library.dataset,
        "valid": valid,
        "write_calls": write_calls() - calls,
        "in_force": applier.in_force(),
        "cpus": [affinity, inside, sorted(os.sched_getaffinity(0))],
        "thread_cpus": list(started.values()),
        "async": library.function("scr_flush_async_in_progress")(),
        "halt_exit": library.integer("scr_halt_exit"),
        "need_count": library.integer("scr_need_checkpoint_count"),
    }


def read_back(library: Library, rank: int) -> dict[str, Any]:
    """Restart from what SCR has."""
    name = library.have_restart()
    if name is None:
        return {"name": None}
    assert library.start_restart() == name
    data = Path(library.route_file(f"{name}/rank.{rank}")).read_bytes()
    same = data == content(name, rank, len(data))
    return {"name": name, "same": same, "bytes": len(data), "valid": library.complete_restart(valid=same)}


def main() -> None:
    from mpi4py import MPI  # noqa: PLC0415 - test_libscr.py imports this file and is no MPI program

    plan = json.loads(Path(sys.argv[1]).read_text())
    library = Library(find(os.environ))
    for text in plan.get("config", ()):
        library.config(text)
    library.init()
    applier = Applier(library, plan.get("config", ()))
    rank = MPI.COMM_WORLD.rank
    seen: dict[str, Any] = {
        "version": library.version,
        "nodes": library.nodes(),
        "peers": library.peers(),
        "prefix": library.prefix,
        "capabilities": {name: list(each) for name, each in applier.capabilities.items()},
        "in_force": applier.in_force(),
        "environment": {name: text for name, text in os.environ.items() if name.startswith("SCR_")},
        "restart": read_back(library, rank) if plan.get("restart") else None,
        "outputs": [],
    }
    for output in plan["outputs"]:
        library.need_checkpoint()
        seen["outputs"].append(take(library, applier, output, rank))
    if plan.get("detach"):
        detached = applier.detach()
        seen["detached"] = dataclasses.asdict(detached) if detached else None
    seen["at_the_end"] = applier.in_force()
    seen["prefix_at_the_end"] = library.prefix
    seen["asked"] = [library.config(name) for name in plan.get("ask", ())]
    seen["refused"] = applier.refused
    seen["environment_at_the_end"] = {k: text for k, text in os.environ.items() if k.startswith("SCR_")}
    if not plan.get("crash"):  # as a job that ended early: what SCR has stays in the cache
        with applier.around_flush():
            library.finalize()
    (Path(sys.argv[2]) / str(rank)).write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
