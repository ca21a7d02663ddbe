"""Tables of traces made by the workers of a Dask cluster: some files a task, added up where they lie.

Adding tables is associative and commutative, so that who read what changes nothing. The workers see the files
under the same paths, as on a shared file system. Needs `pip install 'scrtune[dask]'`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import distributed
import msgspec
from distributed import Client, Future, as_completed

from ..units import rounded_duration_text
from .reading.cache import TableCache
from .reading.scan import Progress, file_size, read_files
from .reading.traces import find_traces
from .table import Reading, TraceTable, add_tables

SLURM = "slurm"

_TASK_BYTES = 64 << 20
_TASK_FILES = 256
_FAN_IN = 16
_RETRIES = 2
_AT_ONCE_S = 2.0
"""Workers that are there are seen within it."""
_SOON_S = 0.1


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """Connect to a scheduler: its address, the file that it wrote (.json), or ``slurm:JOBS``.

    Slurm's jobs are as Dask's own configuration says (jobqueue.slurm), and end with the context. Raises
    OSError, ValueError where it says too little, ModuleNotFoundError.
    """
    name, _, jobs = scheduler.partition(":")
    if name == SLURM:
        from dask_jobqueue import SLURMCluster  # noqa: PLC0415 - where there is no Slurm nobody needs it

        with SLURMCluster() as cluster, Client(cluster) as client:
            cluster.scale(jobs=int(jobs or 1))
            yield client
    else:
        is_file = scheduler.endswith(".json")
        with Client(scheduler_file=scheduler) if is_file else Client(scheduler) as client:
            yield client


def await_worker(client: Client, scheduler: str, wait_s: float, say: Callable[[str], None]) -> None:
    """Return once a worker is there; `say` what is waited for. Raises TimeoutError after `wait_s`."""
    for_s = rounded_duration_text(wait_s)
    try:
        client.wait_for_workers(1, timeout=min(wait_s, _AT_ONCE_S))
    except distributed.TimeoutError:
        say(f"waiting for a worker of {scheduler}, {for_s} at most")
    else:
        return
    try:
        client.wait_for_workers(1, timeout=max(wait_s - _AT_ONCE_S, _SOON_S))
    except distributed.TimeoutError:
        is_slurm = scheduler.partition(":")[0] == SLURM
        why = "squeue --me says what its jobs wait for" if is_slurm else "start some: dask worker ADDRESS"
        raise TimeoutError(
            f"no worker of {scheduler} has come in {for_s}: {why}; --scheduler-wait TIME waits longer"
        ) from None


def read_table(
    client: Client,
    paths: Sequence[Path],
    tiers: Mapping[str, str],
    *,
    cache: TableCache | None = None,
    progress: Progress | None = None,
) -> TraceTable:
    """Return the table of all traces in `paths`, as :func:`.scan.read_table` does.

    The workers' own directory is the cache's. An interrupt leaves what was read until then. Raises
    :class:`.TraceNotFoundError`.
    """
    files = [path.resolve() for path in find_traces(paths)]
    state = progress or Progress()
    state.expect(files)
    tasks = {
        client.submit(_read, list(map(str, part)), dict(tiers), cache, retries=_RETRIES, pure=False): part
        for part in _parts(files)
    }
    waiting = dict(tasks)
    made: list[Future] = []
    failed = TraceTable()
    try:
        for task in as_completed(tasks):
            part = waiting.pop(task)
            state.done_files += len(part)
            state.done_bytes += sum(map(file_size, part))
            if task.status == "finished":
                made.append(task)
            else:
                failed += _unread(part, f"not read by a worker: {task.exception()}")
            state.on_tick()
        added = _added(client, made)
    except KeyboardInterrupt:
        state.stop = True
        client.cancel(list(waiting))
        added = _added(client, made)
    unread = Reading(files=sum(map(len, waiting.values())), unread=sum(map(len, waiting.values())))
    table = add_tables((added, failed, TraceTable(reading=unread)))
    state.lines += table.reading.lines
    if cache is not None:
        cache.prune()
    return table


def _parts(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield files that are read together, the large ones first: they are not the last to end."""
    part: list[Path] = []
    size = 0
    for file in sorted(files, key=file_size, reverse=True):
        if part and (size + file_size(file) > _TASK_BYTES or len(part) == _TASK_FILES):
            yield part
            part, size = [], 0
        part.append(file)
        size += file_size(file)
    if part:
        yield part


def _unread(files: Sequence[Path], why: str) -> TraceTable:
    return TraceTable(reading=Reading(files=len(files), damage=tuple(f"{file}: {why}" for file in files)))


def _added(client: Client, tables: Sequence[Future]) -> TraceTable:
    """Return the sum of tables, added by the workers that have them, some at a time."""
    while len(tables) > 1:
        tables = [
            client.submit(_add, list(tables[start : start + _FAN_IN]), retries=_RETRIES, pure=False)
            for start in range(0, len(tables), _FAN_IN)
        ]
    return _decoded(tables[0].result()) if tables else TraceTable()


# What is sent are bytes: a table as objects is ten times as large, and slower to pickle than to encode.


def _read(files: Sequence[str], tiers: Mapping[str, str], cache: TableCache | None) -> bytes:
    """Return the table of `files`: on a worker, whose threads each have a task of their own."""
    paths = [Path(file) for file in files]
    return msgspec.msgpack.encode(read_files(paths, tiers, cache=cache, progress=Progress(), threads=1))


def _add(tables: Sequence[bytes]) -> bytes:
    return msgspec.msgpack.encode(add_tables(map(_decoded, tables)))


def _decoded(table: bytes) -> TraceTable:
    return msgspec.msgpack.decode(table, type=TraceTable)
